package files

import (
	"encoding/binary"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/engine"
)

var (
	ada = engine.User{Name: "ada", UID: 5001, GID: 6001, Home: "/home/ada"}
	lab = engine.User{Name: "lea", UID: 5003, GID: 6003, Home: "/home/lea", Groups: []engine.Group{{Name: "lab", GID: 7001}}}
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// homes is what a server sees of a claim.
func homes(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("runs as root only: it makes others' files")
	}
	root := t.TempDir()
	for _, d := range []struct {
		path     string
		uid, gid int
		mode     os.FileMode
	}{
		{"", 0, 0, 0o755},
		{"ada", 5001, 6001, 0o700}, {"ada/work", 5001, 6001, 0o755},
		{"bob", 5002, 6002, 0o700}, {"bob/pub", 5002, 6002, 0o755},
		{"lab", 0, 7001, 0o750}, {"lab/set", 0, 0, 0o755}, {"lab/inbox", 0, 7001, 0o770}, {"lab/inbox/deep", 5002, 7001, 0o755},
		{"all", 0, 0, 0o777 | os.ModeSticky}, {"all/ada", 5001, 6001, 0o755},
		{"listed", 0, 0, 0o755}, {"listed/set", 0, 0, 0o755},
		{"closed", 0, 0, 0o700}, {"closed/set", 0, 0, 0o755},
	} {
		at := filepath.Join(root, d.path)
		must(t, errors.Join(os.MkdirAll(at, 0o700), os.Chmod(at, d.mode), os.Lchown(at, d.uid, d.gid)))
	}
	must(t, errors.Join(os.Symlink("../bob/pub", root+"/ada/link"), os.Symlink("lab", root+"/current"), os.WriteFile(root+"/file", nil, 0o644)))
	must(t, unix.Lsetxattr(root+"/listed", "system.posix_acl_access", writableBy(5002), 0))
	return root
}

// writableBy is a list of access by which a user may write, too.
func writableBy(uid uint32) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 7, ^uint32(0)}, {2, 7, uid}, {4, 5, ^uint32(0)}, {16, 7, ^uint32(0)}, {32, 5, ^uint32(0)}} {
		out = binary.LittleEndian.AppendUint16(out, uint16(e[0]))
		out = binary.LittleEndian.AppendUint16(out, uint16(e[1]))
		out = binary.LittleEndian.AppendUint32(out, e[2])
	}
	return out
}

func TestOf(t *testing.T) {
	seen := Claims{List: []Claim{{Path: "/home", Name: "homes", Here: homes(t)}, {Path: "/data", Name: "data", ReadOnly: true}}}
	const own, away = "can only be at its own path, since others could make", "it isn't there, or "
	for name, c := range map[string]struct {
		u              engine.User
		source, target string
		want           Part
		err            string
	}{
		"a home":                     {u: ada, source: "/home/ada", want: Part{Claim: "homes", Sub: "ada", Target: "/home/ada"}},
		"a home elsewhere":           {u: ada, source: "/home/ada/", target: "/w", want: Part{Claim: "homes", Sub: "ada", Target: "/w"}},
		"the root":                   {u: ada, source: "/home", target: "/all", want: Part{Claim: "homes", Target: "/all"}},
		"below a home":               {u: ada, source: "/home/ada/work", want: Part{Claim: "homes", Sub: "ada", Target: "/home/ada"}},
		"below a home, elsewhere":    {u: ada, source: "/home/ada/work", target: "/w", err: own},
		"a link of the user's":       {u: ada, source: "/home/ada/link", target: "/w", err: own},
		"by a link of the user's":    {u: ada, source: "/home/ada/link/x", target: "/w", err: own},
		"a link of the site's":       {u: lab, source: "/home/current/set", want: Part{Claim: "homes", Target: "/home"}},
		"another's home":             {u: ada, source: "/home/bob", target: "/w", err: away},
		"below another's home":       {u: ada, source: "/home/bob/pub", err: away},
		"a folder of the group":      {u: lab, source: "/home/lab/set", target: "/set", want: Part{Claim: "homes", Sub: "lab/set", Target: "/set"}},
		"not of the group":           {u: ada, source: "/home/lab/set", target: "/set", err: away},
		"the group writes to":        {u: lab, source: "/home/lab/inbox", target: "/in", want: Part{Claim: "homes", Sub: "lab/inbox", Target: "/in"}},
		"below what the group does":  {u: lab, source: "/home/lab/inbox/deep", target: "/in", err: own},
		"where all make files":       {u: ada, source: "/home/all/ada", target: "/w", err: own},
		"where a list lets one":      {u: ada, source: "/home/listed/set", target: "/w", err: own},
		"a list at the end":          {u: ada, source: "/home/listed", target: "/w", want: Part{Claim: "homes", Sub: "listed", Target: "/w"}},
		"behind a closed folder":     {u: ada, source: "/home/closed/set", target: "/w", err: away},
		"a file":                     {u: ada, source: "/home/file", target: "/f", want: Part{Claim: "homes", Sub: "file", Target: "/f"}},
		"below a file":               {u: ada, source: "/home/file/x", target: "/f", err: away},
		"nothing":                    {u: ada, source: "/home/none/x", target: "/w", err: away},
		"no home":                    {u: lab, source: "/home/lea", err: "makes it, owned by 5003:6003"},
		"up again":                   {u: ada, source: "/home/lab/../ada", want: Part{Claim: "homes", Sub: "ada", Target: "/home/ada"}},
		"out of it":                  {u: ada, source: "/home/../etc", err: "isn't on this cluster, which has /home, /data"},
		"a name that begins like it": {u: ada, source: "/homework/x", err: "isn't on this cluster"},
		"unseen":                     {u: ada, source: "/data/x", want: Part{Claim: "data", Target: "/data", ReadOnly: true}},
		"unseen, elsewhere":          {u: ada, source: "/data/x", target: "/x", err: "since the server doesn't see what is in /data"},
		"unseen, out of it":          {u: ada, source: "/data/../../etc/passwd", err: "isn't on this cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.target == "" {
				c.target = path.Clean(c.source)
			}
			got, err := seen.Of(t.Context(), c.u, engine.Mount{Source: c.source, Target: c.target, Within: []string{"/home", "/data", "/etc"}})
			var never *engine.StartError
			if c.err != "" && (!errors.As(err, &never) || !strings.Contains(err.Error(), c.err)) || c.err == "" && err != nil {
				t.Fatalf("%+v, %v, want %q", got, err, c.err)
			}
			if d := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Part{})); d != "" {
				t.Error(d)
			}
		})
	}
}

// What isn't allowed to be mounted isn't, though it is in a claim.
func TestWithin(t *testing.T) {
	cs := Claims{List: []Claim{{Path: "/home", Name: "homes"}}}
	for source, ok := range map[string]bool{"/home/ada": true, "/home/ada/x": true, "/home/adam": false, "/home": false, "/home/ada/../bob": false} {
		if _, err := cs.Of(t.Context(), ada, engine.Mount{Source: source, Target: source, Within: []string{"/home/ada"}}); (err == nil) != ok {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// A home is made if the server can, and is its user's from the first.
func TestMakeHomes(t *testing.T) {
	root := homes(t)
	ask := engine.Mount{Source: "/home/lea", Target: "/home/lea", Within: []string{"/home/lea"}}
	for _, c := range []Claims{
		{List: []Claim{{Path: "/home", Name: "homes", Here: root}}},
		{List: []Claim{{Path: "/home", Name: "homes", Here: root, ReadOnly: true}}, MakeHomes: true},
		{List: []Claim{{Path: "/home", Name: "homes", Here: root + "/gone"}}, MakeHomes: true},
	} {
		if _, err := c.Of(t.Context(), lab, ask); err == nil {
			t.Errorf("%+v: there is one", c)
		}
	}
	cs := Claims{List: []Claim{{Path: "/home", Name: "homes", Here: root}}, MakeHomes: true}
	for range 2 {
		got, err := cs.Of(t.Context(), lab, ask)
		if err != nil || got.Sub != "lea" || !got.own {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	st, err := stat(root + "/lea")
	if err != nil || st.Uid != 5003 || st.Gid != 6003 || st.Mode&0o777 != 0o700 {
		t.Errorf("%+v, %v", st, err)
	}
	// no other folder is
	if _, err := cs.Of(t.Context(), lab, engine.Mount{Source: "/home/new", Target: "/home/new", Within: []string{"/home"}}); err == nil {
		t.Error("there is a folder that nobody has made")
	}
	left, err := filepath.Glob(root + "/.croft-home-*")
	if len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOfFurther(t *testing.T) {
	cs := Claims{List: []Claim{{Path: "/home", Name: "homes", Here: "/nowhere"}}}
	within := []string{"/home"}
	for _, c := range []struct {
		m    engine.Mount
		want Part
		err  string
	}{
		{m: engine.Mount{Source: "/home/ada", Target: "/home/ada", Within: within}, want: Part{Claim: "homes", Target: "/home"}},
		{m: engine.Mount{Source: "/home", Target: "/x", ReadOnly: true, Within: within}, want: Part{Claim: "homes", Target: "/x", ReadOnly: true}},
		{m: engine.Mount{Source: "/home/ada", Target: "/x", Within: within}, err: "since a further step has all that is in /home"},
	} {
		got, err := cs.OfFurther(c.m)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c.m, err)
		}
		if d := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Part{})); d != "" {
			t.Error(d)
		}
	}
}

// Whatever is asked for, a part is in a claim, and what lies at the source is found at the
// target, or by its own path.
func TestWhateverIsAsked(t *testing.T) {
	root := homes(t)
	piece := rapid.SampledFrom([]string{"home", "homework", "data", "ada", "bob", "work", "link", "lab", "set", "inbox", "current", "all", "..", ".", "", "pub", "deep"})
	anyPath := rapid.Custom(func(t *rapid.T) string { return "/" + strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "/") })
	rapid.Check(t, func(t *rapid.T) {
		cs := Claims{List: []Claim{{Path: "/home", Name: "homes", Here: rapid.SampledFrom([]string{root, ""}).Draw(t, "here")}, {Path: "/data/set", Name: "data", ReadOnly: true}}}
		m := engine.Mount{Source: anyPath.Draw(t, "source"), Target: anyPath.Draw(t, "target"), Within: []string{"/"}, ReadOnly: rapid.Bool().Draw(t, "ro")}
		if rapid.Bool().Draw(t, "native") {
			m.Target = m.Source
		}
		u := rapid.SampledFrom([]engine.User{ada, lab}).Draw(t, "user")
		p, err := cs.OfFurther(m)
		if first := rapid.Bool().Draw(t, "first"); first {
			p, err = cs.Of(t.Context(), u, m)
		}
		if err != nil {
			return
		}
		top := map[string]string{"homes": "/home", "data": "/data/set"}[p.Claim]
		if top == "" || path.IsAbs(p.Sub) || strings.HasPrefix(path.Clean(p.Sub), "..") || p.Sub != "" && p.Sub != path.Clean(p.Sub) {
			t.Fatalf("%+v", p)
		}
		if _, in := below(path.Clean(m.Source), path.Join(top, p.Sub)); !in {
			t.Fatalf("%s isn't in %+v", m.Source, p)
		}
		switch native := path.Join(top, p.Sub); {
		case native == path.Clean(m.Source) && p.Target == path.Clean(m.Target): // exactly that
		case native != p.Target || path.Clean(m.Source) != path.Clean(m.Target):
			t.Fatalf("%+v isn't found by %+v", m, p)
		}
		if !p.ReadOnly && (m.ReadOnly || p.Claim == "data") {
			t.Fatalf("%+v can be written to", p)
		}
		checkFixed(t, filepath.Join(root), p)
	})
}

// checkFixed fails if somebody but root could make what is asked of a kubelet lead elsewhere.
func checkFixed(t *rapid.T, root string, p Part) {
	if p.Claim != "homes" {
		return
	}
	for sub := p.Sub; sub != ""; {
		sub, _ = path.Split(sub)
		sub = strings.TrimSuffix(sub, "/")
		st, err := stat(filepath.Join(root, sub))
		if err != nil || st.Uid != 0 || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			t.Fatalf("%+v: %s can be changed: %v", p, sub, err)
		}
	}
	if real, err := filepath.EvalSymlinks(filepath.Join(root, p.Sub)); err != nil || real != filepath.Join(root, p.Sub) {
		t.Fatalf("%+v leads to %s, %v", p, real, err)
	}
}

func TestSet(t *testing.T) {
	home := Part{Claim: "homes", Sub: "ada", Target: "/home/ada", own: true, native: true}
	whole := Part{Claim: "homes", Target: "/home", native: true}
	data := Part{Claim: "data", Target: "/data", native: true, ReadOnly: true}
	at := func(p Part, target string) Part { p.Target, p.native = target, false; return p }
	readOnly := func(p Part) Part { p.ReadOnly = true; return p }
	for name, c := range map[string]struct {
		parts []Part
		bare  string
		n     int    // of parts
		err   string // of the last
	}{
		"apart":                    {parts: []Part{home, data}, bare: "/scratch", n: 2},
		"the same twice":           {parts: []Part{home, home}, n: 1},
		"one of it read only":      {parts: []Part{home, readOnly(home)}, err: "one or the other"},
		"native ones":              {parts: []Part{{Claim: "data", Target: "/data", native: true}, {Claim: "data", Sub: "x", Target: "/data/x", native: true, ReadOnly: true}}, n: 2},
		"into one's own":           {parts: []Part{home, at(data, "/home/ada/data")}, bare: "/home/ada/tmp", n: 2},
		"into others'":             {parts: []Part{whole, at(data, "/home/bob/data")}, err: "nothing can be put at /home/bob/data"},
		"others' around":           {parts: []Part{at(data, "/home/bob/data"), whole}, err: "nothing can be put at /home/bob/data"},
		"a tmpfs into others'":     {parts: []Part{whole}, bare: "/home/bob/x/../y", err: "nothing can be put at /home/bob/y"},
		"a name that begins alike": {parts: []Part{whole}, bare: "/homework", n: 1},
		"in its place":             {parts: []Part{at(data, "/x"), at(home, "/x")}, n: 2}, // the cluster refuses it
	} {
		t.Run(name, func(t *testing.T) {
			var s, other Set
			var err error
			for _, p := range c.parts {
				if err == nil {
					err = s.Add(p)
				}
			}
			if c.bare != "" && err == nil {
				err = s.Take(c.bare)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if err == nil && len(s.Parts) != c.n {
				t.Errorf("%+v", s.Parts)
			}
			if c.bare == "" {
				return
			}
			err = other.Take(c.bare) // the other way round
			for _, p := range c.parts {
				if err == nil {
					err = other.Add(p)
				}
			}
			if (err == nil) != (c.err == "") {
				t.Errorf("the other way round: %v", err)
			}
		})
	}
}

func TestBegin(t *testing.T) {
	s := Set{Parts: []Part{{Claim: "homes", Sub: "ada", Target: "/home/ada"}, {Claim: "data", Target: "/data"}}}
	for dir, want := range map[string][2]string{
		"": {}, "/srv": {"/srv"}, "/home/ada": {"/home/ada"}, "/data": {"/data"}, "/home/ada/x": {"", "/home/ada/x"}, "/data/../data/new": {"", "/data/../data/new"}, "/database": {"/database"},
	} {
		if node, user := s.Begin(dir); node != want[0] || user != want[1] {
			t.Errorf("%q: %q and %q", dir, node, user)
		}
	}
}
