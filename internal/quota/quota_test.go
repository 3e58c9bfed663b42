package quota

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// fake is a file system with quotas of the types that it is told.
type fake struct {
	Linux
	magic    int64
	counts   map[Type]bool
	enforces map[Type]bool
	uses     map[Type]map[uint32]Use
	projects map[uint64]uint32 // by inode
	inherits map[uint64]bool
	old      bool
	sets     int
}

func newFake(enforces ...Type) *fake {
	f := &fake{magic: unix.EXT4_SUPER_MAGIC, counts: map[Type]bool{}, enforces: map[Type]bool{}, uses: map[Type]map[uint32]Use{User: {}, Project: {}}, projects: map[uint64]uint32{}, inherits: map[uint64]bool{}}
	for _, t := range enforces {
		f.counts[t], f.enforces[t] = true, true
	}
	return f
}

func inode(f *os.File) uint64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		panic(err)
	}
	return st.Ino
}

func (k *fake) FileSystem(*os.File) (magic, free int64, err error) { return k.magic, 1 << 30, nil }

func (k *fake) State(_ *os.File, t Type) (counts, enforces bool, err error) {
	if k.old {
		return false, false, errTooOld
	}
	return k.counts[t], k.enforces[t], nil
}

func (k *fake) Get(_ *os.File, t Type, id uint32) (Use, error) { return k.uses[t][id], nil }

func (k *fake) Set(_ *os.File, t Type, id uint32, use Use) error {
	u := k.uses[t][id]
	u.Limit, u.MaxFiles = use.Limit, use.MaxFiles
	k.uses[t][id] = u
	return nil
}

func (k *fake) Project(f *os.File) (id uint32, inherits bool, err error) {
	return k.projects[inode(f)], k.inherits[inode(f)], nil
}

func (k *fake) SetProject(f *os.File, id uint32, inherits bool) error {
	k.projects[inode(f)], k.inherits[inode(f)] = id, inherits
	k.sets++
	return nil
}

func TestOf(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		kernel func(k *fake, ino uint64)
		uid    int64
		want   Place
		why    string
	}{
		"a user's limit": {
			func(k *fake, _ uint64) {
				k.counts[User], k.enforces[User] = true, true
				k.uses[User][7] = Use{Bytes: 5, Limit: 10, Files: 1}
			}, 7, Place{By: "user", ID: 7, Use: Use{Bytes: 5, Limit: 10, Files: 1}}, "",
		},
		"a user without one, in a project": {
			func(k *fake, ino uint64) {
				k.counts[User], k.enforces[User], k.counts[Project], k.enforces[Project] = true, true, true, true
				k.projects[ino], k.uses[Project][9] = 9, Use{Bytes: 3, Limit: 4}
			}, 7, Place{By: "project", ID: 9, Use: Use{Bytes: 3, Limit: 4}}, "",
		},
		"a folder in a project": {
			func(k *fake, ino uint64) {
				k.counts[User], k.enforces[User], k.counts[Project], k.enforces[Project] = true, true, true, true
				k.projects[ino], k.uses[Project][9], k.uses[User][0] = 9, Use{Files: 3}, Use{Limit: 1}
			}, -1, Place{By: "project", ID: 9, Use: Use{Files: 3}}, "",
		},
		"a folder in none": {
			func(k *fake, _ uint64) { k.counts[Project], k.enforces[Project] = true, true }, -1, Place{}, "",
		},
		"counted, but not enforced": {
			func(k *fake, _ uint64) { k.counts[User], k.uses[User][7] = true, Use{Bytes: 5} },
			7, Place{By: "user", ID: 7, Use: Use{Bytes: 5}}, "mount it with usrquota (or prjquota)",
		},
		"none on ext4":  {func(*fake, uint64) {}, 7, Place{}, "tune2fs -O quota,project"},
		"none on XFS":   {func(k *fake, _ uint64) { k.magic = unix.XFS_SUPER_MAGIC }, -1, Place{FileSystem: "xfs"}, "mount it with pquota"},
		"on another":    {func(k *fake, _ uint64) { k.magic = unix.NFS_SUPER_MAGIC }, 7, Place{FileSystem: "NFS"}, "see the tools of NFS"},
		"an old kernel": {func(k *fake, _ uint64) { k.old = true }, 7, Place{}, "older than Linux 5.14"},
	} {
		f, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		k := newFake()
		tt.kernel(k, inode(f))
		f.Close()
		q := Quotas{Kernel: k}
		got, err := q.Of(t.Context(), dir, tt.uid)
		if !strings.Contains(got.Why, tt.why) || (got.Why == "") != (tt.why == "") {
			t.Errorf("%s: why: %q", name, got.Why)
		}
		got.Why, tt.want.Free = "", 1<<30
		if tt.want.FileSystem == "" {
			tt.want.FileSystem = "ext4"
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	if _, err := (&Quotas{Kernel: newFake()}).Of(t.Context(), dir+"/none", 7); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that isn't there: %v", err)
	}
}

func TestSet(t *testing.T) {
	dir := t.TempDir()
	q := Quotas{Kernel: newFake(User, Project)}
	got, err := q.Set(t.Context(), dir, 7, Use{Limit: 10, MaxFiles: 3})
	if err != nil || got.By != "user" || got.Use != (Use{Limit: 10, MaxFiles: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	var none *NoQuotaError
	if _, err := (&Quotas{Kernel: newFake()}).Set(t.Context(), dir, 7, Use{Limit: 10}); !errors.As(err, &none) || !strings.Contains(none.Why, "tune2fs") {
		t.Errorf("where there are none: %v", err)
	}
	if _, err := (&Quotas{Kernel: newFake(User)}).Set(t.Context(), dir, -1, Use{Limit: 10}); !errors.As(err, &none) {
		t.Errorf("a folder where only users are counted: %v", err)
	}
}

// A folder's limit is that of a project that all in it is of, and nothing beside it.
func TestSetOnAFolder(t *testing.T) {
	top := t.TempDir()
	dir, beside := filepath.Join(top, "data"), filepath.Join(top, "beside")
	for _, d := range []string{filepath.Join(dir, "a", "b"), filepath.Join(dir, "c"), beside} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, "x"), filepath.Join(dir, "a", "b", "y"), filepath.Join(beside, "secret")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Symlink(beside, filepath.Join(dir, "link")), os.Symlink(filepath.Join(beside, "secret"), filepath.Join(dir, "a", "link")), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	k := newFake(Project)
	k.uses[Project][firstProject] = Use{Files: 1} // somebody has that one
	q := Quotas{Kernel: k}
	got, err := q.Set(t.Context(), dir, -1, Use{Limit: 1 << 20})
	if want := (Place{FileSystem: "ext4", Free: 1 << 30, By: "project", ID: firstProject + 1, Use: Use{Limit: 1 << 20}}); got != want || err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	of := func(path string) (uint32, bool) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return k.projects[st.Ino], k.inherits[st.Ino]
	}
	for path, folder := range map[string]bool{dir: true, dir + "/a": true, dir + "/a/b": true, dir + "/c": true, dir + "/x": false, dir + "/a/b/y": false} {
		if id, inherits := of(path); id != firstProject+1 || inherits != folder {
			t.Errorf("%s is of %d, inherits %v", path, id, inherits)
		}
	}
	for _, path := range []string{beside, beside + "/secret", top} {
		if id, _ := of(path); id != 0 {
			t.Errorf("%s is of %d", path, id)
		}
	}
	was := k.sets
	if got, err := q.Set(t.Context(), dir, -1, Use{}); err != nil || got.ID != firstProject+1 || got.Use.Limit != 0 || k.sets != was {
		t.Errorf("again: %+v, %v, %d changes", got, err, k.sets-was)
	}
	delete(k.projects, inodeOf(t, dir+"/a/b/y")) // a change that was cut off
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Set(ctx, dir, -1, Use{Limit: 5}); !errors.Is(err, context.Canceled) || k.uses[Project][firstProject+1].Limit != 0 {
		t.Errorf("cut off: %v", err)
	}
	if _, err := q.Set(t.Context(), dir, -1, Use{Limit: 5}); err != nil {
		t.Error(err)
	}
	if id, _ := of(dir + "/a/b/y"); id != firstProject+1 {
		t.Errorf("what was missed is of %d", id)
	}
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return inode(f)
}
