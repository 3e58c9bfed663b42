package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func (c *call) quote(in v1.JobSpec) (v1.Quote, error) {
	spec, err := workload.Parse(in, c.Reader.Defaults())
	if err != nil {
		return v1.Quote{}, err
	}
	home, err := c.home(spec)
	if err != nil {
		return v1.Quote{}, err
	}
	return c.Reader.Quote(c.p, spec, home)
}

// home is the caller's home on the host. It is looked up only for a spec with
// mounts: nothing else depends on it.
func (c *call) home(spec workload.Spec) (string, error) {
	if len(spec.Mounts) == 0 {
		return "", nil
	}
	who, _, err := c.person(c.p.Name)
	if err != nil {
		return "", err
	}
	return who.Home, nil
}

func (c *call) submit(in v1.JobSpec) (v1.Job, error) { return c.submitSpec(in, "") }

func (c *call) submitSpec(in v1.JobSpec, clone string) (v1.Job, error) {
	spec, err := workload.Parse(in, c.Reader.Defaults())
	if err != nil {
		return v1.Job{}, err
	}
	home, err := c.home(spec)
	if err != nil {
		return v1.Job{}, err
	}
	sum := sha256.Sum256(c.body)
	got, err := c.do(command.Submit{Spec: spec, Digest: hex.EncodeToString(sum[:]), Home: home, Clone: clone})
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
	return c.Reader.Jobs(c.r.Context(), c.p, query.JobQuery{
		ID: q.Get("id"), Account: q.Get("account"), User: q.Get("user"), State: q.Get("state"), Name: q.Get("name"),
		Partition: q.Get("partition"), QoS: q.Get("qos"), Node: q.Get("node"), From: from, To: to,
		Limit: int(limit), Cursor: q.Get("cursor"),
	})
}

// The bounds of a wait.
const (
	defaultWait = time.Minute
	maxWait     = 10 * time.Minute
)

func (c *call) job() (v1.Job, error) {
	q := c.r.URL.Query()
	name := c.path("id")
	if until := q.Get("wait"); until != "" {
		if until != "running" && until != "ended" {
			return v1.Job{}, fault.Invalid("wait", "must be running or ended")
		}
		timeout, err := span(q.Get("timeout"))
		if err != nil {
			return v1.Job{}, err
		}
		if err := c.wait(name, until, timeout); err != nil {
			return v1.Job{}, err
		}
	}
	return c.Reader.Job(c.r.Context(), c.p, name)
}

// wait returns when the job has come so far, or the time is up, or the server
// stops; what came of it is for the answer to say.
func (c *call) wait(name, until string, timeout time.Duration) error {
	long, stop, err := c.long()
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithTimeout(long, timeout)
	defer cancel()
	err = c.until(ctx, func() (bool, error) { return c.Reader.Reached(c.r.Context(), c.p, name, until) })
	if ctx.Err() != nil {
		return nil
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

func (c *call) stop(in v1.StopRequest) (v1.Job, error) {
	name := c.path("id")
	j, err := c.Reader.Find(c.r.Context(), c.p, name, access.JobControl)
	if err != nil {
		return v1.Job{}, err
	}
	if j.State == workload.Ended {
		return v1.Job{}, fault.New(codes.Conflict, "job %d has ended already", j.ID)
	}
	if _, err := c.do(command.JobStop{Job: j.ID, Now: in.Now}); err != nil {
		return v1.Job{}, err
	}
	return c.Reader.Job(c.r.Context(), c.p, name)
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
