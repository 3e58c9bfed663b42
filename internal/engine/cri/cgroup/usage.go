package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Use is what the processes of a group and of those beneath it use.
type Use struct {
	CPU    time.Duration // since the group was made
	Memory int64         // bytes, without files that the kernel would drop at once
}

// Use returns what group uses. It isn't ok where the group isn't there, or the kernel
// doesn't count.
func (t *Tree) Use(group string) (u Use, ok bool) {
	var cpu, memory bool
	for _, root := range t.roots {
		dir := filepath.Join(root, group)
		if t.version == V2 {
			usec, counted := fieldOf(filepath.Join(dir, "cpu.stat"), "usage_usec")
			if counted {
				u.CPU, cpu = time.Duration(usec)*time.Microsecond, true
			}
		} else if nsec, counted := number(filepath.Join(dir, "cpuacct.usage")); counted {
			u.CPU, cpu = time.Duration(nsec), true
		}
		file, cache := "memory.usage_in_bytes", "total_inactive_file"
		if t.version == V2 {
			file, cache = "memory.current", "inactive_file"
		}
		if bytes, counted := number(filepath.Join(dir, file)); counted {
			u.Memory, memory = max(bytes-field(filepath.Join(dir, "memory.stat"), cache), 0), true
		}
	}
	return u, cpu && memory
}

// number reads a file that has one number.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n >= 0
}
