package workload

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
)

// Workspace reports whether the job is one.
func (s Spec) Workspace() bool { return s.Kind == KindWorkspace }

// Rests puts a workspace to rest, at a time in ns, after what it did last or might have
// done. It is in no queue, and holds nothing any more.
func (j *Job) Rests(at int64, outcome codes.Outcome, exit int32, message string) {
	j.State, j.Rested, j.Outcome, j.ExitCode, j.Message = Stopped, at, outcome, exit, message
	j.In, j.Promise, j.Claim, j.Eligible, j.Aged = 0, 0, 0, 0, 0
	j.OwnTime()
	if j.Hold == HeldByUser {
		j.Hold = NoHold
	}
}

// Wakes lets a workspace that is stopped wait for its turn, at a time in ns, as spec says
// from now on and on terms that may be others than before.
func (j *Job) Wakes(at int64, spec Spec, billing string, factor int64) {
	before := j.terms()
	j.Spec, j.Billing, j.Factor = spec, billing, factor
	if j.terms() != before {
		j.Attempt.Terms = cmp.Or(j.Attempt.Terms, before)
		j.Past = slices.Clone(j.Past)
		for i, a := range j.Past {
			j.Past[i].Terms = cmp.Or(a.Terms, before)
		}
	}
	j.State, j.Rested, j.Outcome, j.ExitCode, j.Message, j.Requeues = Held, 0, "", 0, "", 0
	j.LineUp(at, at)
}

// Terms are what an attempt's charge follows from, besides its devices and its time.
type Terms struct {
	Partition string
	Billing   string
	Factor    int64
	CPU, Mem  int64
	Grace     int64
}

func (j *Job) terms() Terms {
	return Terms{j.Spec.Partition, j.Billing, j.Factor, j.Spec.Ranks() * j.Spec.CPU, j.Spec.Ranks() * j.Spec.Mem, j.Spec.Grace}
}

// TermsOf are those of one of the job's attempts.
func (j *Job) TermsOf(a Attempt) Terms {
	return cmp.Or(a.Terms, j.terms())
}

// Workspaces yields a user's workspaces by name, stopped ones too.
func (s *State) Workspaces(u id.User) iter.Seq[id.Job] {
	return func(yield func(id.Job) bool) {
		for n := range s.workspaces.From(namesake{user: u}) {
			if n.user != u || !yield(n.job) {
				return
			}
		}
	}
}

// Workspace returns a user's workspace by its name.
func (s *State) Workspace(u id.User, name string) (*Job, bool) {
	for k := range of(s.workspaces, u, name) {
		return s.Jobs.Get(k)
	}
	return nil, false
}

// workspace checks what makes a job a workspace: one that is stopped and started by its name.
func (p *parser) workspace(s *Spec, in v1.JobSpec) {
	if s.Name == "" {
		s.Name = workspaceName(nameOf(*s))
	}
	if !WorkspaceName(s.Name) {
		p.bad.Add("name", "%q can't be a workspace's: use at most 63 small letters, digits and dashes within, not digits alone", clip(s.Name))
	}
	if in.Array != "" {
		p.bad.Add("array", "a workspace is one job: leave it out, or submit a container job")
	}
	if in.Deadline != "" {
		p.bad.Add("deadline", "a workspace doesn't end by itself: time bounds each of its runs")
	}
	if in.After != "" {
		p.bad.Add("after", "a workspace starts when it is told to: leave it out, or submit a container job")
	}
}

// WorkspaceName reports whether a workspace may be called so. What is digits alone is a
// job's number.
func WorkspaceName(name string) bool {
	return hostLabel.MatchString(name) && strings.Trim(name, "0123456789") != ""
}

// workspaceName makes a workspace's name of another.
func workspaceName(from string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(from))
	name = strings.Trim(name[:min(len(name), 63)], "-")
	if !WorkspaceName(name) {
		return "workspace"
	}
	return name
}
