package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// cconLogFlags are those of ccon logs.
type cconLogFlags struct {
	follow, stamps           bool
	tail, since, until, node string
}

func (a *app) cconLogsCmd() *cobra.Command {
	var f cconLogFlags
	cmd := &cobra.Command{
		Use:   "logs [flags] CONTAINER",
		Short: "Print a container's output",
		Long: `Print a container's output: its standard output on standard output, its standard error
on standard error. With -f it goes on until the container has ended. Times are given as
10m (ago), 16:40, a date, RFC 3339 or seconds since 1970.`,
		Example: `  ccon logs -f --tail 20 118
  ccon logs -t --since 10m 118.2
  ccon logs --since 16:00 --until 16:30 118`,
		Args:              needArgs(1, 1, "CONTAINER"),
		ValidArgsFunction: a.containerIDs("all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, n, err := container(args[0])
			if err != nil {
				return err
			}
			q, until, err := f.read(a)
			if err != nil {
				return err
			}
			q.Step = n
			return a.cconLogs(cmd.Context(), job, q, until, f)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on until the container has ended")
	fs.StringVar(&f.tail, "tail", "all", "only so many of the last lines")
	fs.BoolVarP(&f.stamps, "timestamps", "t", false, "begin each line with its time")
	fs.StringVar(&f.since, "since", "", "only from then on")
	fs.StringVar(&f.until, "until", "", "only until then")
	nodeFlag(fs, &f.node)
	return cmd
}

func (f *cconLogFlags) read(a *app) (q v1.LogQuery, until time.Time, err error) {
	q = v1.LogQuery{Follow: f.follow, Window: away}
	if f.tail != "all" {
		n, err := strconv.ParseUint(f.tail, 10, 31)
		if err != nil {
			return q, until, usage("--tail %s: want a number of lines, or all", f.tail)
		}
		if q.Tail = int(n); n == 0 {
			q.Tail = v1.NoLines
		}
	}
	if f.since != "" {
		if q.Since, err = a.dockerTime(f.since); err != nil {
			return q, until, usage("--since %v", err)
		}
	}
	if f.until != "" {
		if until, err = a.dockerTime(f.until); err != nil {
			return q, until, usage("--until %v", err)
		}
	}
	return q, until, nil
}

// dockerTime reads a time in the past, also as seconds since 1970.
func (a *app) dockerTime(s string) (time.Time, error) {
	if seconds, part, _ := strings.Cut(s, "."); len(seconds) > 8 && !strings.ContainsFunc(seconds+part, func(r rune) bool { return r < '0' || r > '9' }) {
		sec, err := strconv.ParseInt(seconds, 10, 40)
		nsec, nerr := strconv.ParseInt((part + "000000000")[:9], 10, 64)
		if err = errors.Join(err, nerr); err == nil {
			return time.Unix(sec, nsec), nil
		}
	}
	if t, err := time.ParseInLocation("2006-01-02T15:04:05", s, a.env.Zone); err == nil {
		return t, nil
	}
	return a.parseSince(s)
}

// cconLogs prints a container's log until its end, or until a point in time.
func (a *app) cconLogs(ctx context.Context, job string, q v1.LogQuery, until time.Time, f cconLogFlags) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := a.nodeIs(ctx, job, f.node); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !until.IsZero() && q.Follow {
		defer time.AfterFunc(until.Sub(a.env.Now()), cancel).Stop()
	}
	out := stamped{a: a, on: f.stamps}
	for frame, err := range frames(ctx, c, job, q) {
		switch {
		case err != nil && ctx.Err() != nil && !until.IsZero():
			return nil // its time is over
		case err != nil:
			return err
		case !until.IsZero() && frame.At.After(until):
			return nil
		}
		if err := out.write(frame); err != nil {
			return err
		}
	}
	return nil
}

// frames goes through a log, as it is or as it grows.
func frames(ctx context.Context, c *v1.Client, job string, q v1.LogQuery) iter.Seq2[v1.LogFrame, error] {
	if q.Follow {
		return c.FollowLogs(ctx, job, q)
	}
	return func(yield func(v1.LogFrame, error) bool) {
		log, err := c.Logs(ctx, job, q)
		if err != nil {
			yield(v1.LogFrame{}, err)
			return
		}
		defer log.Close()
		for {
			f, err := log.Next()
			if err == io.EOF || !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// stamped writes a log, each line with its time if that is on.
type stamped struct {
	a      *app
	on     bool
	midway [v1.LogError]bool // by stream: within a line
}

func (s *stamped) write(f v1.LogFrame) error {
	if !s.on {
		return s.a.writeFrame(f)
	}
	stamp := []byte(f.At.UTC().Format("2006-01-02T15:04:05.000000000Z") + " ")
	var out []byte
	for line := range bytes.Lines(f.Data) {
		if !s.midway[f.Stream] {
			out = append(out, stamp...)
		}
		out = append(out, line...)
		s.midway[f.Stream] = line[len(line)-1] != '\n'
	}
	return s.a.writeFrame(v1.LogFrame{Stream: f.Stream, At: f.At, Data: out, More: f.More})
}

func (a *app) cconExecCmd() *cobra.Command {
	var stdin, tty bool
	var node string
	cmd := &cobra.Command{
		Use:   "exec [flags] CONTAINER COMMAND [ARG…]",
		Short: "Run a command in a running container",
		Long: `Run a command in a running container, beside what runs there. It ends with the
command's exit code.`,
		Example: `  ccon exec 118 nvidia-smi
  ccon exec -it 118.2 sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			if _, command := jobAndCommand(args); len(command) == 0 {
				return errors.New("which container and command? " + cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: a.containerIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command := jobAndCommand(args)
			job, n, err := container(name)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if tty && !(a.env.Term.In && a.env.Term.Out) {
				return usage("-t: standard input and output aren't a terminal")
			}
			if err := a.nodeIs(cmd.Context(), job, node); err != nil {
				return err
			}
			opt := v1.ExecOptions{Step: n, Args: command, TTY: tty, Stdout: a.env.Stdout, Stderr: a.env.Stderr}
			if stdin {
				opt.Stdin = a.env.Stdin
			}
			code, err := a.exec(cmd.Context(), c, job, opt)
			if err != nil || code == 0 {
				return err
			}
			return exitStatus(code)
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.BoolVarP(&stdin, "interactive", "i", false, "pass standard input on")
	fs.BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	nodeFlag(fs, &node)
	transportFlag(fs)
	return cmd
}

func (a *app) cconAttachCmd() *cobra.Command {
	var stdin, stdout, stderr bool
	var keys, node string
	cmd := &cobra.Command{
		Use:   "attach [flags] CONTAINER",
		Short: "Join the streams of a running container",
		Long: `Join the streams of a running container: what it writes from now on comes here, and what
is typed here goes to it, if it was run with -i. It ends with the container, with its
exit code. On a terminal every key is the container's; ctrl-p and then ctrl-q detach from
it, and it goes on.`,
		Example: `  ccon attach 118
  ccon attach --stdin=false 118.2`,
		Args:              needArgs(1, 1, "CONTAINER"),
		ValidArgsFunction: a.containerIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, n, err := container(args[0])
			if err != nil {
				return err
			}
			j := joint{name: clean(args[0]), job: job, step: n, stdout: io.Discard, stderr: io.Discard}
			if j.keys, err = parseKeys(keys); err != nil {
				return err
			}
			if stdout {
				j.stdout = a.env.Stdout
			}
			if stderr {
				j.stderr = a.env.Stderr
			}
			if err := a.nodeIs(cmd.Context(), job, node); err != nil {
				return err
			}
			return a.attach(cmd.Context(), j, stdin)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&stdin, "stdin", true, "pass standard input on")
	fs.BoolVar(&stdout, "stdout", true, "show its standard output")
	fs.BoolVar(&stderr, "stderr", true, "show its standard error")
	fs.Bool("tty", false, "not needed: a container has the terminal that it was run with")
	keysFlag(cmd, &keys)
	nodeFlag(fs, &node)
	transportFlag(fs)
	return cmd
}
