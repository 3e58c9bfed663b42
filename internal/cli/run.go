package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) runCmd() *cobra.Command {
	var f specFlags
	var key string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "run [flags] IMAGE [COMMAND…]",
		Short: "Run a job in the foreground",
		Long: `Submit a job and stay with it: its output comes here, and its exit code is
croft's. Quote, progress and receipt go to standard error. Flags end at the image.
With --host the program runs on the machine itself, in the folder where croft runs and
with your own rights: flags end at --, and all that follows is the command.

Ctrl-C asks once: the first says how to go on without the job, the second cancels
the job and waits for its end, the third leaves at once. Where nobody can answer
(standard input or error isn't a terminal), the first cancels. SIGTERM cancels.
When croft itself dies, or the server restarts, the job goes on.

A job that Croft ended, by its time limit for example, never ends with 0 here.`,
		Example: `  croft run --gpu 1 -c 8 --mem 64G -t 2h train:1 python train.py
  croft run -f job.yaml --gpu 2
  croft run --host -c 4 -- make test`,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.read(a, cmd, args)
			if err != nil {
				return err
			}
			if spec.Array != "" {
				return usage("--array: croft run stays with one job; submit the array with croft submit, and follow an element with croft logs -f JOB_INDEX")
			}
			if spec.Stdin {
				if err := a.comeAlong(spec.TTY); err != nil {
					return err
				}
				spec.AwaitAttach = true
				if !spec.TTY && len(spec.Requeue) == 0 {
					spec.Requeue = []string{"never"} // the input can't be given again
				}
			}
			job, err := a.submit(cmd.Context(), spec, key)
			if err != nil {
				return err
			}
			return a.follow(cmd.Context(), job, quietly(quiet))
		},
	}
	f.register(a, cmd)
	keyFlag(cmd, &key)
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no quote, progress and receipt")
	return cmd
}

// drain is how long the rest of a log may take after the job has ended.
const drain = 15 * time.Second

// telling is how much is said of a job in the foreground.
type telling int

const (
	tellAll     telling = iota // quote, progress and receipt
	tellTrouble                // why it didn't end as it should; on a terminal also how far it is before it begins
	tellNothing                // only the program's own output
)

func quietly(quiet bool) telling {
	if quiet {
		return tellNothing
	}
	return tellAll
}

// follow stays with a job until its end and returns its exit code as an error.
func (a *app) follow(ctx context.Context, job *v1.Job, tell telling) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	signals, stop := a.env.Signals(os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := newFollower(a, c, clean(job.ID), tell)
	if job.Spec.AwaitAttach {
		f.joint = &joint{name: f.id, job: f.id, step: 1, tty: job.Spec.TTY, in: newInput(ctx, a.env.Stdin), stdout: noting{f, a.env.Stdout}, stderr: noting{f, a.env.Stderr}}
		f.joint.keys, _ = parseKeys(defaultKeys)
	}
	f.say("%s", a.jobQuote(job))
	return f.run(ctx, signals)
}

// follower is one job in the foreground. Its fields belong to the goroutine of
// run, except for the output's.
type follower struct {
	a    *app
	c    *v1.Client
	id   string
	tell telling
	intr interrupts
	bar  progress

	joint   *joint // what it attaches to; nil: it follows the log
	outputs int    // that haven't come to their end

	seen    chan *v1.Job   // the job, whenever it was looked at
	ended   chan endResult // once
	logged  chan error     // an output is complete, or is missed
	stopped chan error     // the answer to a cancellation
	gate    chan struct{}  // closed when the job's output may be shown
	open    bool
	started bool
	seq     int64       // of the last view that was observed
	midline atomic.Bool // the job's output on the terminal is within a line
}

type endResult struct {
	job *v1.Job
	err error
}

func newFollower(a *app, c *v1.Client, id string, tell telling) *follower {
	return &follower{
		a: a, c: c, id: id, tell: tell,
		intr:    interrupts{ask: a.env.Term.In && a.env.Term.Err && tell != tellTrouble},
		bar:     progress{w: a.env.Stderr, inPlace: a.env.Term.Err, now: a.env.Now},
		seen:    make(chan *v1.Job),
		ended:   make(chan endResult, 1),
		logged:  make(chan error, 1),
		stopped: make(chan error, 1),
		gate:    make(chan struct{}),
	}
}

// run waits for the end. Everything that can be asked at once is asked at once:
// the log, the start and the end are three requests that the server answers when
// there is something to say, so that a short job costs no round trip more.
func (f *follower) run(ctx context.Context, signals <-chan os.Signal) error {
	if f.joint == nil {
		f.outputs = 1
		go f.pumpLog(ctx)
	}
	go f.awaitEnd(ctx)
	go f.awaitStart(ctx)
	var end *endResult
	var late <-chan time.Time
	var missing error
	for end == nil || f.outputs > 0 {
		select {
		case job := <-f.seen:
			f.observe(ctx, job)
		case r := <-f.ended:
			end = &r
			if r.err != nil {
				return f.lost(r.err)
			}
			f.observe(ctx, r.job)
			late = time.After(drain)
		case err := <-f.logged:
			if f.outputs--; f.joint != nil && err != nil {
				return f.leave(err)
			}
			missing = err
		case <-late:
			missing, f.outputs = errors.New("it doesn't come"), 0
		case err := <-f.stopped:
			if err != nil {
				f.intr.stopping = false
				f.warn("%s couldn't be cancelled: %s", f.id, clean(err.Error()))
			}
		case sig := <-signals:
			if f.interrupt(ctx, sig) {
				return exitStatus(exitInterrupted)
			}
		}
	}
	if missing != nil {
		f.warn("the rest of the output is missing (%s): croft logs %s", clean(missing.Error()), f.id)
	}
	return f.finish(end.job)
}

// interrupt acts on a signal and tells whether to leave.
func (f *follower) interrupt(ctx context.Context, sig os.Signal) bool {
	switch f.intr.next(sig) {
	case actAsk:
		f.warn("^C again cancels job %s; it goes on otherwise: croft logs -f %s", f.id, f.id)
	case actCancel:
		f.warn("cancelling %s", f.id)
		go func() {
			f.stopped <- v1.Retry(ctx, away, func() error {
				_, err := f.c.Stop(ctx, f.id, v1.StopRequest{})
				return err
			})
		}()
	case actLeave:
		f.warn("left %s: croft show %s", f.id, f.id)
		return true
	}
	return false
}

// lost is the end of following a job whose server doesn't answer any more.
func (f *follower) lost(err error) error {
	f.bar.clear()
	f.warn("job %s goes on: croft logs -f %s", f.id, f.id)
	return err
}

func (f *follower) pumpLog(ctx context.Context) {
	f.logged <- f.copyLog(ctx)
}

func (f *follower) copyLog(ctx context.Context) error {
	for frame, err := range f.c.FollowLogs(ctx, f.id, v1.LogQuery{Window: away}) {
		if err != nil {
			return err
		}
		select { // the line that says where the job runs comes first
		case <-f.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		if n := len(frame.Data); n > 0 {
			f.midline.Store(frame.Data[n-1] != '\n')
		}
		if err := f.a.writeFrame(frame); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) awaitEnd(ctx context.Context) {
	job, err := f.c.Wait(ctx, f.id, v1.Ended, v1.WaitOptions{Window: away, Each: func(j *v1.Job) { f.report(ctx, j) }})
	f.ended <- endResult{job, err}
}

func (f *follower) awaitStart(ctx context.Context) {
	// What goes wrong here goes wrong in awaitEnd too, which reports it.
	_, _ = f.c.Wait(ctx, f.id, v1.Running, v1.WaitOptions{Window: away, Poll: startPoll, Each: func(j *v1.Job) { f.report(ctx, j) }})
}

// startPoll asks often while an image is pulled, for its progress, and rarely
// while the job is in the queue.
func startPoll(j *v1.Job) time.Duration {
	if j != nil && j.State == "starting" {
		return time.Second
	}
	return 5 * time.Second
}

func (f *follower) report(ctx context.Context, j *v1.Job) {
	if j.State == "ended" {
		return // awaitEnd's result says that
	}
	select {
	case f.seen <- j:
	case <-ctx.Done():
	}
}

// observe says what is new about the job. Two requests look at it, so that an
// older view may come after a newer one, and says nothing then.
func (f *follower) observe(ctx context.Context, j *v1.Job) {
	if j.Seq < f.seq {
		return
	}
	f.seq = j.Seq
	waits := j.State == "queued" || j.State == "held" || j.State == "starting"
	switch {
	case waits && f.started:
		f.started = false
		f.warn("%s waits again%s", f.id, because(j.Message))
		go f.awaitStart(ctx)
	case waits:
		if f.tell == tellAll || f.tell == tellTrouble && f.bar.inPlace {
			f.bar.show(f.id+" "+f.phase(j), j.Progress != "" || j.State == "starting")
		}
		return
	case j.Started != nil && !f.started:
		f.started = true
		where := ""
		if j.Node != "" {
			where = " on " + clean(j.Node)
			if len(j.Devices) > 0 {
				where = " on " + clean(strings.Join(j.Devices, " "))
			}
		}
		f.say("%s running%s", f.id, where)
		if f.joint != nil {
			f.outputs++
			go f.pumpStreams(ctx)
		}
	}
	f.bar.clear()
	if !f.open && !waits {
		f.open = true
		close(f.gate)
	}
}

// phase is what a job does before it runs.
func (f *follower) phase(j *v1.Job) string {
	switch {
	case j.Progress != "":
		return clean(j.Progress)
	case j.State == "queued" && j.Window != nil:
		return f.a.window(*j.Window)
	case j.State == "held":
		return "held: " + clean(f.a.heldInfo(j))
	}
	return clean(j.State)
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + clean(message)
}

// finish prints the receipt and returns the exit code.
func (f *follower) finish(j *v1.Job) error {
	line := f.id + " " + clean(strings.ReplaceAll(jobState(j), "_", " "))
	if j.ExitCode != nil && *j.ExitCode != 0 {
		line += " (exit " + strconv.Itoa(*j.ExitCode) + ")"
	}
	if t := f.a.jobTime(j); t != "" {
		line += " " + t
	}
	if r := j.Receipt; r != nil && r.Billing != "off" {
		line += ": " + receiptLine(r)
	}
	f.say("%s", line)
	switch {
	case f.tell == tellTrouble && trouble(j.Outcome, j.Message):
		f.warn("%s %s%s", f.id, clean(strings.ReplaceAll(jobState(j), "_", " ")), because(j.Message))
	case j.Outcome != string(codes.Completed) && j.Message != "":
		f.say("%s", clean(j.Message))
	}
	if code := exitCode(j); code != 0 {
		return exitStatus(code)
	}
	return nil
}

// trouble reports whether more is to be said of an end than its exit code says.
func trouble(outcome, message string) bool {
	return outcome != string(codes.Completed) && (message != "" || outcome != string(codes.Failed))
}

// exitCode is a job's exit code for the shell. A job that something else ended
// than itself isn't a success, whatever its program made of the signal.
func exitCode(j *v1.Job) int {
	switch outcome := codes.Outcome(j.Outcome); {
	case j.ExitCode != nil && *j.ExitCode != 0:
		return *j.ExitCode
	case outcome == codes.Completed || (outcome == "" && j.ExitCode != nil):
		return 0
	case outcome == codes.Cancelled, outcome == codes.Stopped:
		return 128 + int(syscall.SIGTERM)
	case outcome == codes.Failed && j.ExitCode != nil, outcome == codes.TimedOut, outcome == codes.OutOfMemory, outcome == codes.OutOfCredit, outcome == codes.Preempted, outcome == codes.Deadline:
		return 1
	}
	return codes.ExitInternal
}

// say prints a line about the job where all is told.
func (f *follower) say(format string, args ...any) {
	if f.tell == tellAll {
		f.warn(format, args...)
	}
}

// warn prints a line about the job.
func (f *follower) warn(format string, args ...any) {
	f.bar.clear()
	text := fmt.Sprintf(format, args...) + "\n"
	if f.a.env.Term.Err && f.midline.Swap(false) {
		text = "\n" + text
	}
	_, _ = f.a.env.Stderr.Write([]byte(text))
}
