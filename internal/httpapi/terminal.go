package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/terminal"
	"croft.dev/croft/internal/workload"
)

func terminalOperations() []operation {
	step := param{"step", "beside a further step, by its number"}
	list := ask("listTerminals", "GET /v1/jobs/{id}/terminals", "The terminals of a running job", access.TermView, (*call).terminals, step)
	join := stream("joinTerminal", "GET /v1/jobs/{id}/terminals/{name}", "Join a terminal of a running job, which is made if there is none of that name (WebSocket)", access.TermView, "", (*call).joinTerminal,
		step, param{"view", "true: only look; then none is made"}, param{"term", "TERM of a shell that is started; xterm-256color by default"},
		param{"cols", "of the terminal there"}, param{"rows", "of the terminal there"},
		param{"notices", "true: what those in the job are told comes by 9, and not as a line on the screen"},
		param{"id", "go on in this one, which was joined before, and make none"}, param{"after", "with id: the output from this byte on, as far as it is kept"})
	join.about = `Each message is a byte and what follows it. To the server: 0 what is typed; 4 {"cols":…,"rows":…} the size there;
8 is answered with an 8, to try the connection.
From the server: 6 TerminalJoined, first; 7 bytes that restore the screen, not counted; 1 output, whose bytes are counted
from seq on; 4 the terminal's own size; 9 TerminalNotice; 3 {"exit_code":…} or {"error":…,"code":…}, last. Whoever is cut off asks for the
same id after seq and the bytes that came since; an error with the code unavailable means the same.`
	end := drop("endTerminal", "DELETE /v1/jobs/{id}/terminals/{name}", "End what runs in a terminal", access.TermUse, (*call).endTerminal).with(step)
	open := tell("openTerminal", "POST /v1/jobs/{id}/terminals/{name}/open", "An address of a terminal's page at which a browser is known as you, once", access.TermView, ok, (*call).openTerminal)
	return []operation{list, join, end, open}
}

// joinTerminal lets somebody into a terminal of a running job: the job's owner, and whom it
// is shared with.
func (c *call) joinTerminal() error { return c.join(presence.Terminal) }

// join is that. Whoever types is somebody at a terminal; a connection that is none by itself,
// as that of a page that nobody looks at, counts as another kind.
func (c *call) join(kind presence.Kind) error {
	hello, err := c.hello()
	if err != nil {
		return err
	}
	notices, err := truth(c.r.URL.Query().Get("notices"), "notices")
	if err != nil {
		return err
	}
	action := access.TermUse
	if hello.View {
		action = access.TermView
	}
	j, step, err := c.terminalsOf(action)
	if err != nil {
		return err
	}
	if !strings.EqualFold(c.r.Header.Get("Upgrade"), "websocket") {
		return fault.New(codes.Invalid, "this is spoken over a WebSocket")
	}
	ctx, stop, err := c.long(ofShared(action, j))
	if err != nil {
		return err
	}
	defer stop()
	if err := c.noteEntry(ctx, command.JobTerminal{Job: j.ID, Step: int32(step.N), Name: hello.Name, View: hello.View}); err != nil {
		return err
	}
	if !hello.View {
		defer c.Presence.Enter(j.ID, kind)()
	}
	keeper, err := c.Engine.Terminals(ctx, step, hello.ID == "" && !hello.View)
	if err != nil {
		return c.terminalError(err, hello)
	}
	defer keeper.Close()
	if err := terminal.WriteJSON(keeper, terminal.HelloAs, hello); err != nil {
		return c.terminalError(err, hello)
	}
	conn, err := websocket.Accept(c.w, c.r, nil)
	if err != nil {
		return fault.New(codes.Invalid, "this is spoken over a WebSocket")
	}
	defer conn.CloseNow() //nolint:errcheck // closed properly before, where that was possible
	conn.SetReadLimit(maxMessage)
	r := &relay{conn: conn, keeper: keeper, hello: hello, patience: c.slowest, typed: func() {}}
	if kind != presence.Terminal {
		r.typed = func() { c.Presence.Enter(j.ID, presence.Terminal)() }
	}
	if notices {
		defer c.notify(ctx, r, j.ID)()
	} else {
		defer c.Presence.Listen(j.ID, func(line string) { r.tell(ctx, line) })()
	}
	r.run(ctx)
	return nil
}

// terminalsOf is a running job of the caller's, or shared with him, and the step whose
// terminals are meant.
func (c *call) terminalsOf(action access.Action) (*workload.Job, engine.StepID, error) {
	j, err := c.Reader.FindShared(c.r.Context(), c.p, c.path("id"), action)
	if err != nil {
		return nil, engine.StepID{}, err
	}
	if j.State != workload.Running {
		return nil, engine.StepID{}, j.NotRunning()
	}
	n, err := c.stepParam()
	if err != nil {
		return nil, engine.StepID{}, err
	}
	if n == workload.PrimaryStep {
		step, err := c.primary(j, j.Attempt.N)
		return j, step, err
	}
	s, err := c.Reader.StepOf(c.r.Context(), c.p, j, n)
	if err != nil {
		return nil, engine.StepID{}, err
	}
	if s.State != workload.Running {
		return nil, engine.StepID{}, fault.New(codes.Conflict, "step %s.%d isn't running: it is %s", j.Name(), n, s.State)
	}
	return j, c.engineStep(j.ID, s.Attempt, n), nil
}

// hello is what is asked of a terminal.
func (c *call) hello() (terminal.Hello, error) {
	q := c.r.URL.Query()
	h := terminal.Hello{Ask: terminal.ToJoin, Name: c.path("name"), Term: q.Get("term"), ID: q.Get("id")}
	size, err := c.terminalSize()
	if err != nil {
		return h, err
	}
	h.Size = terminal.Size(size)
	if h.View, err = truth(q.Get("view"), "view"); err != nil {
		return h, err
	}
	if err := checkTerminal(h.Name); err != nil {
		return h, err
	}
	if h.Term != "" && !terminal.ValidTerm(h.Term) {
		return h, fault.Invalid("term", "must be a value of TERM, such as xterm-256color")
	}
	if h.ID != "" && !terminal.ValidID(h.ID) {
		return h, fault.Invalid("id", "must be a terminal's, as it was joined before")
	}
	if text := q.Get("after"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || h.ID == "" {
			return h, fault.Invalid("after", "must be the number of a byte of the terminal whose id is given")
		}
		h.After = n
	}
	return h, nil
}

func checkTerminal(name string) error {
	if !terminal.ValidName(name) {
		return fault.Invalid("name", "must be letters, digits, dots, dashes and underscores, 64 at most, and begin with a letter or digit")
	}
	return nil
}

// terminalError is why there is no terminal to be had.
func (c *call) terminalError(err error, hello terminal.Hello) error {
	var none *engine.NoTerminalsError
	var refused *terminal.Refused
	switch {
	case errors.As(err, &none):
		refused = &terminal.Refused{Reason: terminal.Missing}
		fallthrough
	case errors.As(err, &refused):
		r := refusal(refused, hello)
		return fault.New(codes.Code(r.Code), "%s", r.Error)
	}
	code, text := c.entryError(err)
	if code == codes.Internal {
		return err
	}
	return fault.New(code, "%s", text)
}

// printable is what a keeper says, which is the job's own process, as one line.
func printable(s string) string {
	const most = 512
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// terminals lists those of a job. It is no way in, and isn't in the log.
func (c *call) terminals() (v1.Page[v1.Terminal], error) {
	_, step, err := c.terminalsOf(access.TermView)
	if err != nil {
		return v1.Page[v1.Terminal]{}, err
	}
	kind, data, err := c.askKeeper(step, terminal.Hello{Ask: terminal.ToList})
	var none *engine.NoTerminalsError
	if errors.As(err, &none) {
		return page([]v1.Terminal{}, nil)
	}
	var list []terminal.Info
	if err == nil && (kind != terminal.Listing || json.Unmarshal(data, &list) != nil || len(list) > terminal.MaxTerminals) {
		err = &engine.AttachError{Message: badKeeper}
	}
	if err != nil {
		return v1.Page[v1.Terminal]{}, c.terminalError(err, terminal.Hello{})
	}
	out := make([]v1.Terminal, 0, len(list))
	for _, t := range list {
		if !terminal.ValidName(t.Name) {
			continue
		}
		shown := v1.Terminal{
			Name: t.Name, Started: time.Unix(0, t.Started).UTC(), Cols: int(t.Size.Cols), Rows: int(t.Size.Rows), Joined: t.Joins,
		}
		if t.Ended != nil {
			shown.Ended, shown.ExitCode = true, t.Ended.ExitCode
		}
		out = append(out, shown)
	}
	return page(out, nil)
}

// badKeeper is said of a keeper that isn't one: a job's own processes could be anything.
const badKeeper = "what keeps its terminals doesn't answer as it should: end the processes croft-terminals in it"

// askKeeper asks a step's keeper something and takes its answer.
func (c *call) askKeeper(step engine.StepID, hello terminal.Hello) (kind byte, data []byte, err error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), keeperAnswers)
	defer cancel()
	keeper, err := c.Engine.Terminals(ctx, step, false)
	if err != nil {
		return 0, nil, err
	}
	defer keeper.Close()
	stop := context.AfterFunc(ctx, func() { keeper.Close() })
	defer stop()
	if err = terminal.WriteJSON(keeper, terminal.HelloAs, hello); err == nil {
		kind, data, err = terminal.ReadOne(keeper)
	}
	if err == nil && kind == terminal.RefusedFor {
		refused := new(terminal.Refused)
		if err = json.Unmarshal(data, refused); err == nil {
			err = refused
		}
	}
	var refused *terminal.Refused
	if err != nil && !errors.As(err, &refused) {
		err = &engine.AttachError{Message: badKeeper}
	}
	return kind, data, err
}

// keeperAnswers is how long a keeper may take for an answer.
const keeperAnswers = 10 * time.Second

// endTerminal ends what runs in a terminal.
func (c *call) endTerminal() error {
	hello := terminal.Hello{Ask: terminal.ToEnd, Name: c.path("name")}
	if err := checkTerminal(hello.Name); err != nil {
		return err
	}
	j, step, err := c.terminalsOf(access.TermUse)
	if err != nil {
		return err
	}
	if err := c.noteEntry(c.r.Context(), command.JobTerminal{Job: j.ID, Step: int32(step.N), Name: hello.Name, End: true}); err != nil {
		return err
	}
	if _, _, err := c.askKeeper(step, hello); err != nil {
		return c.terminalError(err, hello)
	}
	return nil
}

// relay carries messages between a client and a keeper. Neither is trusted.
type relay struct {
	conn     *websocket.Conn
	keeper   io.ReadWriteCloser
	hello    terminal.Hello
	patience time.Duration
	typed    func() // is told that something was
}

// run goes on until the terminal has ended, the client has gone or may not go on.
func (r *relay) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { r.keeper.Close() })
	defer stop()
	received := make(chan struct{})
	go func() {
		defer close(received)
		defer r.keeper.Close()
		r.receive(ctx)
	}()
	r.send(ctx)
	_ = r.conn.CloseNow() // closed before, if the client is to know why
	<-received
}

// tell writes a line into the client's terminal alone. It isn't of the shell's output.
func (r *relay) tell(ctx context.Context, line string) {
	_ = r.write(ctx, v1.TerminalScreen, []byte("\r\n"+line+"\r\n")) // it may have gone
}

// receive hands on what the client sends.
func (r *relay) receive(ctx context.Context) {
	for {
		_, b, err := r.conn.Read(ctx)
		if err != nil {
			return
		}
		switch {
		case len(b) == 0:
			continue
		case b[0] == v1.TerminalPing:
			if r.write(ctx, v1.TerminalPing, nil) != nil {
				return
			}
		case r.hello.View:
			continue
		}
		switch b[0] {
		case v1.ExecStdin:
			r.typed()
			for part := range slices.Chunk(b[1:], terminal.MaxMessage) {
				if terminal.Write(r.keeper, terminal.Input, part) != nil {
					return
				}
			}
		case v1.ExecResize:
			size, ok := sizeOf(b[1:])
			if ok && terminal.WriteJSON(r.keeper, terminal.Resize, size) != nil {
				return
			}
		}
	}
}

// send hands on what the keeper says, to the end of the terminal.
func (r *relay) send(ctx context.Context) {
	for {
		last := false
		err := terminal.Read(r.keeper, func(kind byte, data []byte) (err error) {
			last, err = r.pass(ctx, kind, data)
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			// The step has ended, or its keeper; or that says what none would. Whoever comes
			// again is told what there is then.
			r.say(ctx, v1.ExecExit, v1.ExecResult{Error: "the connection with the terminal was lost", Code: string(codes.Unavailable)})
			last = true
		case err != nil:
			return
		}
		if last {
			_ = r.conn.Close(websocket.StatusNormalClosure, "") // a client that went away
			return
		}
	}
}

// pass hands on one message of the keeper's.
func (r *relay) pass(ctx context.Context, kind byte, data []byte) (last bool, err error) {
	switch kind {
	case terminal.Output:
		return false, r.write(ctx, v1.ExecStdout, data)
	case terminal.Screen:
		return false, r.write(ctx, v1.TerminalScreen, data)
	case terminal.JoinedAs:
		var j terminal.Joined
		if err := json.Unmarshal(data, &j); err != nil || !terminal.ValidID(j.ID) {
			return false, errors.Join(err, errors.New("no place in the output"))
		}
		return false, r.say(ctx, v1.TerminalAs, v1.TerminalJoined{ID: j.ID, Seq: j.Seq, Lost: j.Lost, Fresh: j.Fresh, View: r.hello.View})
	case terminal.Resize:
		size, ok := sizeOf(data)
		if !ok {
			return false, errors.New("no size")
		}
		return false, r.say(ctx, v1.ExecResize, v1.TerminalSize{Cols: int(size.Cols), Rows: int(size.Rows)})
	case terminal.Exit:
		var e terminal.Ended
		if err := json.Unmarshal(data, &e); err != nil {
			return false, err
		}
		return true, r.say(ctx, v1.ExecExit, v1.ExecResult{ExitCode: e.ExitCode})
	case terminal.RefusedFor:
		refused := new(terminal.Refused)
		if err := json.Unmarshal(data, refused); err != nil {
			return false, err
		}
		return true, r.say(ctx, v1.ExecExit, refusal(refused, r.hello))
	}
	return false, fmt.Errorf("no message of the kind %d", kind)
}

// refusal is what a keeper refuses, for the client.
func refusal(refused *terminal.Refused, hello terminal.Hello) v1.ExecResult {
	code, text := codes.Conflict, printable(refused.Message)
	switch {
	case refused.Reason == terminal.Missing && hello.ID != "":
		code, text = codes.Gone, fmt.Sprintf("the terminal %s that you were in has ended", hello.Name)
	case refused.Reason == terminal.Missing:
		code, text = codes.NotFound, "no such terminal: "+hello.Name
	case text == "":
		text = badKeeper
	}
	return v1.ExecResult{Error: text, Code: string(code)}
}

func sizeOf(b []byte) (size terminal.Size, ok bool) {
	return size, json.Unmarshal(b, &size) == nil && size.Cols > 0 && size.Rows > 0
}

func (r *relay) say(ctx context.Context, channel byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.write(ctx, channel, b)
}

// write gives up a client that doesn't take its messages.
func (r *relay) write(ctx context.Context, channel byte, data []byte) error {
	return channelWriter{ctx, r.conn, channel, r.patience}.send(data)
}
