package keep

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/record"
	"croft.dev/croft/internal/engine/room"
	"croft.dev/croft/internal/terminal"
)

// shell is a user's shell on a pseudo terminal.
type shell struct {
	master int // the descriptor; of file, whose own method would make it block
	file   *os.File
	pid    int
	ended  chan struct{} // closed when it has
	code   int           // then

	mu   sync.Mutex
	over bool // neither its number nor the descriptor may be used any more
}

var _ terminal.Program = (*shell)(nil)

// startShell starts a shell as the step's own program was started, with the environment and
// the working directory of this process. It is no login shell: the files of a login set
// PATH anew, and lose what the image has added to it.
func startShell(name, term string, size terminal.Size) (terminal.Program, error) {
	path := findShell(os.Getenv)
	if path == "" {
		return nil, &terminal.Refused{Reason: terminal.Unusable, Message: "there is no shell in the image"}
	}
	master, slave, err := openTerminal()
	if err != nil {
		return nil, &terminal.Refused{Reason: terminal.Unusable, Message: "no pseudo terminal can be opened there: " + err.Error()}
	}
	defer unix.Close(slave)
	env := environment(name, term)
	if notice := room.Notice(os.Getenv("HOME")); notice != "" {
		env = append(env, room.Spare()...)
		_, _ = unix.Write(slave, []byte(notice)) // the first of its output; who can't be told has a shell all the same
	}
	s := &shell{master: master, file: os.NewFile(uintptr(master), "terminal"), ended: make(chan struct{})}
	s.Resize(size)
	s.pid, err = syscall.ForkExec(path, []string{filepath.Base(path)}, &syscall.ProcAttr{
		Env: env, Files: []uintptr{uintptr(slave), uintptr(slave), uintptr(slave)},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	})
	if err != nil {
		s.file.Close()
		return nil, &terminal.Refused{Reason: terminal.Unusable, Message: record.FailureOf(err).Message(path, "in the image")}
	}
	preferAsVictim(s.pid)
	go s.await()
	return s, nil
}

// findShell is the user's own shell if the image has it, else bash, else sh; else none.
func findShell(getenv func(string) string) string {
	if own := getenv("SHELL"); filepath.IsAbs(own) && record.Probe(own) == record.None && !refuses(own) {
		return own
	}
	for _, name := range []string{"bash", "sh"} {
		for _, path := range []string{getenv("PATH"), record.DefaultPath} {
			if found, failure := record.LookPath(name, path); failure == record.None {
				return found
			}
		}
	}
	return ""
}

// refuses reports whether a shell is one that says only that nobody may log in.
func refuses(path string) bool {
	base := filepath.Base(path)
	return base == "nologin" || base == "false" || base == "true"
}

// environment is the step's, and what tells of the terminal.
func environment(name, term string) []string {
	if term == "" {
		term = "xterm-256color"
	}
	var env []string
	for _, kv := range os.Environ() {
		if key, _, _ := strings.Cut(kv, "="); key != "TERM" && key != "COLUMNS" && key != "LINES" {
			env = append(env, kv)
		}
	}
	return append(env, "TERM="+term, "CROFT_TERMINAL="+name)
}

// openTerminal makes a pseudo terminal (pty(7)).
func openTerminal() (master, slave int, err error) {
	for _, path := range []string{"/dev/ptmx", "/dev/pts/ptmx"} {
		if master, err = unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	if err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err == nil {
		slave, err = openSlave(master)
	}
	if err != nil {
		return 0, 0, errors.Join(err, unix.Close(master))
	}
	return master, slave, nil
}

// openSlave opens a terminal's other side, by its number where the kernel is older than 4.13.
func openSlave(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return int(fd), nil
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return 0, err
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(n), flags, 0)
}

// preferAsVictim has the out-of-memory killer rather take what runs in a terminal than its
// keeper.
func preferAsVictim(pid int) {
	const step = 50
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(own))); err == nil && n+step <= 1000 {
		_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(n+step)), 0) // a help, no need
	}
}

// afterEnd is how long output may take that what the shell has left behind still writes.
const afterEnd = 250 * time.Millisecond

// await waits for the shell's end.
func (s *shell) await() {
	for unix.Waitid(unix.P_PID, s.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(s.pid, &ws, 0, nil); err != syscall.EINTR {
			break
		}
	}
	s.code = ws.ExitStatus()
	if ws.Signaled() {
		s.code = 128 + int(ws.Signal())
	}
	s.over = true
	_ = s.file.SetReadDeadline(time.Now().Add(afterEnd)) // else it would be for ever
	close(s.ended)
}

// Read implements terminal.Program.
func (s *shell) Read(b []byte) (int, error) {
	n, err := s.file.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = s.left(b)
	}
	if errors.Is(err, unix.EIO) { // nobody has the other side open any more
		err = io.EOF
	}
	return max(n, 0), err
}

// left reads what lies there, without waiting.
func (s *shell) left(b []byte) (int, error) {
	n, err := unix.Read(s.master, b)
	if n <= 0 {
		return 0, io.EOF
	}
	return n, err
}

// unread is how long it is waited for something to read what is typed.
const unread = 5 * time.Second

// Write implements terminal.Program.
func (s *shell) Write(b []byte) (int, error) {
	_ = s.file.SetWriteDeadline(time.Now().Add(unread)) // fails when the terminal is closed, as the write does
	return s.file.Write(b)
}

// Resize implements terminal.Program.
func (s *shell) Resize(size terminal.Size) {
	s.live(func() {
		// A terminal that can't be resized stays as it is.
		_ = unix.IoctlSetWinsize(s.master, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
}

// live calls do while the shell can't end.
func (s *shell) live(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		do()
	}
}

// Redraw implements terminal.Program.
func (s *shell) Redraw() {
	s.live(func() { s.signal(unix.SIGWINCH) })
}

// signal sends a signal to what runs in the foreground.
func (s *shell) signal(sig unix.Signal) {
	if group, err := unix.IoctlGetInt(s.master, unix.TIOCGPGRP); err == nil && group > 1 {
		_ = unix.Kill(-group, sig) // it may have ended
	}
}

// lastWord is how long what runs in a terminal may take to end when that is closed.
const lastWord = 2 * time.Second

// HangUp implements terminal.Program.
func (s *shell) HangUp() {
	s.end(unix.SIGHUP, unix.SIGCONT)
	go func() {
		select {
		case <-s.ended:
		case <-time.After(lastWord):
			s.end(unix.SIGKILL)
		}
	}()
}

// end sends signals to what runs in the foreground and to the shell's own group.
func (s *shell) end(signals ...unix.Signal) {
	s.live(func() {
		for _, sig := range signals {
			s.signal(sig)
			_ = unix.Kill(-s.pid, sig) // it ends
		}
	})
}

// Wait implements terminal.Program. What is left of the session is hung up.
func (s *shell) Wait() int {
	<-s.ended
	s.file.Close()
	return s.code
}
