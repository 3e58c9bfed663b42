package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxDepth bounds how deep folders are gone into: each level keeps one open.
const maxDepth = 200

// tag gives all that is in a folder a project, and lets what is made there later have it.
// Users change the tree meanwhile, so that nothing is looked up by a path twice, no link is
// followed and no other file system is entered. What can't have a project (links, pipes,
// device nodes) takes next to nothing.
func (q *Quotas) tag(ctx context.Context, dir *os.File, id uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	// From the top: what is made while the rest is gone through inherits it.
	return q.tagFolder(ctx, dir, id, st.Dev, 0)
}

func (q *Quotas) tagFolder(ctx context.Context, dir *os.File, id uint32, dev uint64, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("has folders more than %d deep", maxDepth)
	}
	if err := q.give(dir, id, true); err != nil {
		return err
	}
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := q.tagEntry(ctx, dir, name, id, dev, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tagEntry tags what a folder has by a name.
func (q *Quotas) tagEntry(ctx context.Context, dir *os.File, name string, id uint32, dev uint64, depth int) error {
	// Opening a device or a pipe does something: so it is only looked at first.
	at, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil // it went away
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if st.Dev != dev || kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return nil
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if kind == unix.S_IFDIR {
		return q.tagFolder(ctx, f, id, dev, depth+1)
	}
	return q.give(f, id, false)
}

// give puts a file or folder into a project, unless it is.
func (q *Quotas) give(f *os.File, id uint32, inherits bool) error {
	have, does, err := q.kernel().Project(f)
	if err != nil || have == id && does == inherits {
		return err
	}
	return q.kernel().SetProject(f, id, inherits)
}
