package httpapi

import (
	"context"
	"io"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/world"
)

// slowest is how long one who is attached may take for a message. The program waits for
// him meanwhile, as do all the others who are attached.
const slowest = 30 * time.Second

// attach joins the streams of what a job runs, for its owner alone.
func (c *call) attach() error {
	stdin, err := truth(c.r.URL.Query().Get("stdin"), "stdin")
	if err != nil {
		return err
	}
	return c.enter(entry{
		patience: c.slowest,
		note: func(job id.Job, step int32) world.Command {
			return command.JobAttach{Job: job, Step: step, Input: stdin}
		},
		run: func(ctx context.Context, step engine.StepID, s ends) (int, error) {
			req := engine.AttachRequest{Stdout: s.stdout, Stderr: s.stderr, Resize: s.sizes}
			if stdin {
				req.Stdin = s.stdin
			} else {
				go func() { _, _ = io.Copy(io.Discard, s.stdin) }() // what comes all the same; it ends with the session
			}
			return 0, c.Engine.Attach(ctx, step, req)
		},
	})
}
