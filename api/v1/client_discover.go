package v1

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// DefaultSocket is where a server that was set up for the machine listens.
const DefaultSocket = "/run/croft/croft.sock"

// Discover returns the address of the server that a user in directory dir
// means: CROFT_SERVER, else CROFT_SOCKET, else the socket .croft/croft.sock of
// the nearest directory from dir upwards that has a .croft of the caller's or of
// root, else DefaultSocket.
func Discover(getenv func(string) string, dir string) string {
	if s := getenv("CROFT_SERVER"); s != "" {
		return s
	}
	if s := getenv("CROFT_SOCKET"); s != "" {
		return "unix://" + s
	}
	for d := dir; d != ""; d = filepath.Dir(d) {
		local := filepath.Join(d, ".croft")
		if fi, err := os.Stat(local); err == nil && fi.IsDir() && trusted(fi) {
			return "unix://" + filepath.Join(local, "croft.sock")
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	return "unix://" + DefaultSocket
}

// trusted tells whether a directory belongs to the caller or to root. In one of
// somebody else's, such as /tmp/.croft, a stranger could collect what the
// caller submits.
func trusted(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Getuid())
}

// DiscoverToken returns the caller's token: CROFT_TOKEN, else what the file
// croft/token in the user's configuration directory holds, else "".
func DiscoverToken(getenv func(string) string) string {
	if t := getenv("CROFT_TOKEN"); t != "" {
		return t
	}
	config := getenv("XDG_CONFIG_HOME")
	if config == "" && getenv("HOME") != "" {
		config = filepath.Join(getenv("HOME"), ".config")
	}
	if config == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(config, "croft", "token"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
