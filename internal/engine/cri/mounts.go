package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
)

// lookPatience is how long file systems may take to answer.
const lookPatience = 10 * time.Second

// trees are what a step mounts, in the order of its mounts, not yet seen by anybody.
// The runtime is given places of the step's own where they are attached from before
// its container is made until that runs: the container then has them for itself.
type trees []tree

type tree struct {
	*bind.Tree
	source string
	site   bool
	own    bool  // made for the container, and empty
	group  int64 // of the user's supplementary ones: what he may do there he may by it; 0: as himself

	full     string // how full it is, if nothing can be written any more
	optional string // see engine.Mount
	lacking  string // why it isn't mounted; then there is no Tree
}

func (ts trees) close() {
	for _, t := range ts {
		if t.Tree != nil {
			t.Close()
		}
	}
}

// drop goes on without a mount that isn't needed.
func (t *tree) drop(why string) {
	if t.Tree != nil {
		t.Close()
	}
	t.Tree, t.lacking = nil, why
}

// had are the mounts that there are, in their places; the others are empty.
func (ts trees) had(mounts []engine.Mount) []engine.Mount {
	mounts = slices.Clone(mounts)
	for i, t := range ts {
		if t.lacking != "" {
			mounts[i] = engine.Mount{}
		}
	}
	return mounts
}

// notes tell the user what he has to do without, or hasn't all of.
func (ts trees) notes(a engine.Allocation) (out []string) {
	for _, t := range ts {
		switch {
		case t.full != "":
			out = append(out, t.source+" is full, "+t.full+": remove something before you write there")
		case t.lacking != "":
			out = append(out, t.optional+" isn't mounted: "+t.lacking)
		case t.optional != "" && t.group != 0 && a.Userns != nil:
			out = append(out, t.optional+" is open to "+a.User.Name+" by the group "+a.User.GroupName(t.group)+", which there is none of with fake root: run without for it")
		}
	}
	return out
}

// mountPoint is where one of a step's mounts is attached for the runtime.
func (s scratch) mountPoint(i int) string {
	return filepath.Join(s.mountPoints(), strconv.Itoa(i))
}
func (s scratch) mountPoints() string { return filepath.Join(string(s), "mounts") }

// openMounts finds what a step mounts, as its user.
func (e *Engine) openMounts(ctx context.Context, a engine.Allocation, mounts []engine.Mount) (ts trees, err error) {
	defer func() {
		if err != nil {
			ts.close()
		}
	}()
	for _, m := range mounts {
		t, err := e.openMount(ctx, a, m)
		if err == nil {
			if err = t.Restrict(m.ReadOnly); err != nil {
				err = mountError(a.User, t.source, err)
			}
		}
		t.optional = m.Optional
		if err != nil && m.Optional != "" && ctx.Err() == nil {
			e.log.Warn("folder not mounted", "attempt", a.Attempt, "folder", m.Optional, "error", err)
			t.drop(lack(err))
			err = nil
		}
		ts = append(ts, t)
		if err != nil {
			return ts, err
		}
	}
	return ts, nil
}

// lack is why something isn't mounted, without where it would be on the machine.
func lack(err error) string {
	if engine.IsUnavailable(err) {
		return "its file system doesn't answer"
	}
	return "it isn't there, or you may not read it"
}

// openMount finds what one mount is of. Between the check and the copy nothing is
// looked up: both are of the same open file.
func (e *Engine) openMount(ctx context.Context, a engine.Allocation, m engine.Mount) (tree, error) {
	u, t := a.User, tree{source: m.Source, site: m.Site, own: m.Tmpfs > 0}
	var err error
	switch {
	case t.own:
		t.Tree, err = bind.Tmpfs(m.Tmpfs, bind.IDs{UID: u.UID, GID: u.GID})
		return t, mountError(u, m.Target, err)
	case m.Volume != "":
		t.source = "volume " + m.Volume
		t.Tree, err = e.openVolume(a.Attempt, u, m.Volume)
		return t, mountError(u, t.source, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	as := bind.As{} // root, for what is the site's own
	if !m.Site {
		as = identityOf(u)
	}
	f, err := bind.Open(ctx, as, m.Source)
	if err != nil {
		return t, mountError(u, m.Source, err)
	}
	defer f.Close()
	place, err := bind.Place(f)
	if err != nil {
		return t, mountError(u, m.Source, err)
	}
	if !m.Site && !slices.ContainsFunc(m.Within, func(root string) bool { return within(ctx, as, place, root) }) {
		return t, &engine.StartError{Message: "mount " + m.Source + " leads out of the folders that may be mounted here"}
	}
	if st, ok := stat(f); ok && !m.Site {
		t.group = neededGroup(u, st, m.ReadOnly)
	}
	if !m.Site && !m.ReadOnly {
		t.full = fullness(ctx, f)
	}
	t.Tree, err = bind.Clone(f)
	return t, mountError(u, m.Source, err)
}

func stat(f *os.File) (*syscall.Stat_t, bool) {
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return st, ok
}

// neededGroup is the supplementary group by which u may do more with a file than he may
// as himself; 0 if there is none.
func neededGroup(u engine.User, st *syscall.Stat_t, readOnly bool) int64 {
	gid := int64(st.Gid)
	if int64(st.Uid) == u.UID || gid == u.GID || !slices.ContainsFunc(u.Groups, func(g engine.Group) bool { return g.GID == gid }) {
		return 0
	}
	wanted := uint32(0o7)
	if readOnly {
		wanted = 0o5
	}
	if st.Mode>>3&^st.Mode&wanted == 0 {
		return 0
	}
	return gid
}

// within reports whether place is root or below it, where root may itself be a link.
func within(ctx context.Context, as bind.As, place, root string) bool {
	f, err := bind.Open(ctx, as, root)
	if err != nil {
		return false
	}
	defer f.Close()
	real, err := bind.Place(f)
	return err == nil && real != "/" && (place == real || strings.HasPrefix(place, real+"/"))
}

func identityOf(u engine.User) bind.As {
	as := bind.As{UID: u.UID, GID: u.GID}
	for _, g := range u.Groups {
		as.Groups = append(as.Groups, g.GID)
	}
	return as
}

// mountError tells what the user can mend from what nobody knows.
func mountError(u engine.User, source string, err error) error {
	var errno syscall.Errno
	switch never := new(engine.StartError); {
	case err == nil:
		return nil
	case errors.As(err, &never):
		return never
	case errors.Is(err, unix.ENOSYS):
		return &engine.StartError{Message: "nothing can be mounted here: that needs Linux 5.12 or later"}
	case errors.As(err, &errno) && slices.Contains([]syscall.Errno{unix.ENOENT, unix.EACCES, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG}, errno):
		return &engine.StartError{Message: "mount " + source + ": it isn't there, or " + u.Name + " may not read it"}
	case errors.Is(err, unix.EINVAL):
		return &engine.StartError{Message: "mount " + source + ": its file system can't be mounted in a second place"}
	}
	return &engine.UnavailableError{Cause: fmt.Errorf("mount %s: %w", source, err)}
}

// attach puts a step's trees where its container's configuration says. What is there
// from before is what a container may have been made with, and stays if it was.
func (s scratch) attach(ts trees, made bool) error {
	if len(ts) == 0 {
		return nil
	}
	// Nobody may go this way to what he couldn't reach by its own.
	if err := os.MkdirAll(s.mountPoints(), 0o700); err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	for i, t := range ts {
		if t.Tree == nil {
			continue
		}
		at := s.mountPoint(i)
		there, err := bind.Mounted(at)
		if err == nil && there && !made {
			there, err = false, bind.Detach(at)
		}
		if err == nil && !there {
			err = t.Attach(at)
		}
		if err != nil {
			return fmt.Errorf("cri: %w", err)
		}
	}
	return nil
}

// detach takes a step's mounts away again.
func (s scratch) detach() error {
	points, err := filepath.Glob(filepath.Join(s.mountPoints(), "*"))
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	for _, at := range points {
		if err := bind.Detach(at); err != nil {
			return fmt.Errorf("cri: %w", err)
		}
	}
	return nil
}
