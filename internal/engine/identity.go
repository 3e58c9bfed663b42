package engine

import (
	"cmp"
	"fmt"
	"strings"
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

// PasswdFile is the container's /etc/passwd: the usual system users and the
// job's user, who wins where a number is taken.
func (u User) PasswdFile(home string) string {
	var b strings.Builder
	for _, s := range systemUsers {
		if s.id != u.UID && s.name != u.Name {
			fmt.Fprintf(&b, "%s:x:%d:%d::%s:/sbin/nologin\n", s.name, s.id, s.id, s.home)
		}
	}
	fmt.Fprintf(&b, "%s:x:%d:%d::%s:%s\n", field(u.Name), u.UID, u.GID, field(home), field(cmp.Or(u.Shell, "/bin/sh")))
	return b.String()
}

// GroupFile is the container's /etc/group. The user's primary group is named
// after one of his groups if that has its number, else after himself.
func (u User) GroupFile() string {
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

// field makes a value fit for a colon-separated line.
func field(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ':' || r < ' ' {
			return '_'
		}
		return r
	}, s)
}
