package keep

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/terminal"
)

// ErrNone says that a step has no keeper.
var ErrNone = errors.New("keep: there is no keeper of terminals")

// greeted is how long a keeper may take to greet.
const greeted = 10 * time.Second

// Dial connects with the keeper of a step's directory, as seen from the machine. The
// directory is the user's, who may have put anything in the socket's place: no link is
// followed out of it, and who listens has to be the directory's owner.
func Dial(dir string) (io.ReadWriteCloser, error) {
	at, owner, err := find(dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	conn := os.NewFile(uintptr(fd), "terminals")
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(at)})
	if err == nil {
		err = listens(fd, owner)
	}
	if err == nil {
		err = beGreeted(conn)
	}
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET):
		err = ErrNone // it has gone, or goes
	}
	return nil, errors.Join(err, conn.Close())
}

// find opens the socket, for its place only, and says whose it has to be.
func find(dir string) (fd int, owner uint32, err error) {
	d, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0, 0, ErrNone
	}
	if err != nil {
		return 0, 0, fmt.Errorf("keep: %w", err)
	}
	defer unix.Close(d)
	var in, st unix.Stat_t
	if err := unix.Fstat(d, &in); err != nil {
		return 0, 0, fmt.Errorf("keep: %w", err)
	}
	fd, err = unix.Openat(d, socket, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0, 0, ErrNone
	}
	if err != nil {
		return 0, 0, fmt.Errorf("keep: %w", err)
	}
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Dev != in.Dev) {
		err = errors.New("keep: there is something else in the place of the socket")
	}
	if err != nil {
		return 0, 0, errors.Join(err, unix.Close(fd))
	}
	return fd, in.Uid, nil
}

// listens checks who does: nobody's socket is spoken to but the user's own.
func listens(fd int, owner uint32) error {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	if peer.Uid != owner {
		return errors.New("keep: the socket is somebody else's")
	}
	return nil
}

func beGreeted(conn *os.File) error {
	if err := conn.SetReadDeadline(time.Now().Add(greeted)); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	text := make([]byte, len(terminal.Greeting))
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	if string(text) != terminal.Greeting {
		return errors.New("keep: the keeper speaks another version")
	}
	return conn.SetReadDeadline(time.Time{})
}
