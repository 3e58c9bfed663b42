package httpapi

import (
	"context"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/world"
)

// maxWords bounds the command of an exec.
const maxWords = 4096

// exec runs a command in a running job, for its owner alone: it acts as him there.
func (c *call) exec() error {
	req, err := c.execRequest()
	if err != nil {
		return err
	}
	return c.enter(entry{
		note: func(job id.Job, step int32) world.Command {
			return command.JobExec{Job: job, Step: step, Program: command.ProgramOf(req.Command), Words: len(req.Command), TTY: req.TTY}
		},
		run: func(ctx context.Context, step engine.StepID, s ends) (int, error) {
			req.Stdin, req.Stdout, req.Stderr, req.Resize = s.stdin, s.stdout, s.stderr, s.sizes
			return c.Engine.Exec(ctx, step, req)
		},
	})
}

func (c *call) execRequest() (engine.ExecRequest, error) {
	q := c.r.URL.Query()
	req := engine.ExecRequest{Command: q["arg"]}
	if len(req.Command) == 0 || req.Command[0] == "" || len(req.Command) > maxWords {
		return req, fault.Invalid("arg", "give the command, a word each")
	}
	var err error
	req.TTY, err = truth(q.Get("tty"), "tty")
	return req, err
}
