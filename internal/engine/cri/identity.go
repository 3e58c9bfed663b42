package cri

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"strings"

	"croft.dev/croft/internal/engine"
)

// systemUsers are the entries that programs look up by name, with the numbers
// that Debian, Fedora and Alpine agree on.
var systemUsers = []struct {
	name string
	id   int64
	home string
}{
	{"root", 0, "/root"},
	{"bin", 1, "/bin"},
	{"daemon", 2, "/sbin"},
	{"mail", 8, "/var/mail"},
	{"nobody", 65534, "/"},
}

var systemGroups = []struct {
	name string
	id   int64
}{
	{"root", 0}, {"bin", 1}, {"daemon", 2}, {"tty", 5}, {"mail", 8}, {"utmp", 43}, {"video", 44}, {"nogroup", 65534},
}

// passwdFile is the container's /etc/passwd: the usual system users and the
// job's user, who wins where a number is taken.
func passwdFile(u engine.User, mounts []engine.Mount) string {
	var b strings.Builder
	for _, s := range systemUsers {
		if s.id != u.UID && s.name != u.Name {
			fmt.Fprintf(&b, "%s:x:%d:%d::%s:/sbin/nologin\n", s.name, s.id, s.id, s.home)
		}
	}
	fmt.Fprintf(&b, "%s:x:%d:%d::%s:%s\n", field(u.Name), u.UID, u.GID, field(cmp.Or(mountedHome(u, mounts), noHome)), field(shellOf(u)))
	return b.String()
}

// groupFile is the container's /etc/group. The user's primary group is named
// after one of his groups if that has its number, else after himself.
func groupFile(u engine.User) string {
	var b strings.Builder
	taken := make(map[int64]bool)
	add := func(name string, gid int64, member string) {
		if taken[gid] {
			return
		}
		taken[gid] = true
		fmt.Fprintf(&b, "%s:x:%d:%s\n", field(name), gid, field(member))
	}
	for _, g := range u.Groups {
		add(g.Name, g.GID, u.Name)
	}
	for _, g := range systemGroups {
		add(g.name, g.id, "")
	}
	add(u.Name, u.GID, "")
	return b.String()
}

// hostsFile is the container's /etc/hosts: itself, so that programs which look up
// their own host name find it, then what the machine's file says of others.
func hostsFile(hostname, machine string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 %s\n", hostname)
	for line := range strings.Lines(machine) {
		line, _, _ = strings.Cut(line, "#")
		names := strings.Fields(line)
		if len(names) < 2 {
			continue
		}
		if ip, err := netip.ParseAddr(names[0]); err != nil || ip.IsLoopback() {
			continue
		}
		fmt.Fprintln(&b, strings.Join(names, " "))
	}
	return b.String()
}

// field makes a value fit for a colon-separated line.
func field(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ':' || r < ' ' {
			return '_'
		}
		return r
	}, s)
}

// noHome is the home of a user who has none in the container (croft-init takes / where an
// image has no /tmp).
const noHome = "/tmp"

// mountedHome is the user's home directory if it is there, which a mount brings along;
// else empty.
func mountedHome(u engine.User, mounts []engine.Mount) string {
	home := path.Clean(u.Home)
	if !path.IsAbs(u.Home) {
		return ""
	}
	if home == "/" || home == "/tmp" {
		return home
	}
	for _, m := range mounts {
		target := path.Clean(m.Target)
		if home == target || strings.HasPrefix(home, strings.TrimSuffix(target, "/")+"/") {
			return home
		}
	}
	return ""
}

// shellOf is the user's shell; croft-init falls back to /bin/sh where the image
// lacks it.
func shellOf(u engine.User) string {
	if u.Shell == "" {
		return "/bin/sh"
	}
	return u.Shell
}
