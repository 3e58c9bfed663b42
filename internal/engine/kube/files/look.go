package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
)

// patience is how long what holds the files may take to answer.
const patience = 10 * time.Second

// seen is what the server has seen of a path below a claim's root.
type seen struct {
	fixed string // so much of it leads to one place, unless the site itself changes that
	own   bool   // which is a folder of the user's
}

// look goes a way for a user, as far as it is fixed: through folders that nobody but the site
// may change. With home, which it then leads to, that is made where it isn't there. The error is the
// system's, as he would have it.
func (c Claim) look(ctx context.Context, u engine.User, rel string, home bool) (seen, error) {
	if c.Here == "" {
		return seen{}, nil
	}
	type answer struct {
		seen
		err error
	}
	got := make(chan answer, 1)
	go func() { // which is left behind by a file system that doesn't answer
		s, err := walk(c.Here, u, rel)
		if home && errors.Is(err, fs.ErrNotExist) {
			if err = makeHome(path.Join(c.Here, rel), u); err == nil {
				s, err = walk(c.Here, u, rel)
			}
		}
		got <- answer{s, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case a := <-got:
		return a.seen, a.err
	case <-ctx.Done():
		return seen{}, errors.New("what holds it doesn't answer")
	}
}

func walk(root string, u engine.User, rel string) (seen, error) {
	var s seen
	at := root
	st, err := stat(at)
	if err != nil {
		return s, fmt.Errorf("the server doesn't find its files: %v", err) // of nobody's asking
	}
	for rest := rel; rest != ""; {
		listed, err := hasACL(at)
		switch {
		case err != nil:
			return s, err
		case !listed && !may(u, st, 1):
			return s, fs.ErrPermission
		case listed || !keptBySite(st):
			return s, nil
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		at = path.Join(at, name)
		switch st, err = stat(at); {
		case errors.Is(err, fs.ErrPermission):
			return s, nil // it isn't for the server to see; the user may
		case err != nil:
			return s, err
		}
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			return s, nil
		case st.Mode&unix.S_IFMT != unix.S_IFDIR && rest != "":
			return s, unix.ENOTDIR
		}
		s = seen{fixed: path.Join(s.fixed, name), own: int64(st.Uid) == u.UID && st.Mode&unix.S_IFMT == unix.S_IFDIR}
	}
	if listed, err := hasACL(at); err != nil || listed {
		return s, err // whether he may read it the node says
	}
	if !may(u, st, 4) {
		return s, fs.ErrPermission
	}
	return s, nil
}

func stat(p string) (st unix.Stat_t, err error) {
	if err := unix.Lstat(p, &st); err != nil {
		return st, err
	}
	return st, nil
}

// keptBySite reports whether only the site can change what is in a folder.
func keptBySite(st unix.Stat_t) bool {
	return (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && st.Mode&0o022 == 0
}

// hasACL reports whether something has more rights than its mode says.
func hasACL(p string) (bool, error) {
	_, err := unix.Lgetxattr(p, "system.posix_acl_access", nil)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	return err == nil, err
}

// may reports whether a user has the rights want, of rwx, by the mode.
func may(u engine.User, st unix.Stat_t, want uint32) bool {
	mode := st.Mode
	switch gid := int64(st.Gid); {
	case int64(st.Uid) == u.UID:
		mode >>= 6
	case gid == u.GID || slices.ContainsFunc(u.Groups, func(g engine.Group) bool { return g.GID == gid }):
		mode >>= 3
	}
	return mode&want == want
}

// makeHome makes a user's home. It is his before anybody finds it.
func makeHome(at string, u engine.User) error {
	dir, err := os.MkdirTemp(path.Dir(at), ".croft-home-")
	if err == nil {
		if err = os.Chown(dir, int(u.UID), int(u.GID)); err == nil {
			err = os.Rename(dir, at)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(dir))
		}
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return fs.ErrNotExist // it is for somebody else to make
	}
	if err != nil {
		return fmt.Errorf("making it: %w", err)
	}
	return nil
}
