// Package keep keeps terminals beside a step's program: what package terminal needs of
// processes, pseudo terminals and sockets. Inside of a container it is croft-init, as:
//
//   - the launcher, run there by the server through the runtime, which starts the keeper and
//     ends once that can be connected with;
//   - the joiner, which connects standard input and output with the keeper, for a server that
//     doesn't see the directory;
//   - the keeper, which outlives whoever is connected, and the server too. It ends with the
//     step, whose control group and process namespace it is in, or when for some time it has
//     had nothing to keep.
//
// All run as the job's user and are trusted with nothing. The server connects with the
// socket in the step's own small directory, see Dial.
package keep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/terminal"
)

// Words that make croft-init become one of them; the step's directory follows.
const (
	AsLauncher = "--terminals"
	AsKeeper   = "--keep-terminals"
	AsJoiner   = "--join-terminals"
)

// What a joiner begins with, and its exit code where there is no keeper.
const (
	Joined   = "joined\n"
	ExitNone = 4
)

// Files in the step's directory.
const (
	socket = "terminals"
	lock   = "terminals.lock" // held by the keeper while it lives
)

// third is the descriptor on which the keeper tells the launcher that it is there.
const third = 3

// ready is what it says then; anything else is why it can't be.
const ready = "ready\n"

// Folder makes a step's directory where it isn't there: on a cluster nobody does but what runs
// in the container, and of an image's own command nothing of Croft's runs before this.
func Folder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Launch starts the keeper of a directory, unless it has one, and returns once it is there.
func Launch(dir string) error {
	if err := Folder(dir); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	_, err = syscall.ForkExec("/proc/self/exe", []string{"croft-terminals", AsKeeper, dir}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), w.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	w.Close()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, 4<<10))
	if err == nil && string(text) != ready {
		err = errors.New(strings.TrimSpace("the keeper of terminals doesn't start: " + string(text)))
	}
	return err
}

// Keep is the keeper of a directory. It returns when it has nothing to keep.
func Keep(dir string) error {
	// It is small beside what it keeps, and is charged to the job.
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(50)
	launcher := os.NewFile(third, "launcher")
	unix.CloseOnExec(third)
	l, err := listen(dir)
	if err != nil && !errors.Is(err, errTaken) {
		_, _ = io.WriteString(launcher, err.Error()) // it may have gone
		return err
	}
	_, _ = io.WriteString(launcher, ready)
	launcher.Close()
	if err != nil { // there is another
		return nil
	}
	k := terminal.NewKeeper(startShell)
	go accept(l, k)
	for k.Idle() < linger {
		<-time.After(linger / 4)
	}
	return nil
}

// linger is how long a keeper stays that has nothing to keep. Whoever connects just when it
// goes isn't greeted, and starts another.
const linger = time.Minute

// errTaken says that a directory has a keeper.
var errTaken = errors.New("there is a keeper")

// listen makes the socket of a directory. The lock is held from then on, as the descriptor
// is left open.
func listen(dir string) (fd int, err error) {
	held, err := unix.Open(dir+"/"+lock, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", lock, err)
	}
	err = unix.FcntlFlock(uintptr(held), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = errTaken
	}
	if err == nil {
		fd, err = bind(dir + "/" + socket)
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(held))
	}
	return fd, nil
}

func bind(path string) (int, error) {
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) { // of a keeper that has gone
		return 0, fmt.Errorf("%s: %w", socket, err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Chmod(path, 0o600)
	}
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", socket, err)
	}
	return fd, nil
}

// accept serves whoever connects.
func accept(l int, k *terminal.Keeper) {
	for {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case err == nil && mayConnect(fd):
			go k.Serve(os.NewFile(uintptr(fd), "connection"))
		case err == nil:
			unix.Close(fd)
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
			<-time.After(100 * time.Millisecond) // until somebody goes
		}
	}
}

// overflow is whom the server, the machine's root, is seen as within a user namespace.
const overflow = 65534

// mayConnect lets in the user himself and the server. Nobody else reaches the directory;
// this holds where that was opened to others.
func mayConnect(fd int) bool {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && (peer.Uid == uint32(os.Geteuid()) || peer.Uid == 0 || peer.Uid == overflow)
}
