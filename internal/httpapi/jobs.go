package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func (c *call) quote(in v1.JobSpec) (v1.Quote, error) {
	spec, err := c.spec(in)
	if err != nil {
		return v1.Quote{}, err
	}
	home, err := c.home(c.p.Name, spec)
	if err != nil {
		return v1.Quote{}, err
	}
	return c.Reader.Quote(c.r.Context(), c.p, spec, home)
}

func (c *call) quoteAccuracy() (v1.Accuracy, error) {
	return c.Reader.Accuracy(c.r.Context(), c.p, c.r.URL.Query().Get("period"))
}

// home is a user's home on the host. It is looked up only for a spec with
// mounts: nothing else depends on it.
func (c *call) home(user string, spec workload.Spec) (string, error) {
	if len(spec.Mounts) == 0 {
		return "", nil
	}
	who, _, err := c.person(user)
	if err != nil {
		return "", err
	}
	return who.Home, nil
}

func (c *call) submit(in v1.JobSpec) (v1.Job, error) { return c.submitSpec(in, "") }

func (c *call) submitSpec(in v1.JobSpec, clone string) (v1.Job, error) {
	spec, err := c.spec(in)
	if err != nil {
		return v1.Job{}, err
	}
	home, err := c.home(c.p.Name, spec)
	if err != nil {
		return v1.Job{}, err
	}
	sum := sha256.Sum256(c.body)
	said := c.Reader.Said(c.r.Context(), c.p, spec, home)
	got, err := c.submitAfter(command.Submit{Spec: spec, Digest: hex.EncodeToString(sum[:]), Home: home, Clone: clone, Window: said})
	if err != nil {
		return v1.Job{}, err
	}
	if got.Replayed != nil {
		return c.submittedBefore(*got.Replayed)
	}
	accepted, ok := got.Result.(admission.Accepted)
	if !ok {
		return v1.Job{}, unexpected(got)
	}
	return c.Reader.Accepted(c.p, accepted)
}

// lookUps bounds how often the past is looked up: again only if one of the jobs has
// ended in between.
const lookUps = 3

// submitAfter submits with what has become of the jobs to wait for.
func (c *call) submitAfter(cmd command.Submit) (got sequencer.Answer, err error) {
	for range lookUps {
		if cmd.Past, err = c.Reader.Past(c.r.Context(), cmd.Spec.After); err != nil {
			return got, err
		}
		if got, err = c.do(cmd); !errors.Is(err, admission.ErrEndedMeanwhile) {
			break
		}
	}
	return got, err
}

// submittedBefore answers a repeated submission with the job as it is now, or with
// the same refusal.
func (c *call) submittedBefore(k world.Key) (v1.Job, error) {
	if k.Refusal != 0 {
		return v1.Job{}, c.Reader.Refused(c.r.Context(), c.p, k.Refusal)
	}
	return c.Reader.Job(c.r.Context(), c.p, strconv.FormatInt(int64(k.Job), 10))
}

func (c *call) clone(in v1.CloneRequest) (v1.Job, error) {
	name := c.path("id")
	spec, err := c.Reader.SpecOf(c.r.Context(), c.p, name)
	if err != nil {
		return v1.Job{}, err
	}
	spec.AwaitAttach = false // nobody is on the way
	if spec, err = changed(spec, in.Set); err != nil {
		return v1.Job{}, err
	}
	return c.submitSpec(spec, name)
}

func (c *call) jobs() (v1.Page[v1.Job], error) {
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return v1.Page[v1.Job]{}, err
	}
	from, err := instant(q.Get("from"), "from")
	if err != nil {
		return v1.Page[v1.Job]{}, err
	}
	to, err := instant(q.Get("to"), "to")
	if err != nil {
		return v1.Page[v1.Job]{}, err
	}
	elements, err := truth(q.Get("elements"), "elements")
	if err != nil {
		return v1.Page[v1.Job]{}, err
	}
	view := q.Get("view")
	if view != "" && view != "brief" {
		return v1.Page[v1.Job]{}, fault.Invalid("view", "must be brief, or left out")
	}
	return c.Reader.Jobs(c.r.Context(), c.p, query.JobQuery{
		ID: q.Get("id"), Account: q.Get("account"), User: q.Get("user"), State: q.Get("state"), Name: q.Get("name"),
		Elements: elements, Brief: view != "", Partition: q.Get("partition"), QoS: q.Get("qos"), Node: q.Get("node"), From: from, To: to,
		Limit: int(limit), Cursor: q.Get("cursor"),
	})
}

// The bounds of a wait.
const (
	defaultWait = time.Minute
	maxWait     = 10 * time.Minute
)

func (c *call) job() (v1.Job, error) {
	name := c.path("id")
	if until, timeout, err := c.waits(); err != nil {
		return v1.Job{}, err
	} else if until != "" {
		reached := func() (bool, error) { return c.Reader.Reached(c.r.Context(), c.p, name, until) }
		if err := c.wait(timeout, reached); err != nil {
			return v1.Job{}, err
		}
	}
	return c.Reader.Job(c.r.Context(), c.p, name)
}

// waits is what the request wants to wait for, "" for nothing, and for how long.
func (c *call) waits() (until string, timeout time.Duration, err error) {
	q := c.r.URL.Query()
	switch until = q.Get("wait"); until {
	case "", "running", "ready", "ended":
		timeout, err = span(q.Get("timeout"))
		return until, timeout, err
	}
	return "", 0, fault.Invalid("wait", "must be running, ready or ended")
}

// wait returns when it has been reached, or the time is up, or the server stops; what
// came of it is for the answer to say.
func (c *call) wait(timeout time.Duration, reached func() (bool, error)) error {
	long, stop, err := c.long(basis{})
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithTimeout(long, timeout)
	defer cancel()
	err = c.until(ctx, reached)
	if ctx.Err() != nil {
		return c.still()
	}
	return err
}

func span(s string) (time.Duration, error) {
	if s == "" {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fault.Invalid("timeout", "must be a span such as 60s")
	}
	return min(d, maxWait), nil
}

func (c *call) why() (v1.Why, error) { return c.Reader.Why(c.r.Context(), c.p, c.path("id")) }

func (c *call) decisions() (v1.Page[v1.Decision], error) {
	at, err := instant(c.r.URL.Query().Get("at"), "at")
	if err != nil {
		return v1.Page[v1.Decision]{}, err
	}
	return page(c.Reader.Decisions(c.r.Context(), c.p, c.path("id"), at))
}

func (c *call) usage() (v1.Usage, error) { return c.Reader.Usage(c.r.Context(), c.p, c.path("id")) }

// stop stops a job, or elements of an array: 12_7, 12_[0-5,9] or as the body says.
func (c *call) stop(in v1.StopRequest) (v1.Job, error) {
	name, err := c.stopNamed(c.path("id"), in)
	if err != nil {
		return v1.Job{}, err
	}
	return c.Reader.Job(c.r.Context(), c.p, name)
}

// stopNamed stops what name is, and returns the name of the job that shows it.
func (c *call) stopNamed(name string, in v1.StopRequest) (string, error) {
	if array, set, ok := strings.Cut(name, "_["); ok {
		name, in.Elements = array, strings.TrimSuffix(set, "]")
	}
	grace, err := stopGrace(in.Grace)
	if err != nil {
		return "", err
	}
	cmd := command.JobStop{Now: in.Now || grace == 0, Grace: max(grace, 0), Delete: in.Delete}
	if in.Elements != "" {
		if cmd.Elements, err = workload.ParseElements(in.Elements); err != nil {
			return "", fault.Invalid("elements", "%v", err)
		}
	}
	j, err := c.live(name, "")
	if err != nil {
		return "", err
	}
	if j.Array == nil && cmd.Elements != nil {
		return "", fault.Invalid("elements", "job %s isn't an array", j.Name())
	}
	if j.Spec.Workspace() {
		name = j.Name() // its other name is gone with it
	}
	array, index, waits := j.ID.Array()
	if cmd.Job = array; waits {
		name, cmd.Elements = strconv.FormatInt(int64(array), 10), workload.Elements{{First: index, Last: index, Step: 1}}
	}
	again := c.queuedAgain(j, cmd.Elements)
	if _, err := c.do(cmd); err != nil {
		return "", err
	}
	for _, k := range again {
		if _, err := c.do(command.JobStop{Job: k, Now: cmd.Now, Grace: cmd.Grace}); err != nil && fault.Of(err) != codes.NotFound {
			return "", err
		}
	}
	return name, nil
}

// queuedAgain lists the elements of an array that have run and wait again: they end
// each by itself.
func (c *call) queuedAgain(j *workload.Job, among workload.Elements) []id.Job {
	w := c.Sequencer.World()
	var out []id.Job
	for e := range w.Workload.ElementsOf(j.ID) {
		if !workload.RulesOf(e.State).Running && (among == nil || among.Has(e.Index)) {
			out = append(out, e.ID)
		}
	}
	return out
}

func (c *call) hold() (v1.Job, error) {
	return c.control("", func(j *workload.Job) world.Command { return command.JobHold{Job: j.ID} })
}

func (c *call) release() (v1.Job, error) {
	return c.control("", func(j *workload.Job) world.Command { return command.JobRelease{Job: j.ID} })
}

func (c *call) requeue(in v1.RequeueRequest) (v1.Job, error) {
	anew := ": croft clone submits it anew"
	return c.control(anew, func(j *workload.Job) world.Command { return command.JobRequeue{Job: j.ID, Hold: in.Hold} })
}

// control has something done to a job that hasn't ended; else instead says what helps.
func (c *call) control(instead string, cmd func(*workload.Job) world.Command) (v1.Job, error) {
	name := c.path("id")
	j, err := c.live(name, instead)
	if err != nil {
		return v1.Job{}, err
	}
	if j.ID < 0 {
		return v1.Job{}, fault.New(codes.Conflict, "%s hasn't started, and waits as a part of %d: name that", name, j.Of)
	}
	if _, err := c.do(cmd(j)); err != nil {
		return v1.Job{}, err
	}
	return c.Reader.Job(c.r.Context(), c.p, name)
}

func (c *call) keep(in v1.KeepRequest) (v1.Job, error) {
	if in.For == "" {
		return v1.Job{}, fault.Invalid("for", "is missing: give a time such as 6h, or 0")
	}
	span, err := quantity.ParseDuration(string(in.For))
	if err != nil {
		return v1.Job{}, fault.Invalid("for", "%v", err)
	}
	return c.control("", func(j *workload.Job) world.Command { return command.JobKeep{Job: j.ID, For: span} })
}

func (c *call) extend(in v1.ExtendRequest) (v1.Job, error) {
	name := c.path("id")
	k, err := c.started(name, access.JobRead)
	if err != nil {
		return v1.Job{}, err
	}
	span, err := wallOf(in.Time)
	if err != nil {
		return v1.Job{}, err
	}
	if _, err := c.do(command.JobExtend{Job: k, Time: span}); err != nil {
		return v1.Job{}, err
	}
	return c.Reader.Job(c.r.Context(), c.p, name)
}

// wallOf is a time limit, in ns.
func wallOf(q v1.Quantity) (int64, error) {
	span, err := quantity.ParseDuration(string(q))
	if err != nil {
		return 0, fault.Invalid("time", "must be the limit from the job's start on, such as 36h")
	}
	return span, nil
}

// started finds a job that has started and not ended.
func (c *call) started(name string, action access.Action) (id.Job, error) {
	j, err := c.Reader.Find(c.r.Context(), c.p, name, action)
	switch {
	case err != nil:
		return 0, err
	case j.State == workload.Ended:
		return 0, fault.New(codes.Conflict, "job %s has ended already", j.Name())
	case j.ID < 0:
		return 0, fault.New(codes.Conflict, "%s hasn't started, and waits as a part of %d", name, j.Of)
	}
	return j.ID, nil
}

func (c *call) prioritize(in v1.PriorityRequest) (v1.Job, error) {
	name := c.path("id")
	if (in.Points == nil) != in.Clear {
		return v1.Job{}, fault.Invalid("points", "give either points or clear")
	}
	j, err := c.Reader.Find(c.r.Context(), c.p, name, access.JobRead)
	if err != nil {
		return v1.Job{}, err
	}
	if j.State == workload.Ended {
		return v1.Job{}, fault.New(codes.Conflict, "job %d has ended already", j.ID)
	}
	if _, err := c.do(command.JobPrioritize{Job: j.ID, Points: in.Points}); err != nil {
		return v1.Job{}, err
	}
	return c.Reader.Job(c.r.Context(), c.p, name)
}

func (c *call) fairShare() (v1.FairShare, error) {
	return c.Reader.FairShare(c.p, c.r.URL.Query().Get("of"))
}

// live is a job that the caller may do something to and that hasn't ended.
func (c *call) live(name, instead string) (*workload.Job, error) {
	j, err := c.Reader.Find(c.r.Context(), c.p, name, access.JobControl)
	if err == nil && j.State == workload.Ended {
		err = fault.New(codes.Conflict, "job %s has ended already%s", j.Name(), instead)
	}
	return j, err
}

// number reads a parameter that is a whole number; empty is 0.
func number(s, field string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.Invalid(field, "must be a whole number")
	}
	return n, nil
}

// instant reads a parameter that is a point in time, in ns; empty is 0.
func instant(s, field string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		return 0, fault.Invalid(field, "must be a time such as 2026-12-01T16:40:00Z")
	}
	return t.UnixNano(), nil
}

// truth reads a parameter that is true or false; empty is false.
func truth(s, field string) (bool, error) {
	if s == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fault.Invalid(field, "must be true or false")
	}
	return b, nil
}

// page is a list that fits one page.
func page[T any](items []T, err error) (v1.Page[T], error) { return v1.Page[T]{Items: items}, err }

func unexpected(got sequencer.Answer) error { return &resultError{got.Result} }
