package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) logsCmd() *cobra.Command {
	var q v1.LogQuery
	var since string
	cmd := &cobra.Command{
		Use:   "logs JOB[.STEP]",
		Short: "Print a job's output",
		Long: `Print a job's output: its standard output on standard output, its standard error
on standard error; or that of a further step. With -f it goes on until the job, or the
step, has ended.`,
		Example: `  croft logs 118
  croft logs -f -n 20 118.2
  croft logs --since 16:40 118`,
		Args:              needArgs(1, 1, "JOB[.STEP]"),
		ValidArgsFunction: a.jobIDs("all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since != "" {
				t, err := a.parseSince(since)
				if err != nil {
					return err
				}
				q.Since = t
			}
			job, step, err := jobOrStep(args[0])
			if err != nil {
				return err
			}
			q.Step = step
			c, err := a.client()
			if err != nil {
				return err
			}
			if q.Follow {
				q.Window = away
				for f, err := range c.FollowLogs(cmd.Context(), job, q) {
					if err != nil {
						return err
					}
					if err := a.writeFrame(f); err != nil {
						return err
					}
				}
				return nil
			}
			return a.printLog(cmd.Context(), c, job, q)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&q.Follow, "follow", "f", false, "go on until the job has ended")
	fs.IntVarP(&q.Tail, "tail", "n", 0, "only the last lines")
	fs.StringVar(&since, "since", "", "only from then on: 10m (ago), 16:40 or a date")
	fs.IntVar(&q.Attempt, "attempt", 0, "only of this attempt")
	fs.IntVar(&q.Rank, "rank", 0, "on which of a job's machines, from 0")
	return cmd
}

func (a *app) printLog(ctx context.Context, c *v1.Client, id string, q v1.LogQuery) error {
	log, err := c.Logs(ctx, id, q)
	if err != nil {
		return err
	}
	defer log.Close()
	for {
		f, err := log.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.writeFrame(f); err != nil {
			return err
		}
	}
}

// writeFrame writes a piece of output.
func (a *app) writeFrame(f v1.LogFrame) error { return a.kept.write(a.env, f) }

// keptOutput writes pieces of output that have come together at once. In between it keeps
// those of one stream.
type keptOutput struct {
	mu     sync.Mutex // whoever leaves doesn't wait for whoever follows
	stream byte
	data   []byte
}

// maxKept is how much output is written at once, in bytes.
const maxKept = 64 << 10

func (k *keptOutput) write(env Env, f v1.LogFrame) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stream != f.Stream {
		if err := k.flush(env); err != nil {
			return err
		}
		k.stream = f.Stream
	}
	k.data = append(k.data, f.Data...)
	if f.More && len(k.data) < maxKept {
		return nil
	}
	return k.flush(env)
}

// rest writes what is kept.
func (k *keptOutput) rest(env Env) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.flush(env)
}

func (k *keptOutput) flush(env Env) error {
	if len(k.data) == 0 {
		return nil
	}
	w := env.Stdout
	if k.stream == v1.Stderr {
		w = env.Stderr
	}
	_, err := w.Write(k.data)
	k.data = k.data[:0]
	return err
}

func (a *app) execCmd() *cobra.Command {
	var stdin, tty bool
	var rank int
	cmd := &cobra.Command{
		Use:   "exec JOB[.STEP] -- COMMAND…",
		Short: "Run a command in a running job",
		Long: `Run a command in a running job, beside what runs there, on the same devices; or in
a further step. It ends with the command's exit code.`,
		Example: `  croft exec 118 -- nvidia-smi
  croft exec 118.2 -- ps
  croft exec -it 118 -- bash`,
		Args: func(cmd *cobra.Command, args []string) error {
			if _, command := jobAndCommand(args); len(command) == 0 {
				return errors.New("which job and command? " + cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: a.jobIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if tty && !(a.env.Term.In && a.env.Term.Out) {
				return usage("-t: standard input and output aren't a terminal")
			}
			name, command := jobAndCommand(args)
			id, step, err := jobOrStep(name)
			if err != nil {
				return err
			}
			opt := v1.ExecOptions{Step: step, Rank: rank, Args: command, TTY: tty, Stdout: a.env.Stdout, Stderr: a.env.Stderr}
			if stdin {
				opt.Stdin = a.env.Stdin
			}
			code, err := a.exec(cmd.Context(), c, id, opt)
			if err != nil || code == 0 {
				return err
			}
			return exitStatus(code)
		},
	}
	cmd.Flags().BoolVarP(&stdin, "stdin", "i", false, "pass standard input on")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	cmd.Flags().IntVar(&rank, "rank", 0, "on which of a job's machines, from 0")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// jobAndCommand splits JOB [--] COMMAND….
func jobAndCommand(args []string) (id string, command []string) {
	if len(args) == 0 {
		return "", nil
	}
	id, command = args[0], args[1:]
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	return id, command
}

// exec runs a command; with a terminal, all keys are the command's.
func (a *app) exec(ctx context.Context, c *v1.Client, id string, opt v1.ExecOptions) (int, error) {
	if !opt.TTY {
		return c.Exec(ctx, id, opt)
	}
	restore, err := a.rawTerminal(ctx, &opt.Size, &opt.Resize)
	if err != nil {
		return 0, err
	}
	defer restore()
	return c.Exec(ctx, id, opt)
}

// sizes sends the terminal's size whenever it has changed.
func (a *app) sizes(ctx context.Context, changed <-chan os.Signal) <-chan v1.TerminalSize {
	sizes := make(chan v1.TerminalSize)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			size, ok := a.env.Term.Size()
			if !ok {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case sizes <- size:
			}
		}
	}()
	return sizes
}
