package cri

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"strings"

	"croft.dev/croft/internal/engine"
)

// passwdFile is the container's /etc/passwd.
func passwdFile(u engine.User, mounts []engine.Mount) string {
	return u.PasswdFile(cmp.Or(mountedHome(u, mounts), noHome))
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
