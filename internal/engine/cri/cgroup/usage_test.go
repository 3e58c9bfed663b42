package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestUse(t *testing.T) {
	tests := map[string]struct {
		version Version
		files   map[string]string // in the one hierarchy there is
		want    Use
		ok      bool
	}{
		"v2": {V2, map[string]string{
			"cpu.stat": "usage_usec 1500000\nuser_usec 1\n", "memory.current": "1048576\n", "memory.stat": "anon 5\ninactive_file 48576\n",
		}, Use{1500 * time.Millisecond, 1000000}, true},
		"v1": {V1, map[string]string{
			"cpuacct.usage": "1500000000\n", "memory.usage_in_bytes": "1048576\n", "memory.stat": "inactive_file 1\ntotal_inactive_file 48576\n",
		}, Use{1500 * time.Millisecond, 1000000}, true},
		"more cache than use":  {V2, map[string]string{"cpu.stat": "usage_usec 0\n", "memory.current": "10\n", "memory.stat": "inactive_file 11\n"}, Use{}, true},
		"no CPU controller":    {V2, map[string]string{"memory.current": "10\n"}, Use{Memory: 10}, false},
		"no memory controller": {V1, map[string]string{"cpuacct.usage": "7\n"}, Use{CPU: 7}, false},
		"no group":             {V1, nil, Use{}, false},
		"what isn't a number":  {V1, map[string]string{"cpuacct.usage": "x\n", "memory.usage_in_bytes": "-1\n"}, Use{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, "job"), 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range tt.files {
				if err := os.WriteFile(filepath.Join(root, "job", file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, ok := (&Tree{version: tt.version, roots: []string{root}}).Use("/job")
			if got != tt.want || ok != tt.ok {
				t.Errorf("got %+v, %v, want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}
