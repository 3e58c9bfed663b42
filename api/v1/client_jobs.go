package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Quote asks what a job would cost and when it would start, and changes nothing.
// A job that would be refused is an answer here, not an error.
func (c *Client) Quote(ctx context.Context, spec JobSpec) (*Quote, error) {
	return post[Quote](ctx, c, "/v1/quotes", spec)
}

// QuoteAccuracy compares what was said of jobs as they were submitted with what became of
// them, in a period as Statement has it, of those that the caller may read.
func (c *Client) QuoteAccuracy(ctx context.Context, period string) (*Accuracy, error) {
	out := new(Accuracy)
	if err := c.call(ctx, http.MethodGet, "/v1/quotes/accuracy", values("period", period), nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Submit submits a job. A refusal is a *Problem with code refused, the reasons
// and, where there is one, the remedy.
func (c *Client) Submit(ctx context.Context, spec JobSpec, opts ...Option) (*Job, error) {
	return post[Job](ctx, c, "/v1/jobs", spec, opts...)
}

// Job returns a job, or what is kept of a refused request ("R-7").
func (c *Client) Job(ctx context.Context, id string) (*Job, error) {
	return get[Job](ctx, c, "job", id, "/v1/jobs/%s", nil)
}

// Why explains a job as it stands now.
func (c *Client) Why(ctx context.Context, id string) (*Why, error) {
	return get[Why](ctx, c, "job", id, "/v1/jobs/%s/why", nil)
}

// Decisions lists what was decided of a job, the oldest first, with why it waited; with a
// time only what held then: the last of its states, and why it waited if it did.
func (c *Client) Decisions(ctx context.Context, id string, at time.Time) iter.Seq2[Decision, error] {
	seg, err := segment("job", id)
	if err != nil {
		return func(yield func(Decision, error) bool) { yield(Decision{}, err) }
	}
	q := url.Values{}
	if !at.IsZero() {
		q.Set("at", at.Format(time.RFC3339Nano))
	}
	return pages[Decision](ctx, c, "/v1/jobs/"+seg+"/decisions", q)
}

// Usage returns what a job uses of the machine, now and in the last hour.
func (c *Client) Usage(ctx context.Context, id string) (*Usage, error) {
	return get[Usage](ctx, c, "job", id, "/v1/jobs/%s/usage", nil)
}

// Stop stops a job and returns without waiting for its end.
func (c *Client) Stop(ctx context.Context, id string, req StopRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/stop", req, opts...)
}

// Start starts a stopped workspace, at today's price.
func (c *Client) Start(ctx context.Context, id string, req StartRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/start", req, opts...)
}

// Hold keeps a waiting job from starting until it is released.
func (c *Client) Hold(ctx context.Context, id string) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/hold", nil)
}

// Release takes a hold off a job.
func (c *Client) Release(ctx context.Context, id string) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/release", nil)
}

// Requeue stops a running job and has it wait again.
func (c *Client) Requeue(ctx context.Context, id string, req RequeueRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/requeue", req, opts...)
}

// Open returns an address of a job's application at which a browser is known as the
// caller, once.
func (c *Client) Open(ctx context.Context, id string, req OpenRequest) (*Opened, error) {
	return postTo[Opened](ctx, c, "job", id, "/v1/jobs/%s/open", req)
}

// Share lets others into a job's applications.
func (c *Client) Share(ctx context.Context, id string, req ShareRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/share", req, opts...)
}

// Unshare lets them no longer in.
func (c *Client) Unshare(ctx context.Context, id string, req UnshareRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/unshare", req, opts...)
}

// Apps goes through the jobs to whose applications or terminals the caller may come, his own
// and those that are shared with him, the newest first. After an error it ends.
func (c *Client) Apps(ctx context.Context, q AppQuery) iter.Seq2[AppJob, error] {
	return pages[AppJob](ctx, c, "/v1/apps", values("limit", count(q.Limit), "cursor", q.Cursor))
}

// Prioritize fixes a job's priority, or lets it follow from the job again.
func (c *Client) Prioritize(ctx context.Context, id string, req PriorityRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/priority", req, opts...)
}

// Extend gives a running job a longer time limit.
func (c *Client) Extend(ctx context.Context, id string, req ExtendRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/extend", req, opts...)
}

// Keep declares a running job to be at work, so that it isn't stopped for being idle.
func (c *Client) Keep(ctx context.Context, id string, req KeepRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/keep", req, opts...)
}

// Clone submits a job again, or a refused request, with changes.
func (c *Client) Clone(ctx context.Context, id string, req CloneRequest, opts ...Option) (*Job, error) {
	return postTo[Job](ctx, c, "job", id, "/v1/jobs/%s/clone", req, opts...)
}

// MaxPage is the most items that a page may have.
const MaxPage = 1000

// JobQuery selects jobs. The zero value selects the caller's own that haven't
// ended. Its texts are lists separated by commas: a job that is in the list of each
// that isn't empty is selected.
type JobQuery struct {
	ID        string
	Account   string
	User      string // "*" is every user that the caller may see
	State     string // also "live" or "all"
	Name      string
	Partition string
	QoS       string
	Node      string    // of the last attempt
	From      time.Time // only jobs that hadn't ended by then
	To        time.Time // only jobs submitted before then
	Elements  bool      // elements of arrays that have started, too
	View      string    // "brief": only what a list shows, for long lists
	Limit     int       // jobs per page; 0 is the server's default
	Cursor    string    // where the page begins
}

func (q JobQuery) values() url.Values {
	return values("id", q.ID, "account", q.Account, "user", q.User, "state", q.State, "name", q.Name,
		"partition", q.Partition, "qos", q.QoS, "node", q.Node, "from", instant(q.From), "to", instant(q.To),
		"limit", count(q.Limit), "cursor", q.Cursor, "elements", yes(q.Elements), "view", q.View)
}

// yes is a parameter that is true or left out.
func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// JobPage returns one page of jobs.
func (c *Client) JobPage(ctx context.Context, q JobQuery) (*Page[Job], error) {
	return list[Job](ctx, c, "/v1/jobs", q.values())
}

// Jobs goes through all jobs that q selects, fetching pages as it goes. After an
// error it ends.
func (c *Client) Jobs(ctx context.Context, q JobQuery) iter.Seq2[Job, error] {
	return pages[Job](ctx, c, "/v1/jobs", q.values())
}

// Until is a state to wait for.
type Until string

// The states that a job can be waited for.
const (
	Running Until = "running"
	Ready   Until = "ready" // and all its apps answer
	Ended   Until = "ended"
)

// WaitOptions changes how Wait waits.
type WaitOptions struct {
	// Poll returns how long the next request may wait before the server answers
	// with the job as it is; nil is a minute. It is given the job as last seen,
	// nil at first.
	Poll func(*Job) time.Duration
	// Window is how long the server may be away, as in a restart, before Wait
	// gives up; 0 gives up at once.
	Window time.Duration
	// Each, if set, gets the job after every request.
	Each func(*Job)
	// Away, if set, is called once whenever the server starts to be away.
	Away func(error)
}

// Wait waits until the job has reached or passed the state and returns it then.
func (c *Client) Wait(ctx context.Context, id string, until Until, opt WaitOptions) (*Job, error) {
	return await(ctx, c, opt, waiting[Job]{
		ask: func(ctx context.Context, poll time.Duration) (*Job, error) {
			return get[Job](ctx, c, "job", id, "/v1/jobs/%s", values("wait", string(until), "timeout", poll.String()))
		},
		reached: func(j *Job) bool { return j.reached(until) },
		poll:    opt.Poll, each: opt.Each,
	})
}

// waiting is what await asks for, and until when.
type waiting[T any] struct {
	ask     func(ctx context.Context, poll time.Duration) (*T, error) // answered within poll
	reached func(*T) bool
	poll    func(last *T) time.Duration // nil: a minute
	each    func(*T)                    // nil: nobody looks
}

// await asks until what is waited for has been reached.
func await[T any](ctx context.Context, c *Client, opt WaitOptions, w waiting[T]) (*T, error) {
	r := retrier{window: opt.Window}
	var last *T
	for {
		poll := time.Minute
		if w.poll != nil {
			poll = w.poll(last)
		}
		begin := time.Now()
		got, err := once(ctx, c, poll, w.ask)
		if err != nil {
			first := r.since.IsZero()
			if err = r.next(ctx, err); err != errAgain {
				return last, err
			}
			if first && opt.Away != nil {
				opt.Away(err)
			}
			continue
		}
		r.ok()
		last = got
		if w.each != nil {
			w.each(got)
		}
		if w.reached(got) {
			return got, nil
		}
		// A server that doesn't wait must not be asked without a pause.
		if early := poll - time.Since(begin); early > poll/2 {
			if err := sleep(ctx, min(early, time.Second)); err != nil {
				return last, err
			}
		}
	}
}

// once asks one time. A server that hangs must not hang its clients: a little after it
// should have answered, the request counts as lost.
func once[T any](ctx context.Context, c *Client, poll time.Duration, ask func(context.Context, time.Duration) (*T, error)) (*T, error) {
	bounded, cancel := context.WithTimeout(ctx, poll+15*time.Second)
	defer cancel()
	got, err := ask(bounded, poll)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, c.noAnswer(err, true)
	}
	return got, err
}

// reached tells whether the job is in the state or past it.
func (j *Job) reached(until Until) bool {
	switch j.State {
	case "ended", "refused", "stopped":
		return true // a workspace that is stopped comes no further by itself
	case "running":
		return until == Running || until == Ready && (len(j.Spec.Apps) == 0 || j.Ready != nil)
	case "suspended", "stopping":
		return until != Ended
	}
	return false
}

// EventQuery selects events, oldest first.
type EventQuery struct {
	After int64 // events with a greater sequence number
	Job   string
	Limit int
}

func (q EventQuery) values() url.Values {
	v := values("job", q.Job, "limit", count(q.Limit))
	if q.After > 0 {
		v.Set("after", strconv.FormatInt(q.After, 10))
	}
	return v
}

// EventPage returns one page of events. Events older than the server keeps are a
// *Problem with code gone.
func (c *Client) EventPage(ctx context.Context, q EventQuery) (*Page[Event], error) {
	return list[Event](ctx, c, "/v1/events", q.values())
}

// post creates something and returns it.
func post[T any](ctx context.Context, c *Client, path string, body any, opts ...Option) (*T, error) {
	out := new(T)
	if err := c.call(ctx, http.MethodPost, path, nil, body, out, opts...); err != nil {
		return nil, err
	}
	return out, nil
}
