// Package bind makes the mounts that a container is given. A mount begins as an
// opened file: who looks a path up, and what he finds there, is settled by Open, and
// the copy of the file system's tree is made of the descriptor, so that nothing that
// happens to the path afterwards changes what is mounted. The copy is restricted
// before anybody sees it, then attached where the runtime will find it.
//
// It needs Linux 5.12, for mount_setattr(2).
package bind

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Tree is a copy of a tree of mounts that is attached nowhere. It ends with Close,
// unless it was attached.
type Tree struct {
	file *os.File
	dir  bool
}

// ErrNoIDMap says that a file system of the tree can't show its files with other ids.
var ErrNoIDMap = errors.New("the file system has no idmapped mounts")

// Clone copies the tree at f, with what is mounted below it.
func Clone(f *os.File) (*Tree, error) { return clone(f, unix.AT_RECURSIVE) }

func clone(f *os.File, flags uint) (*Tree, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	fd, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|flags)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	return &Tree{os.NewFile(uintptr(fd), f.Name()), st.IsDir()}, nil
}

// Tmpfs is an empty file system of its own, of so many bytes at most, to which everybody
// may write.
func Tmpfs(size int64, owner IDs) (*Tree, error) {
	fsfd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fsfd)
	for _, o := range [][2]string{
		{"source", "tmpfs"}, {"size", strconv.FormatInt(size, 10)}, {"mode", "1777"}, {"uid", strconv.FormatInt(owner.UID, 10)}, {"gid", strconv.FormatInt(owner.GID, 10)},
	} {
		if err := unix.FsconfigSetString(fsfd, o[0], o[1]); err != nil {
			return nil, fmt.Errorf("fsconfig %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return nil, fmt.Errorf("fsconfig: %w", err)
	}
	fd, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return &Tree{os.NewFile(uintptr(fd), "tmpfs"), true}, nil
}

// Chown gives the top of a tree to an owner.
func (t *Tree) Chown(owner IDs) error {
	return unix.Fchownat(int(t.file.Fd()), "", int(owner.UID), int(owner.GID), unix.AT_EMPTY_PATH)
}

// Restrict keeps news of what is mounted elsewhere from the tree and, if readOnly,
// everybody from writing to it, with all that is mounted below.
func (t *Tree) Restrict(readOnly bool) error {
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if readOnly {
		attr.Attr_set = unix.MOUNT_ATTR_RDONLY
	}
	return t.set(&attr)
}

// Map shows the files of the tree with the ids of a user namespace: see Namespace.
// The error is ErrNoIDMap where a file system can't.
func (t *Tree) Map(ns *os.File) error {
	err := t.set(&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
	if errors.Is(err, unix.EINVAL) {
		return ErrNoIDMap
	}
	return err
}

func (t *Tree) set(attr *unix.MountAttr) error {
	if err := unix.MountSetattr(int(t.file.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// Attach puts the tree at path, which is made: a folder or a file, as the tree is.
func (t *Tree) Attach(path string) error {
	if err := t.makePoint(path); err != nil {
		return err
	}
	if err := unix.MoveMount(int(t.file.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount to %s: %w", path, err)
	}
	return nil
}

// makePoint makes what the tree is attached on. Nobody may use it for itself.
func (t *Tree) makePoint(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if t.dir {
		return os.Mkdir(path, 0)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// Close ends the tree, or lets go of one that was attached.
func (t *Tree) Close() error { return t.file.Close() }

// Mounted reports whether something is mounted at path.
func Mounted(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// Detach takes away what is mounted at path, all of it; nothing is no error. Who has
// it open, or has it mounted elsewhere, keeps it.
func Detach(path string) error {
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		switch {
		case err == nil: // perhaps mounted twice
		case errors.Is(err, unix.EINVAL), errors.Is(err, fs.ErrNotExist):
			return nil
		default:
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}
