package sftp

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// extended does what OpenSSH has added to the draft.
func (s *server) extended(id uint32, r *request) (reply, error) {
	switch what := r.string(); what {
	case "posix-rename@openssh.com":
		from, to := r.string(), r.string()
		if r.bad {
			return nil, errBad
		}
		return nil, os.Rename(from, to)
	case "hardlink@openssh.com":
		from, to := r.string(), r.string()
		if r.bad {
			return nil, errBad
		}
		return nil, os.Link(from, to)
	case "lsetstat@openssh.com":
		path := r.string()
		return nil, setPath(path, r.attrs(), r, true)
	case "fsync@openssh.com":
		h, err := s.handle(r.string())
		if err != nil {
			return nil, err
		}
		return nil, h.Sync()
	case "statvfs@openssh.com":
		var st syscall.Statfs_t
		if err := syscall.Statfs(r.string(), &st); err != nil {
			return nil, err
		}
		return volume(id, &st), nil
	case "fstatvfs@openssh.com":
		h, err := s.handle(r.string())
		if err != nil {
			return nil, err
		}
		var st syscall.Statfs_t
		if err := syscall.Fstatfs(int(h.Fd()), &st); err != nil {
			return nil, err
		}
		return volume(id, &st), nil
	case "limits@openssh.com":
		return newReply(typeExtendedReply, id).uint64(maxPacket).uint64(maxData).uint64(maxData).uint64(maxHandles), nil
	case "expand-path@openssh.com":
		path, err := realpath(expand(r.string()))
		return oneName(id, path), err
	}
	return nil, errUnsupported
}

// volume says how large a file system is, and how full.
func volume(id uint32, st *syscall.Statfs_t) reply {
	const readOnly, noSetuid = 1, 2
	var flags uint64
	if st.Flags&syscall.MS_RDONLY != 0 {
		flags |= readOnly
	}
	if st.Flags&syscall.MS_NOSUID != 0 {
		flags |= noSetuid
	}
	block := uint64(st.Frsize)
	if block == 0 {
		block = uint64(st.Bsize)
	}
	return newReply(typeExtendedReply, id).uint64(uint64(st.Bsize)).uint64(block).
		uint64(st.Blocks).uint64(st.Bfree).uint64(st.Bavail).uint64(st.Files).uint64(st.Ffree).uint64(st.Ffree).
		uint64(uint64(uint32(st.Fsid.X__val[0]))).uint64(flags).uint64(uint64(st.Namelen))
}

// expand makes ~ the home of whoever runs this, and ~NAME that of another.
func expand(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path
	}
	who, below, _ := strings.Cut(rest, "/")
	home := os.Getenv("HOME")
	if who != "" {
		if home = homeOf(who); home == "" {
			return path
		}
	}
	return filepath.Join(home, below)
}

// homeOf looks a name up where the image has its users.
func homeOf(name string) string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) >= 6 && fields[0] == name {
			return fields[5]
		}
	}
	return ""
}

// lchtimes sets the times of a link itself (utimensat(2)).
func lchtimes(path string, a attrs) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	const atCwd, noFollow = -100, 0x100
	cwd := atCwd
	times := [2]syscall.Timespec{{Sec: int64(a.atime)}, {Sec: int64(a.mtime)}}
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(cwd), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&times)), noFollow, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
