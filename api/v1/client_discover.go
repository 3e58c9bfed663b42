package v1

import (
	"errors"
	"io/fs"
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
// root, else the server that the caller is logged in to, else DefaultSocket.
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
	if s := (LoginFiles{ConfigDir(getenv)}).Server(); s != "" {
		return s
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

// ConfigDir is croft's directory in the user's configuration directory; "" when
// there is none.
func ConfigDir(getenv func(string) string) string {
	config := getenv("XDG_CONFIG_HOME")
	if config == "" && getenv("HOME") != "" {
		config = filepath.Join(getenv("HOME"), ".config")
	}
	if config == "" {
		return ""
	}
	return filepath.Join(config, "croft")
}

// DiscoverToken returns the caller's token for a server: CROFT_TOKEN, else what the
// file croft/token in the user's configuration directory holds, unless that is from
// a login to another server; else "".
func DiscoverToken(getenv func(string) string, server string) string {
	if t := getenv("CROFT_TOKEN"); t != "" {
		return t
	}
	files := LoginFiles{ConfigDir(getenv)}
	if of := files.Server(); of != "" && of != strings.TrimSuffix(server, "/") {
		return ""
	}
	return files.Token()
}

// LoginFiles is what a login leaves behind, in a directory: the server's address and
// the session's secret.
type LoginFiles struct{ Dir string }

// Server is the address of the server logged in to; "" for none.
func (f LoginFiles) Server() string { return f.read("server") }

// Token is the session's secret, or a personal token; "" for none.
func (f LoginFiles) Token() string { return f.read("token") }

func (f LoginFiles) read(name string) string {
	if f.Dir == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(f.Dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Write keeps a login, for the caller's eyes only.
func (f LoginFiles) Write(server, token string) error {
	if f.Dir == "" {
		return errors.New("neither HOME nor XDG_CONFIG_HOME is set: there is no place to keep the login in")
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	// The token first goes: it must at no moment belong to the other server.
	if err := f.Remove(); err != nil {
		return err
	}
	if err := f.put("server", server); err != nil {
		return err
	}
	return f.put("token", token)
}

func (f LoginFiles) put(name, text string) error {
	tmp, err := os.CreateTemp(f.Dir, "."+name+"-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(text + "\n")
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(f.Dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// Remove forgets a login.
func (f LoginFiles) Remove() error {
	for _, name := range []string{"token", "server"} {
		if err := os.Remove(filepath.Join(f.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
