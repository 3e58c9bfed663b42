package stories

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
)

// terminal runs a command on a terminal of its own and works with it as a file says,
// line by line: "type TEXT" types it, with Go's escapes, "await TEXT" waits for it to be
// seen after what was seen before, "resize COLS ROWS" resizes the terminal, "each TEXT FROM
// TO" checks that TEXT was seen exactly once with each number in the place of %d. "server
// WHAT" and "exec CMD…" are the script's own commands, meanwhile.
func terminal(server command) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		onTerminal(ts, server, neg, args)
	}
}

func onTerminal(ts *testscript.TestScript, server command, neg bool, args []string) {
	usage(ts, !neg && len(args) > 2, "terminal EXITCODE FILE CMD…")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	master, slave, err := openTerminal()
	ts.Check(err)
	defer master.Close()
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Path, cmd.Err = lookIn(ts.Getenv("PATH"), args[2], args[2]), nil
	cmd.Dir = ts.MkAbs(".")
	for _, k := range []string{"PATH", "HOME", "CROFT_SOCKET", "TZ"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(cmd.Start())
	slave.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s := &screen{}
	go s.follow(master)
	defer func() { ts.Logf("[terminal]\n%s", s.text()) }()
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		line = strings.TrimSpace(line)
		if what, ok := strings.CutPrefix(line, "server "); ok {
			server(ts, false, []string{what})
			continue
		}
		if what, ok := strings.CutPrefix(line, "exec "); ok {
			words := strings.Fields(os.Expand(what, ts.Getenv))
			ts.Check(ts.Exec(words[0], words[1:]...))
			continue
		}
		if err := s.act(master, line); err != nil {
			_ = cmd.Process.Kill()
			ts.Fatalf("%v", err)
		}
	}
	select {
	case err = <-ended:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		ts.Fatalf("the command doesn't end")
	}
	got := 0
	if e := new(exec.ExitError); errors.As(err, &e) {
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// screen is what a terminal has shown.
type screen struct {
	mu   sync.Mutex
	all  []byte
	seen int // what was waited for is before that
}

func (s *screen) follow(f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		s.mu.Lock()
		s.all = append(s.all, buf[:n]...)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.all)
}

func (s *screen) act(f *os.File, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	text, err := strconv.Unquote(`"` + rest + `"`)
	switch {
	case err != nil:
		return fmt.Errorf("%q: %w", line, err)
	case verb == "type":
		_, err = f.WriteString(text)
		return err
	case verb == "await":
		return s.await(text)
	case verb == "resize":
		var size struct{ rows, cols, x, y uint16 }
		if _, err := fmt.Sscan(text, &size.cols, &size.rows); err != nil {
			return err
		}
		return ioctl(f, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	}
	if verb == "each" {
		return s.each(text)
	}
	return fmt.Errorf("%q: neither type nor await nor resize", line)
}

func (s *screen) each(args string) error {
	var form string
	var from, to int
	if _, err := fmt.Sscan(args, &form, &from, &to); err != nil {
		return err
	}
	all := s.text()
	for i := from; i <= to; i++ {
		text := strings.ReplaceAll(form, "%d", strconv.Itoa(i))
		if n := strings.Count(all, text); n != 1 {
			return fmt.Errorf("%q was seen %d times", text, n)
		}
	}
	return nil
}

func (s *screen) await(text string) error {
	for end := time.Now().Add(patience); ; pause() {
		s.mu.Lock()
		i := bytes.Index(s.all[s.seen:], []byte(text))
		if i >= 0 {
			s.seen += i + len(text)
		}
		s.mu.Unlock()
		switch {
		case i >= 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%q wasn't seen in %v", text, patience)
		}
	}
}

// openTerminal opens both ends of a terminal: pts(4).
func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var unlocked, n int32
	if err = ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)); err == nil {
		err = ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&n))
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
	}
	return master, slave, err
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
