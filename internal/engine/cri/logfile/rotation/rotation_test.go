package rotation

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// put writes a log.
func put(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRotateAndPrune(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	for i := range 6 {
		put(t, path)
		if did, err := Rotate(path, 1<<20, epoch); did || err != nil {
			t.Fatalf("a small file was rotated: %v", err)
		}
		if did, err := Rotate(path, 1, epoch.Add(time.Duration(i)*time.Second)); !did || err != nil {
			t.Fatalf("rotate: %v, %v", did, err)
		}
	}
	put(t, path)
	if err := Prune(path, 2); err != nil {
		t.Fatal(err)
	}
	files, err := Files(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	want := []string{"1.log.20260102T030409.000000000", "1.log.20260102T030410.000000000", "1.log"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
