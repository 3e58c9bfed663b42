package quota

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Type is what a quota is of.
type Type int

// The types, as quotactl(2) numbers them.
const (
	User    Type = 0
	Project Type = 2
)

// Use is what is used, and how much may be. 0 bounds nothing.
type Use struct {
	Bytes, Limit    int64
	Files, MaxFiles int64
}

// Kernel is what is asked of the machine. Tests play it.
type Kernel interface {
	// FileSystem is the type of an open folder's file system, and what its users may still
	// write there in bytes.
	FileSystem(f *os.File) (magic, free int64, err error)
	// State reports whether a file system counts by a type, and whether it keeps to limits.
	State(f *os.File, t Type) (counts, enforces bool, err error)
	Get(f *os.File, t Type, id uint32) (Use, error)
	// Set puts the limits of use.
	Set(f *os.File, t Type, id uint32, use Use) error
	// Project is the project of an open file or folder, and whether what is made in it is of
	// the same.
	Project(f *os.File) (id uint32, inherits bool, err error)
	SetProject(f *os.File, id uint32, inherits bool) error
}

// Linux is the kernel that this runs on. It needs quotactl_fd(2), of Linux 5.14: that knows
// a file system by a file in it, and not by a device, which needn't be what is mounted.
type Linux struct{}

// What is asked, from linux/quota.h, linux/dqblk_xfs.h and linux/fs.h.
const (
	getQuota = 0x800007
	setQuota = 0x800008
	getState = 'X'<<8 + 5 // Q_XGETQSTAT, which all file systems with quotas answer

	limitBlocks = 1 // of dqblk.valid: its limits of bytes and of files are to be set
	limitFiles  = 4

	getAttributes  = 0x801c581f // FS_IOC_FSGETXATTR
	setAttributes  = 0x401c5820 // FS_IOC_FSSETXATTR
	projectInherit = 0x200      // of attributes.flags
)

// dqblk is struct if_dqblk.
type dqblk struct {
	hard, soft uint64 // KiB
	space      uint64 // bytes
	filesHard  uint64
	filesSoft  uint64
	files      uint64
	times      [2]uint64
	valid      uint32
	_          uint32
}

// qstat is struct fs_quota_stat.
type qstat struct {
	version int8
	_       int8
	flags   uint16
	_       [76]byte
}

// attributes is struct fsxattr.
type attributes struct {
	flags, extent, extents, project, cow uint32
	_                                    [8]byte
}

// quotactl is quotactl_fd(2).
func quotactl(fd uintptr, cmd int, t Type, id uint32, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, fd, uintptr(cmd<<8|int(t)), uintptr(id), uintptr(arg), 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// FileSystem implements Kernel.
func (Linux) FileSystem(f *os.File) (magic, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Type), int64(st.Bavail) * st.Frsize, nil
}

// State implements Kernel.
func (Linux) State(f *os.File, t Type) (counts, enforces bool, err error) {
	if unix.ENOSYS == quotactl(^uintptr(0), getState, t, 0, nil) {
		return false, false, errTooOld
	}
	var st qstat
	switch err := quotactl(f.Fd(), getState, t, 0, unsafe.Pointer(&st)); err {
	case nil:
	case unix.ENOSYS, unix.EINVAL, unix.ESRCH, unix.ENOTSUP: // it has none, none of the type, or they are off
		return false, false, nil
	default:
		return false, false, err
	}
	bits := st.flags >> (2 * t) // two for each type
	return bits&1 != 0, bits&2 != 0, nil
}

// Get implements Kernel.
func (Linux) Get(f *os.File, t Type, id uint32) (Use, error) {
	var q dqblk
	err := quotactl(f.Fd(), getQuota, t, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) {
		return Use{}, nil // XFS, of one that never wrote
	}
	return Use{Bytes: int64(q.space), Limit: int64(q.hard) << 10, Files: int64(q.files), MaxFiles: int64(q.filesHard)}, err
}

// Set implements Kernel.
func (Linux) Set(f *os.File, t Type, id uint32, use Use) error {
	blocks := uint64(use.Limit+1023) >> 10
	q := dqblk{hard: blocks, filesHard: uint64(use.MaxFiles), valid: limitBlocks | limitFiles}
	return quotactl(f.Fd(), setQuota, t, id, unsafe.Pointer(&q))
}

// Project implements Kernel.
func (Linux) Project(f *os.File) (id uint32, inherits bool, err error) {
	var a attributes
	err = control(f, getAttributes, &a)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOTSUP) {
		return 0, false, nil // a file system without projects
	}
	return a.project, a.flags&projectInherit != 0, err
}

// SetProject implements Kernel.
func (Linux) SetProject(f *os.File, id uint32, inherits bool) error {
	var a attributes
	if err := control(f, getAttributes, &a); err != nil {
		return err
	}
	if a.project = id; inherits {
		a.flags |= projectInherit
	}
	return control(f, setAttributes, &a)
}

func control(f *os.File, request uintptr, a *attributes) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return errno
	}
	return nil
}
