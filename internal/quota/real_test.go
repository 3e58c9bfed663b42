//go:build quotavm

package quota

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// hack/quota-vm builds and runs these tests on a kernel that has quotas: the test is that
// machine's only program.
const (
	inVM    = "CROFT_QUOTA_VM"
	writing = "CROFT_QUOTA_WRITE" // a file that a process of this test is to write, as somebody
	uid     = 4711
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(writing) != "":
		write(os.Getenv(writing))
	case os.Getenv(inVM) != "" && os.Getpid() == 1:
		boot(m)
	default:
		os.Exit(m.Run())
	}
}

// write says how writing 2 MiB ends.
func write(path string) {
	f, err := os.Create(path)
	if err == nil {
		_, err = f.Write(make([]byte, 2<<20))
	}
	if err == nil {
		err = f.Sync()
	}
	if errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) { // the latter is XFS's word for a full project
		fmt.Print("over quota")
	} else {
		fmt.Print(err)
	}
}

// boot makes a machine of what the kernel started, tests, and turns it off.
func boot(m *testing.M) {
	fail := func(what string, err error) {
		if err != nil {
			fmt.Println("quota-vm:", what, err)
		}
	}
	for _, d := range []struct{ at, kind string }{{"/proc", "proc"}, {"/sys", "sysfs"}, {"/dev", "devtmpfs"}, {"/tmp", "tmpfs"}} {
		fail(d.at, os.MkdirAll(d.at, 0o755))
		fail(d.at, unix.Mount(d.kind, d.at, d.kind, 0, ""))
	}
	list, err := os.ReadFile("/modules/order")
	fail("modules", err)
	for name := range strings.FieldsSeq(string(list)) {
		f, err := os.Open("/modules/" + name)
		fail(name, err)
		fail(name, unix.FinitModule(int(f.Fd()), "", 0))
	}
	for i, d := range []struct{ image, at, kind, options string }{
		{"/ext4.img", "/ext4", "ext4", "usrquota,prjquota"}, {"/xfs.img", "/xfs", "xfs", "uquota,pquota"}, {"/plain.img", "/plain", "ext4", ""}, {"/ext4p.img", "/ext4p", "ext4", "prjquota"},
	} {
		loop := fmt.Sprint("/dev/loop", i)
		img, err := os.OpenFile(d.image, os.O_RDWR, 0)
		fail(d.image, err)
		dev, err := os.OpenFile(loop, os.O_RDWR, 0)
		fail(loop, err)
		fail(loop, unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_FD, int(img.Fd())))
		fail(d.at, os.MkdirAll(d.at, 0o755))
		fail(d.at, unix.Mount(loop, d.at, d.kind, 0, d.options))
	}
	fmt.Println("quota-vm: exit", m.Run())
	unix.Sync()
	fail("off", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// fill writes as somebody, and says how that ended.
func fill(t *testing.T, path string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writing+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// folder makes one that somebody may write in.
func folder(t *testing.T, path string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, uid, uid)); err != nil {
		t.Fatal(err)
	}
	return path
}

// The kernel counts and bounds what a user and a folder have.
func TestTheKernel(t *testing.T) {
	var q Quotas
	for _, root := range []string{"/ext4", "/xfs"} {
		t.Run(root[1:], func(t *testing.T) {
			home, lab := folder(t, root+"/home"), folder(t, root+"/lab")
			sub := folder(t, filepath.Join(lab, "sub"))
			if said := fill(t, lab+"/before"); said != "<nil>" {
				t.Fatalf("without limits: %s", said)
			}
			got, err := q.Set(t.Context(), lab, -1, Use{Limit: 3 << 20, MaxFiles: 100})
			if err != nil || got.By != "project" || got.Use.Limit != 3<<20 || got.Use.MaxFiles != 100 || got.Use.Bytes < 2<<20 || got.Use.Files != 3 || got.Why != "" {
				t.Errorf("%+v, %v", got, err)
			}
			if said := fill(t, sub+"/after"); said != "over quota" {
				t.Errorf("beyond a folder's limit: %s", said)
			}
			other := folder(t, root+"/other")
			if next, err := q.Set(t.Context(), other, -1, Use{Limit: 1 << 30}); err != nil || next.ID == got.ID || next.ID == 0 {
				t.Errorf("another folder: %+v, %v", next, err)
			}
			if said := fill(t, home+"/x"); said != "<nil>" {
				t.Errorf("beside the folder: %s", said)
			}
			if got, err = q.Set(t.Context(), home, uid, Use{Limit: 5 << 20}); err != nil || got.By != "user" || got.ID != uid || got.Use.Limit != 5<<20 || got.Use.Bytes < 4<<20 {
				t.Errorf("%+v, %v", got, err)
			}
			if said := fill(t, home+"/y"); said != "over quota" {
				t.Errorf("beyond a user's limit: %s", said)
			}
			if _, err = q.Set(t.Context(), home, uid, Use{}); err != nil || fill(t, home+"/y") != "<nil>" {
				t.Errorf("without limits again: %v", err)
			}
			if got, err = q.Of(t.Context(), home, uid+1); err != nil || got.Use != (Use{}) {
				t.Errorf("of one who never wrote: %+v, %v", got, err)
			}
		})
	}
	var none *NoQuotaError
	for _, at := range []string{folder(t, "/plain/x"), folder(t, "/tmp/x"), "/proc"} {
		if _, err := q.Set(t.Context(), at, uid, Use{Limit: 1 << 20}); !errors.As(err, &none) {
			t.Errorf("%s: %v", at, err)
		} else {
			t.Log(err)
		}
	}
	home := folder(t, "/ext4p/home")
	if got, err := q.Set(t.Context(), home, uid, Use{Limit: 1 << 20}); err != nil || got.By != "project" || fill(t, home+"/x") != "over quota" {
		t.Errorf("a home where only projects have limits: %+v, %v", got, err)
	}
}
