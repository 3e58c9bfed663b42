package sshgate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
)

// session is a shell, a command or a file transfer (RFC 4254, 6).
type session struct {
	*connection
	ch    ssh.Channel
	ctx   context.Context
	env   map[string]string
	tty   bool
	sizes chan engine.Size
}

// session serves a channel until its program or its client ends it.
func (c *connection) session(nch ssh.NewChannel) {
	ch, requests, err := nch.Accept()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	s := &session{connection: c, ch: ch, ctx: ctx, env: map[string]string{}, sizes: make(chan engine.Size, 1)}
	var running sync.WaitGroup
	begun := false
	for r := range requests {
		run, ok := s.request(r, begun)
		if r.WantReply {
			_ = r.Reply(ok, nil) // a client that went away
		}
		if run != nil {
			begun = true
			running.Go(func() { s.run(*run) })
		}
	}
	cancel() // the client has closed it, or there is no connection any more
	running.Wait()
	ch.Close()
}

// program is what a session runs.
type program struct {
	note    command.JobSSH
	command []string
	sftp    bool
}

// request does what a client asks of its session. What is to be run is returned, at most
// once.
func (s *session) request(r *ssh.Request, begun bool) (run *program, ok bool) {
	switch r.Type {
	case "window-change":
		size, ok := parseSize(r.Payload)
		if ok {
			s.resize(size)
		}
		return nil, ok
	case "signal":
		return nil, false // an engine's command can't be signalled; over a terminal ^C can
	}
	if begun {
		return nil, false
	}
	switch r.Type {
	case "env":
		return nil, s.setenv(r.Payload)
	case "pty-req":
		return nil, s.terminal(r.Payload)
	case "shell":
		return &program{note: command.JobSSH{For: command.SSHShell, TTY: s.tty}, command: s.shell("")}, true
	case "exec":
		line, ok := parseString(r.Payload)
		if !ok || line == "" || len(line) > maxLine || strings.ContainsRune(line, 0) {
			return nil, false
		}
		words := strings.Fields(line)
		return &program{note: command.JobSSH{For: command.SSHExec, Program: command.ProgramOf(words), Words: len(words), TTY: s.tty}, command: s.shell(line)}, true
	case "subsystem":
		name, ok := parseString(r.Payload)
		if !ok || name != "sftp" {
			return nil, false
		}
		return &program{note: command.JobSSH{For: command.SSHFiles}, sftp: true}, true
	}
	return nil, false // agent and X11 forwarding among them
}

// maxLine bounds a command, in bytes: the kernel takes no longer argument.
const maxLine = 128<<10 - 1

// The bounds of a session's environment.
const (
	maxEnv      = 64
	maxEnvValue = 4 << 10
)

// envNames are those that a client may set: how it wants to be talked to, and nothing
// that changes which programs are run.
var envNames = regexp.MustCompile(`^(LANG|LANGUAGE|LC_[A-Z]{1,32}|TZ|COLORTERM|NO_COLOR)$`)

func (s *session) setenv(payload []byte) bool {
	var kv struct{ Name, Value string }
	if ssh.Unmarshal(payload, &kv) != nil || !envNames.MatchString(kv.Name) || len(kv.Value) > maxEnvValue || len(s.env) >= maxEnv || strings.ContainsRune(kv.Value, 0) {
		return false
	}
	s.env[kv.Name] = kv.Value
	return true
}

// termName is what TERM may be: it is looked up as the name of a file.
var termName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

func (s *session) terminal(payload []byte) bool {
	term, size, ok := parsePTY(payload)
	if !ok {
		return false
	}
	s.tty = true
	if termName.MatchString(term) {
		s.env["TERM"] = term
	}
	s.resize(size)
	return true
}

// resize keeps only the newest size. It is called by one goroutine.
func (s *session) resize(size engine.Size) {
	select {
	case <-s.sizes:
	default:
	}
	s.sizes <- size
}

// shell is the command that runs a line with the user's own shell, as sshd does, or
// without one that shell itself. SHELL is something that the image has.
func (s *session) shell(line string) []string {
	env := maps.Clone(s.env)
	from, fromPort := s.ssh.RemoteAddr(), portOf(s.ssh.RemoteAddr())
	to, toPort := s.ssh.LocalAddr(), portOf(s.ssh.LocalAddr())
	env["SSH_CONNECTION"] = strings.Join([]string{hostOf(from), fromPort, hostOf(to), toPort}, " ")
	env["SSH_CLIENT"] = strings.Join([]string{hostOf(from), fromPort, toPort}, " ")
	var script strings.Builder
	var args []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		args = append(args, env[name])
		fmt.Fprintf(&script, "export %s=\"${%d}\"; ", name, len(args))
	}
	script.WriteString(`exec "${SHELL:-/bin/sh}" `)
	if line == "" {
		script.WriteString("-l")
	} else {
		args = append(args, line)
		fmt.Fprintf(&script, `-c "${%d}"`, len(args))
	}
	return append([]string{"sh", "-c", script.String(), "sh"}, args...)
}

// portOf is an address's port; a socket's is 0.
func portOf(a net.Addr) string {
	if _, port, err := net.SplitHostPort(a.String()); err == nil {
		return port
	}
	return "0"
}

// exitOwn is the exit code for what isn't the program's own failure, as of ssh itself.
const exitOwn = 255

// run runs a program and tells the client how it ended.
func (s *session) run(p program) {
	code, err := s.begin(p)
	if err == nil && s.connection.ctx.Err() != nil {
		err = s.why()
	}
	if err != nil && s.ctx.Err() != nil && s.connection.ctx.Err() == nil {
		return // the client closed it
	}
	if err != nil {
		text := s.words(err)
		if s.connection.ctx.Err() != nil {
			text = s.why().Error()
		}
		code = exitOwn
		fmt.Fprintf(s.complaints(), "croft: %s\r\n", text)
	}
	// How it ended comes before the end of what it said: a client that has nothing more to
	// say either closes the channel at that, and then nothing can be said on it any more.
	_, _ = s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
	_ = s.ch.CloseWrite()
	s.ch.Close()
}

// complaints is where a session is told what isn't its program's own.
func (s *session) complaints() io.Writer {
	if s.tty {
		return s.ch
	}
	return s.ch.Stderr()
}

// begin notes a program in the log and runs it.
func (s *session) begin(p program) (int, error) {
	if err := s.note(s.ctx, p.note); err != nil {
		return 0, err
	}
	if s.tty && !p.sftp {
		defer s.Presence.Listen(s.job.ID, func(line string) { fmt.Fprintf(s.ch, "\r\n%s\r\n", line) })()
	}
	return s.Engine.Exec(s.ctx, s.at, engine.ExecRequest{
		Command: p.command, SFTP: p.sftp, Shell: s.tty && p.note.For == command.SSHShell, TTY: s.tty && !p.sftp, Resize: s.sizes,
		Stdin: s.ch, Stdout: until{s.ctx, s.ch}, Stderr: until{s.ctx, s.ch.Stderr()},
	})
}

// until writes as long as its context lives.
type until struct {
	ctx context.Context // of the session: an io.Writer has no other way to get it
	w   io.Writer
}

func (u until) Write(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(b)
}
