package setup

import (
	"context"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroups reports the version of control groups and the controllers missing.
func cgroups(_ context.Context, d *Deps) []Finding {
	if text, err := fs.ReadFile(d.Machine.Files, "sys/fs/cgroup/cgroup.controllers"); err == nil {
		missing := without([]string{"cpu", "cpuset", "memory", "pids"}, strings.Fields(string(text)))
		if len(missing) > 0 {
			return fix(one(Fail, "version 2 without %s: limits can't be enforced", strings.Join(missing, ", ")),
				"boot without cgroup_disable=; in a container or unit, delegate the controllers (Delegate=yes)")
		}
		return one(OK, "version 2")
	}
	text, err := fs.ReadFile(d.Machine.Files, "proc/self/mountinfo")
	if err != nil {
		return one(Warn, "can't be told: no /proc/self/mountinfo")
	}
	missing := without([]string{"cpu", "cpuset", "devices", "freezer", "memory", "pids"}, v1Controllers(string(text)))
	if len(missing) > 0 {
		return fix(one(Fail, "version 1 without %s", strings.Join(missing, ", ")),
			"mount them below /sys/fs/cgroup, or boot with version 2")
	}
	return one(OK, "version 1: works; version 2 has better accounting of memory")
}

// v1Controllers returns what the cgroup file systems in the text of mountinfo are
// mounted with.
func v1Controllers(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		_, after, ok := strings.Cut(line, " - ")
		f := strings.Fields(after)
		if ok && len(f) >= 3 && f[0] == "cgroup" {
			out = append(out, strings.Split(f[2], ",")...)
		}
	}
	return out
}

func without(want, have []string) []string {
	return slices.DeleteFunc(want, func(w string) bool { return slices.Contains(have, w) })
}

// version is a kernel's release as far as features follow it; zero is none.
type version struct{ major, minor int }

func (v version) atLeast(w version) bool {
	return v.major > w.major || v.major == w.major && v.minor >= w.minor
}

// kernel reports the release, and what this process may not do.
func kernel(_ context.Context, d *Deps) []Finding {
	text, err := d.Machine.Kernel()
	if err != nil {
		return one(Warn, "its release can't be read: %v", err)
	}
	out := one(OK, "%s", text)
	if !parseRelease(text).atLeast(version{5, 19}) {
		out = fix(one(Note, "%s is too old for fake root: containers run as their user", text), "Linux 5.19 or later can")
	}
	if !parseRelease(text).atLeast(version{5, 12}) {
		out = fix(one(Warn, "%s is too old for jobs to mount folders", text), "Linux 5.12 or later can")
	}
	if !d.Machine.Root {
		return append(out, one(Note, "not run by root: devices' users, capabilities and idmapped mounts weren't looked at")...)
	}
	return append(out, capabilities(d)...)
}

// parseRelease reads "6.1.0-28-amd64"; what isn't of that form is zero.
func parseRelease(s string) version {
	major, rest, _ := strings.Cut(s, ".")
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		rest = rest[:end]
	}
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(rest)
	if err1 != nil || err2 != nil {
		return version{}
	}
	return version{a, b}
}

// capabilities reports what root lacks here, which it does in most containers.
func capabilities(d *Deps) []Finding {
	text, err := fs.ReadFile(d.Machine.Files, "proc/self/status")
	if err != nil {
		return nil
	}
	set, ok := effective(string(text))
	if !ok {
		return nil
	}
	var out []Finding
	for _, c := range []struct {
		bit   int
		level Level
		text  string
	}{
		{unix.CAP_SYS_ADMIN, Fail, "no CAP_SYS_ADMIN: containers can't be started"},
		{unix.CAP_NET_ADMIN, Fail, "no CAP_NET_ADMIN: containers can't be given a network"},
		{unix.CAP_SYS_RESOURCE, Note, "no CAP_SYS_RESOURCE: the limit on locked memory stays as it is (RDMA, pinned buffers)"},
	} {
		if set&(1<<c.bit) == 0 {
			out = append(out, Finding{Level: c.level, Text: c.text, Fix: "run Croft outside of a container, or give that one the capability"})
		}
	}
	return out
}

// effective reads the effective capabilities from the text of /proc/self/status.
func effective(status string) (uint64, bool) {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			return set, err == nil
		}
	}
	return 0, false
}
