package cli

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startBrowser starts the browser that the user has chosen: BROWSER, or the desktop's.
func startBrowser(url string) error {
	for _, command := range browsers(os.Getenv, runtime.GOOS) {
		path, err := exec.LookPath(command)
		if err != nil {
			continue
		}
		cmd := exec.Command(path, url)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it stays when this program is interrupted
		if err := cmd.Start(); err != nil {
			continue
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended: // it has handed the address on, or couldn't
			if err == nil {
				return nil
			}
		case <-time.After(2 * time.Second):
			return nil
		}
	}
	return errNoBrowser
}

// browsers are the programs that may show a page, the user's choice first.
func browsers(getenv func(string) string, system string) []string {
	var all []string
	for name := range strings.SplitSeq(getenv("BROWSER"), ":") {
		if name != "" {
			all = append(all, name)
		}
	}
	switch {
	case system == "darwin":
		all = append(all, "open")
	case getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != "":
		all = append(all, "xdg-open", "sensible-browser", "x-www-browser")
	}
	return all
}

// ownConnection reports whether the other end of a TCP connection on loopback is a process of
// this user's: where the system tells whose it is, which is on Linux.
func ownConnection(remote, local string) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		if uid, err := connectionOwner(string(text), remote, local); err == nil {
			return uid == os.Getuid()
		}
	}
	return false
}

// connectionOwner finds whose the connection from one address to another is in a table of the
// kernel's (proc_net_tcp(5)): its lines begin with number, local and remote address, state,
// queues, timer, retransmits, uid.
func connectionOwner(table, from, to string) (uid int, err error) {
	a, err := kernelAddress(from)
	b, err2 := kernelAddress(to)
	if err = errors.Join(err, err2); err != nil {
		return 0, err
	}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 7 && strings.HasSuffix(f[1], a) && strings.HasSuffix(f[2], b) {
			return strconv.Atoi(f[7])
		}
	}
	return 0, fmt.Errorf("nobody is connected from %s to %s", from, to)
}

// kernelAddress is an IPv4 address and its port as the kernel's tables write it: the address
// as a number in the machine's own order.
func kernelAddress(text string) (string, error) {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return "", err
	}
	if !at.Addr().Is4() {
		return "", fmt.Errorf("%s isn't IPv4", text)
	}
	ip := at.Addr().As4()
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], binary.NativeEndian.Uint32(ip[:]))
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(out[:])), at.Port()), nil
}
