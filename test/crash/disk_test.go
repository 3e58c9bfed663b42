package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/test/site"

	"golang.org/x/sys/unix"
)

// TestDiskFull fills the disk of the data directory: who submits is told that it
// can't be done now, nothing is lost, and it goes on once there is room.
func TestDiskFull(t *testing.T) {
	s := open(t, site.Config{Name: "disk", Sim: true, Tmpfs: "16m"})
	c := s.Client()
	populate(t, c, "root")
	l := &load{client: c, accepted: map[string]string{}, spec: v1.JobSpec{
		Account: account, Image: "tiny:1", CPU: "0.1", Command: []string{"sim", "run=1ms"},
	}}
	for i := range 20 {
		_, err := l.submit(t.Context(), fmt.Sprintf("before-%d", i))
		must(t, err)
	}
	filler := filepath.Join(s.Data, "filler")
	must(t, fill(filler))

	refused := fillLog(t, l)
	if st, err := c.Status(t.Context()); err != nil {
		t.Errorf("status while the disk is full: %v, %v", st, err)
	}
	must(t, os.Remove(filler))

	// the same submission goes through now
	job, err := l.submit(t.Context(), refused)
	must(t, err)
	if job.ID == "" {
		t.Error("the job has no id")
	}
	l.ended(t)
	consistent(t, c)

	must(t, s.Kill())
	must(t, s.Start(t.Context()))
	l.ended(t)
	consistent(t, c)
}

// fillLog submits until one submission isn't accepted, and returns its key. What
// the database's own files had room for goes through before that.
func fillLog(t *testing.T, l *load) string {
	t.Helper()
	for end, i := time.Now().Add(30*time.Second), 0; time.Now().Before(end); i++ {
		key := fmt.Sprintf("full-%d", i)
		spec := l.spec
		spec.Name = key
		job, err := l.client.Submit(t.Context(), spec, v1.Key(key))
		if err != nil {
			if !isCode(err, codes.Unavailable) {
				t.Errorf("on a full disk: %v (%s), want unavailable", err, v1.CodeOf(err))
			}
			return key
		}
		l.accepted[key] = job.ID
	}
	t.Fatal("the disk is full, and everything is accepted")
	return ""
}

// fill writes a file until the file system is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		_, err := f.Write(make([]byte, size))
		if errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}
