package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Quotas reads and sets quotas. The zero value asks the kernel.
type Quotas struct {
	Kernel Kernel

	projects sync.Mutex // held while a folder is given a project
}

// Place is what a file system says of a folder.
type Place struct {
	FileSystem string
	Free       int64  // bytes that users may still write on it, quotas aside
	By         string // "user", "project", or empty: nothing counts there
	ID         uint32 // the uid or the project
	Use        Use
	Why        string // why no limit holds there, and what would help; empty: one does, or could
}

// NoQuotaError says why no limit can be set on a folder, and what would help.
type NoQuotaError struct{ Path, Why string }

func (e *NoQuotaError) Error() string { return e.Path + ": " + e.Why }

var errTooOld = errors.New("the kernel is older than Linux 5.14, and Croft can't ask it")

// answers is how long a file system may take: one that is away must not hold up the others.
const answers = 10 * time.Second

func (q *Quotas) kernel() Kernel {
	if q.Kernel == nil {
		return Linux{}
	}
	return q.Kernel
}

// Of says what is used of a folder, and how much may be: by the user with uid, if that is his
// home, or for a negative uid by its project.
func (q *Quotas) Of(ctx context.Context, path string, uid int64) (Place, error) {
	return within(ctx, path, func() (Place, error) {
		f, err := open(path)
		if err != nil {
			return Place{}, err
		}
		defer f.Close()
		place, _, err := q.of(f, uid)
		return place, err
	})
}

// within does what may hang, and leaves it behind then.
func within(ctx context.Context, path string, do func() (Place, error)) (Place, error) {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	type answer struct {
		place Place
		err   error
	}
	said := make(chan answer, 1)
	go func() {
		p, err := do()
		said <- answer{p, err}
	}()
	select {
	case a := <-said:
		return a.place, a.err
	case <-ctx.Done():
		return Place{}, fmt.Errorf("%s doesn't answer", path)
	}
}

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

// state is how a file system stands towards a folder's limits.
type state struct{ userCounts, userEnforces, projectCounts, projectEnforces bool }

// of asks for a folder: its user's quota if that has a limit, else its project's if it is of
// one, else what its user has without a limit.
func (q *Quotas) of(f *os.File, uid int64) (Place, state, error) {
	k := q.kernel()
	var s state
	magic, free, err := k.FileSystem(f)
	if err != nil {
		return Place{}, s, err
	}
	place := Place{FileSystem: nameOf(magic), Free: free}
	if uid >= 0 {
		s.userCounts, s.userEnforces, err = k.State(f, User)
	}
	if err == nil {
		s.projectCounts, s.projectEnforces, err = k.State(f, Project)
	}
	switch {
	case errors.Is(err, errTooOld):
		place.Why = err.Error()
		return place, s, nil
	case err != nil:
		return place, s, err
	}
	if err := q.counted(f, uid, s, &place); err != nil {
		return place, s, err
	}
	if !(s.userEnforces || s.projectEnforces) {
		place.Why = why(magic, uid >= 0)
	}
	return place, s, nil
}

// counted fills in what is used, and by whom it is counted.
func (q *Quotas) counted(f *os.File, uid int64, s state, place *Place) error {
	k := q.kernel()
	var own Use
	if s.userCounts {
		var err error
		if own, err = k.Get(f, User, uint32(uid)); err != nil {
			return err
		}
	}
	project := uint32(0)
	if s.projectCounts {
		var err error
		if project, _, err = k.Project(f); err != nil {
			return err
		}
	}
	switch {
	case s.userCounts && (own.Limit > 0 || own.MaxFiles > 0 || project == 0):
		place.By, place.ID, place.Use = "user", uint32(uid), own
	case project != 0:
		use, err := k.Get(f, Project, project)
		if err != nil {
			return err
		}
		place.By, place.ID, place.Use = "project", project, use
	}
	return nil
}

// Set bounds what may be in a folder, and returns how it stands then: by its user's quota
// where the file system has such, or else, and for a negative uid, by a project that all that
// is in it is given. A limit of 0 bounds nothing. One that was cut off is done by doing it
// again. The error is a *NoQuotaError where no limit would hold.
func (q *Quotas) Set(ctx context.Context, path string, uid int64, limits Use) (Place, error) {
	f, err := open(path)
	if err != nil {
		return Place{}, err
	}
	defer f.Close()
	place, s, err := q.of(f, uid)
	if err != nil {
		return place, err
	}
	switch {
	case s.userEnforces:
		err = q.kernel().Set(f, User, uint32(uid), limits)
	case s.projectEnforces:
		err = q.setProject(ctx, f, limits)
	default:
		return place, &NoQuotaError{path, place.Why}
	}
	if err != nil {
		return place, fmt.Errorf("%s: %w", path, err)
	}
	place, _, err = q.of(f, uid)
	return place, err
}

// setProject bounds a folder by its project, and makes sure that all in it is of that.
func (q *Quotas) setProject(ctx context.Context, f *os.File, limits Use) error {
	q.projects.Lock()
	defer q.projects.Unlock()
	k := q.kernel()
	id, _, err := k.Project(f)
	if err != nil {
		return err
	}
	if id == 0 {
		if id, err = q.unused(f); err != nil {
			return err
		}
	}
	if err := q.tag(ctx, f, id); err != nil {
		return err
	}
	return k.Set(f, Project, id, limits)
}

// Projects that Croft gives are from here on, out of the way of those that people number.
const (
	firstProject = 1_000_000
	lastProject  = firstProject + 100_000
)

// unused is a project that nothing on the file system is of, and that has no limits.
func (q *Quotas) unused(f *os.File) (uint32, error) {
	for id := uint32(firstProject); id < lastProject; id++ {
		use, err := q.kernel().Get(f, Project, id)
		if err != nil {
			return 0, err
		}
		if use == (Use{}) {
			return id, nil
		}
	}
	return 0, errors.New("no project is unused")
}

// nameOf is what a type of file systems is called, as statfs(2) numbers them.
func nameOf(magic int64) string {
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.NFS_SUPER_MAGIC: "NFS", 0x2FC12FC1: "ZFS",
	}
	if name, ok := names[magic]; ok {
		return name
	}
	return fmt.Sprintf("file system %#x", magic)
}

// why says why a file system bounds nothing, and what would help.
func why(magic int64, user bool) string {
	ext, xfs := "prjquota", "pquota"
	if user {
		ext, xfs = "usrquota (or prjquota)", "uquota (or pquota)"
	}
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "no quotas: tune2fs -O quota,project on its device while it isn't mounted, and mount it with " + ext
	case unix.XFS_SUPER_MAGIC:
		return "no quotas: mount it with " + xfs
	}
	return "no quotas that Croft can read or set: see the tools of " + nameOf(magic)
}
