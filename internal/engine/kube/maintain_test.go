package kube

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestMaintain removes logs after their time, and not those of a Pod that is still there.
func TestMaintain(t *testing.T) {
	dir := t.TempDir()
	e := &Engine{cfg: Config{LogDir: dir, LogRetention: time.Hour, Namespace: "ns"}}
	e.pods = cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	if err := e.pods.GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: podName("i-2-1")}}); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	for name, at := range map[string]time.Time{"i-1-1": old, "i-2-1": old, "i-3-1": time.Now()} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "1.log"), nil, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"i-1-1": false, "i-2-1": true, "i-3-1": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("the log of %s: %v", name, err)
		}
	}
}
