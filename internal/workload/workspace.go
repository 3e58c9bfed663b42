package workload

import (
	"strings"

	v1 "croft.dev/croft/api/v1"
)

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
