package app

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/loop/run"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/workload"
)

// connections counts who is in a job, by kind.
func (s *server) connections(job id.Job, kind idle.Signal) (open, last int64) {
	seen := s.presence.Of(job)[map[idle.Signal]presence.Kind{idle.SSH: presence.SSH, idle.Terminal: presence.Terminal, idle.Browser: presence.App}[kind]]
	return int64(seen.Open), seen.Last
}

// stopsAt is when an attempt is stopped if it stays idle, as far as was seen; 0: it isn't.
func (l *loops) stopsAt(a id.Attempt) int64 {
	v, _ := l.idle.Verdict(a)
	return v.StopAt
}

// basePath is what the paths of an app begin with for the app itself: what it was told,
// unless that is taken off on the way to it.
func (s *server) basePath(j *workload.Job, app workload.App) string {
	if app.Strip {
		return "/"
	}
	return run.BaseOf(s.appAddress, j, app)
}
