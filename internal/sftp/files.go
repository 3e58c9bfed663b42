package sftp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// named does what is asked for a path, or for two.
func named(kind byte, id uint32, r *request) (reply, error) {
	path := r.string()
	switch kind {
	case typeSetstat:
		return nil, setPath(path, r.attrs(), r, false)
	case typeRemove:
		return nil, syscall.Unlink(path)
	case typeMkdir:
		mode := fs.FileMode(0o777)
		if a := r.attrs(); a.flags&hasMode != 0 {
			mode = fs.FileMode(a.mode & 0o777)
		}
		if r.bad {
			return nil, errBad
		}
		return nil, os.Mkdir(path, mode)
	case typeRmdir:
		return nil, syscall.Rmdir(path)
	case typeRealpath:
		real, err := realpath(path)
		return oneName(id, real), err
	case typeReadlink:
		to, err := os.Readlink(path)
		return oneName(id, to), err
	case typeRename:
		to := r.string()
		if r.bad {
			return nil, errBad
		}
		return nil, renameNew(path, to)
	case typeSymlink: // its target comes first, as OpenSSH has it in spite of the draft
		link := r.string()
		if r.bad {
			return nil, errBad
		}
		return nil, os.Symlink(path, link)
	}
	return nil, errUnsupported
}

// oneName answers with a path alone.
func oneName(id uint32, path string) reply {
	return newReply(typeName, id).uint32(1).string(path).string(path).attrs(attrs{})
}

// realpath is where a path leads; its last part need not be there.
func realpath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		var dir string
		if dir, err = filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			real = filepath.Join(dir, filepath.Base(abs))
		}
	}
	return real, err
}

// renameNew renames to what isn't there yet. A link says so without a moment between the
// look and the deed; where there can't be one, the moment is short.
func renameNew(from, to string) error {
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if st.Mode().IsRegular() {
		switch err := os.Link(from, to); {
		case err == nil:
			return syscall.Unlink(from)
		case errors.Is(err, fs.ErrExist):
			return err
		}
	}
	if _, err := os.Lstat(to); err == nil {
		return syscall.EEXIST
	}
	return os.Rename(from, to)
}

// described answers with what a file is.
func described(id uint32) func(os.FileInfo, error) (reply, error) {
	return func(st os.FileInfo, err error) (reply, error) {
		if err != nil {
			return nil, err
		}
		return newReply(typeAttrs, id).attrs(attrsOf(st)), nil
	}
}

func attrsOf(st os.FileInfo) attrs {
	a := attrs{flags: hasSize | hasMode | hasTimes, size: uint64(st.Size()), mtime: uint32(st.ModTime().Unix())}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		a.flags |= hasOwner
		a.uid, a.gid, a.mode, a.atime = sys.Uid, sys.Gid, sys.Mode, uint32(sys.Atim.Sec)
	}
	return a
}

// setPath changes what is wanted of a path, of a link itself with link.
func setPath(path string, a attrs, r *request, link bool) error {
	if r.bad {
		return errBad
	}
	if link {
		return setLink(path, a)
	}
	// Opening it would do more than was asked for: a device begins to work, a pipe waits.
	if a.flags&hasSize != 0 {
		if err := os.Truncate(path, int64(a.size)); err != nil {
			return err
		}
	}
	if a.flags&hasMode != 0 {
		if err := syscall.Chmod(path, a.mode&0o7777); err != nil {
			return err
		}
	}
	if a.flags&hasTimes != 0 {
		if err := os.Chtimes(path, time.Unix(int64(a.atime), 0), time.Unix(int64(a.mtime), 0)); err != nil {
			return err
		}
	}
	if a.flags&hasOwner != 0 {
		return os.Chown(path, int(a.uid), int(a.gid))
	}
	return nil
}

// setLink changes a symbolic link itself, as far as that can be.
func setLink(path string, a attrs) error {
	if a.flags&(hasSize|hasMode) != 0 {
		st, err := os.Lstat(path)
		switch {
		case err != nil:
			return err
		case st.Mode()&fs.ModeSymlink != 0:
			return errUnsupported
		}
		return setPath(path, a, &request{}, false)
	}
	if a.flags&hasTimes != 0 {
		if err := lchtimes(path, a); err != nil {
			return err
		}
	}
	if a.flags&hasOwner != 0 {
		return os.Lchown(path, int(a.uid), int(a.gid))
	}
	return nil
}

// setFile changes what is wanted of an open file.
func setFile(f *os.File, a attrs, r *request) error {
	if r.bad {
		return errBad
	}
	if a.flags&hasSize != 0 {
		if err := f.Truncate(int64(a.size)); err != nil {
			return err
		}
	}
	if a.flags&hasMode != 0 {
		if err := syscall.Fchmod(int(f.Fd()), a.mode&0o7777); err != nil {
			return err
		}
	}
	if a.flags&hasTimes != 0 {
		at, mt := syscall.Timeval{Sec: int64(a.atime)}, syscall.Timeval{Sec: int64(a.mtime)}
		if err := syscall.Futimes(int(f.Fd()), []syscall.Timeval{at, mt}); err != nil {
			return err
		}
	}
	if a.flags&hasOwner != 0 {
		return f.Chown(int(a.uid), int(a.gid))
	}
	return nil
}

func (s *server) opendir(id uint32, path string) (reply, error) {
	if len(s.handles) >= maxHandles {
		return nil, syscall.EMFILE
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return s.put(id, &handle{File: f, dir: true, path: path}), nil
}

// atOnce is how many entries of a folder come by one request.
const atOnce = 100

func (s *server) readdir(id uint32, name string) (reply, error) {
	h, err := s.handle(name)
	if err != nil {
		return nil, err
	}
	if !h.dir {
		return nil, syscall.ENOTDIR
	}
	entries, err := h.ReadDir(atOnce)
	if len(entries) == 0 {
		if err == nil {
			err = io.EOF
		}
		return nil, err
	}
	out := newReply(typeName, id).uint32(0)
	count := uint32(0)
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			continue // it has gone meanwhile
		}
		out = out.string(e.Name()).string(long(st)).attrs(attrsOf(st))
		count++
	}
	counted := newReply(typeName, id).uint32(count)
	copy(out, counted)
	return out, nil
}

// long is a line as ls -l has it.
func long(st os.FileInfo) string {
	a := attrsOf(st)
	links := uint64(1)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		links = uint64(sys.Nlink)
	}
	when := "Jan _2 15:04"
	if since := time.Since(st.ModTime()); since > 180*24*time.Hour || since < -time.Hour {
		when = "Jan _2  2006"
	}
	mode := []byte("-" + st.Mode().Perm().String()[1:])
	switch m := st.Mode(); {
	case m.IsDir():
		mode[0] = 'd'
	case m&fs.ModeSymlink != 0:
		mode[0] = 'l'
	case m&fs.ModeNamedPipe != 0:
		mode[0] = 'p'
	case m&fs.ModeSocket != 0:
		mode[0] = 's'
	case m&fs.ModeCharDevice != 0:
		mode[0] = 'c'
	case m&fs.ModeDevice != 0:
		mode[0] = 'b'
	}
	return fmt.Sprintf("%s %4d %-8d %-8d %8d %s %s", mode, links, a.uid, a.gid, st.Size(), st.ModTime().Format(when), st.Name())
}
