package v1

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// StepSpec is what a step runs. What it names no amount of, it shares with the primary
// and the other steps; what it names, no other step that names some has at the same time.
type StepSpec struct {
	Name        string            `json:"name,omitempty" maxLength:"200" doc:"label; by default the command's name"`
	Image       string            `json:"image,omitempty" doc:"image reference; by default the job's"`
	Host        bool              `json:"host,omitempty" doc:"a program on the machine itself, in no container, with the rights that you have there"`
	Command     []string          `json:"command,omitempty" doc:"in place of the image's entry point and command; by default those"`
	Args        []string          `json:"args,omitempty" doc:"in place of the image's command alone: arguments of its entry point, or of command"`
	Stdin       bool              `json:"stdin,omitempty" doc:"its program has an input, which who attaches gives; without a terminal the first who does, to its end"`
	TTY         bool              `json:"tty,omitempty" doc:"its program has a terminal"`
	AwaitAttach bool              `json:"await_attach,omitempty" doc:"its program begins once somebody is attached with its input or a terminal's size, 15s after the start in any case"`
	Env         map[string]string `json:"env,omitempty"`
	Workdir     string            `json:"workdir,omitempty"`
	Mounts      []Mount           `json:"mounts,omitempty"`
	Pull        string            `json:"pull,omitempty" doc:"missing (default), always, never"`
	CPU         Quantity          `json:"cpu,omitempty" doc:"cores, of the job's"`
	Mem         Quantity          `json:"mem,omitempty" doc:"of the job's"`
	GPU         Quantity          `json:"gpu,omitempty" doc:"so many of the job's devices; 0: none of them"`
	Time        Quantity          `json:"time,omitempty" doc:"longest run; by default as long as the job"`
	Grace       Quantity          `json:"grace,omitempty" doc:"between SIGTERM and SIGKILL; by default the job's"`
}

// Step is a program that a job runs: its primary, which is 1, or one beside it.
type Step struct {
	ID        string     `json:"id" doc:"the job's, a dot and a number: 118.2"`
	Job       string     `json:"job"`
	N         int        `json:"n"`
	State     string     `json:"state" doc:"queued, starting, running, stopping, ended"`
	Outcome   string     `json:"outcome,omitempty"`
	ExitCode  *int       `json:"exit_code,omitempty"`
	Message   string     `json:"message,omitempty" doc:"in words, what happened last, or what it waits for"`
	Spec      StepSpec   `json:"spec"`
	Attempt   int        `json:"attempt" doc:"of the job"`
	Image     string     `json:"image,omitempty" doc:"content digest that it runs"`
	Devices   []string   `json:"devices,omitempty"`
	Progress  string     `json:"progress,omitempty" doc:"e.g. pulling 40%"`
	Submitted time.Time  `json:"submitted"`
	Started   *time.Time `json:"started,omitempty"`
	Ended     *time.Time `json:"ended,omitempty"`
	Seq       int64      `json:"seq" doc:"log sequence of its last change"`
}

// StepStop says how a step is stopped.
type StepStop struct {
	Grace Quantity `json:"grace,omitempty" doc:"between SIGTERM and SIGKILL; by default the step's"`
	Now   bool     `json:"now,omitempty" doc:"SIGKILL at once, without grace"`
}

// StepQuery narrows a list of steps.
type StepQuery struct {
	State string // live, or all (default)
	Limit int
}

// AddStep adds a step to a running job.
func (c *Client) AddStep(ctx context.Context, job string, s StepSpec, opts ...Option) (*Step, error) {
	return postTo[Step](ctx, c, "job", job, "/v1/jobs/%s/steps", s, opts...)
}

// Steps goes through the steps of a job by number, those that it was given besides its
// primary.
func (c *Client) Steps(ctx context.Context, job string, q StepQuery) iter.Seq2[Step, error] {
	return pages[Step](ctx, c, "/v1/jobs/"+url.PathEscape(job)+"/steps", values("state", q.State, "limit", count(q.Limit)))
}

// Step returns a step; that of number 1 is the job's primary.
func (c *Client) Step(ctx context.Context, job string, n int) (*Step, error) {
	return get[Step](ctx, c, "job", job, "/v1/jobs/%s/steps/"+strconv.Itoa(n), nil)
}

// WaitStep waits until a step has come so far, as Wait does for a job. opt's Poll and Each
// are not for it.
func (c *Client) WaitStep(ctx context.Context, job string, n int, until Until, opt WaitOptions) (*Step, error) {
	return await(ctx, c, opt, waiting[Step]{
		ask: func(ctx context.Context, poll time.Duration) (*Step, error) {
			return get[Step](ctx, c, "job", job, "/v1/jobs/%s/steps/"+strconv.Itoa(n), values("wait", string(until), "timeout", poll.String()))
		},
		reached: func(s *Step) bool {
			return s.State == "ended" || until == Running && (s.State == "running" || s.State == "stopping")
		},
	})
}

// StopStep stops a step, and by its primary the job.
func (c *Client) StopStep(ctx context.Context, job string, n int, s StepStop) (*Step, error) {
	return postTo[Step](ctx, c, "job", job, "/v1/jobs/%s/steps/"+strconv.Itoa(n)+"/stop", s)
}
