// Package files says what a container is given of PersistentVolumeClaims: which claim, what
// lies where in it, and at which place.
//
// A kubelet looks a subPath up as root, follows links within the volume, and makes what isn't
// there. So a subPath is asked for only where nobody but the site could make it lead
// elsewhere, and its user may go the way. All else is reached from further up, by the path
// that it has everywhere, so that each step is the kernel's to allow, as the user.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
)

// Claim is a PersistentVolumeClaim with files that users know by a path.
type Claim struct {
	// Path is where its root is, for users and in containers.
	Path string
	Name string
	// ReadOnly is set for one that nobody writes to.
	ReadOnly bool
	// Here is where the server has the same files; empty: it hasn't.
	Here string
}

// Claims are those of a cluster. No path is in another's.
type Claims struct {
	List []Claim
	// MakeHomes has a user's home made that isn't there, where the server can.
	MakeHomes bool
}

// Part is what a container is given of a claim.
type Part struct {
	Claim    string
	Sub      string // what of it, below its root; empty: all
	Target   string
	ReadOnly bool

	own    bool // a folder of the user's own
	native bool // it has the path that it has everywhere
}

// Whole are all claims at their paths.
func (cs Claims) Whole() []Part {
	var out []Part
	for _, c := range cs.List {
		out = append(out, c.whole())
	}
	return out
}

func (c Claim) whole() Part {
	return Part{Claim: c.Name, Target: c.Path, ReadOnly: c.ReadOnly, native: true}
}

// Covers reports whether a path is in one of the claims.
func (cs Claims) Covers(p string) bool {
	_, _, ok := cs.find(path.Clean(p))
	return ok
}

// find is the claim that a clean path is in, and what follows its root.
func (cs Claims) find(p string) (c Claim, rel string, ok bool) {
	for _, c := range cs.List {
		if rel, ok := below(p, c.Path); ok {
			return c, rel, true
		}
	}
	return Claim{}, "", false
}

// below is how a clean path goes on after root, if it is that or in it.
func below(p, root string) (rel string, ok bool) {
	if p == root {
		return "", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(root, "/")+"/")
}

// Of finds what a user is given for a mount in his job's first container. The error, which
// doesn't say of what it is, is an *engine.StartError, or unavailable where what holds the
// files doesn't answer.
func (cs Claims) Of(ctx context.Context, u engine.User, m engine.Mount) (Part, error) {
	c, rel, err := cs.asked(m)
	if err != nil {
		return Part{}, err
	}
	home := rel != "" && path.Join(c.Path, rel) == path.Clean(u.Home)
	s, err := c.look(ctx, u, rel, home && cs.MakeHomes && !c.ReadOnly)
	switch {
	case err == nil:
		return c.part(m, rel, s, "others could make what leads there lead elsewhere")
	case home && errors.Is(err, fs.ErrNotExist):
		return Part{}, refuse("it isn't there: whoever keeps the claim %s makes it, owned by %d:%d, with mode 700", c.Name, u.UID, u.GID)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOTDIR):
		return Part{}, refuse("it isn't there, or %s may not read it", u.Name)
	}
	return Part{}, &engine.UnavailableError{Cause: err}
}

// OfFurther is Of for a further step. Kubernetes takes no subPath in a container that is
// added to a Pod.
func (cs Claims) OfFurther(m engine.Mount) (Part, error) {
	c, rel, err := cs.asked(m)
	if err != nil {
		return Part{}, err
	}
	return c.part(m, rel, seen{}, "a further step has all that is in "+c.Path)
}

// asked is what a mount is of.
func (cs Claims) asked(m engine.Mount) (c Claim, rel string, err error) {
	source := path.Clean(m.Source)
	c, rel, ok := cs.find(source)
	switch {
	case !ok && len(cs.List) == 0:
		return c, "", refuse("on this cluster only tmpfs mounts are there")
	case !ok:
		return c, "", refuse("it isn't on this cluster, which has %s (engine.kube.claims)", cs.paths())
	case !slices.ContainsFunc(m.Within, func(root string) bool { _, in := below(source, path.Clean(root)); return in }):
		return c, "", refuse("it leads out of the folders that may be mounted here")
	}
	return c, rel, nil
}

func (cs Claims) paths() string {
	var all []string
	for _, c := range cs.List {
		all = append(all, c.Path)
	}
	return strings.Join(all, ", ")
}

// part is what a mount of rel is, of which so much can be asked for as a subPath as was seen.
// why is told to him who wants it at another place, and there is more to it than that.
func (c Claim) part(m engine.Mount, rel string, s seen, why string) (Part, error) {
	p := Part{Claim: c.Name, Sub: s.fixed, Target: path.Clean(m.Target), ReadOnly: m.ReadOnly || c.ReadOnly, own: s.own}
	if s.fixed != rel {
		if p.Target != path.Join(c.Path, rel) {
			if c.Here == "" {
				why = "the server doesn't see what is in " + c.Path
			}
			return Part{}, refuse("on this cluster it can only be at its own path, since %s", why)
		}
		p.Target = path.Join(c.Path, s.fixed)
	}
	p.native = p.Target == path.Join(c.Path, p.Sub)
	return p, nil
}

func refuse(format string, args ...any) error {
	return &engine.StartError{Message: fmt.Sprintf(format, args...)}
}
