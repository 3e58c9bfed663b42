package bind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What a user may not reach he can't have mounted, though root could: the look is
// taken as him.
func TestOpenLooksAsTheUser(t *testing.T) {
	dir := folder(t)
	root := filepath.Join(dir, "data")
	for path, mode := range map[string]os.FileMode{"data": 0o755, "data/open": 0o755, "data/closed": 0o700, "data/closed/in": 0o755, "data/group": 0o750, "elsewhere": 0o755} {
		mkdir(t, filepath.Join(dir, path), IDs{}, 0o755)
		mkdir(t, filepath.Join(dir, path), IDs{}, mode)
	}
	const gid = 4242
	err := errors.Join(
		os.Chown(filepath.Join(root, "group"), 0, gid),
		os.WriteFile(filepath.Join(root, "secret"), nil, 0o600),
		unix.Mkfifo(filepath.Join(root, "pipe"), 0o644),
		os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(root, "out")),
		os.Symlink("open", filepath.Join(root, "in")),
		os.Symlink("loop", filepath.Join(root, "loop")),
		os.Symlink("/proc/self/root"+root, filepath.Join(root, "magic")),
	)
	if err != nil {
		t.Fatal(err)
	}
	nobody := As{UID: 65534, GID: 65534}
	member := nobody
	member.Groups = []int64{gid}
	refused := []error{unix.EACCES, unix.ENOENT, unix.ELOOP}
	tests := map[string]struct {
		as   As
		path string
		want string // below dir; "": refused
	}{
		"a folder for all":                  {nobody, "data/open", "data/open"},
		"a link within":                     {nobody, "data/in", "data/open"},
		"a link out is seen where it leads": {nobody, "data/out", "elsewhere"},
		"a link through /proc":              {nobody, "data/magic", ""},
		"a pipe isn't waited for":           {nobody, "data/pipe", "data/pipe"},
		"below a folder he may not enter":   {nobody, "data/closed/in", ""},
		"a file he may not read":            {nobody, "data/secret", ""},
		"his group's folder":                {member, "data/group", "data/group"},
		"another group's folder":            {nobody, "data/group", ""},
		"nothing":                           {nobody, "data/none", ""},
		"a link to itself":                  {nobody, "data/loop", ""},
		"a way with dots":                   {nobody, "data/open/../open", "data/open"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := Open(t.Context(), tt.as, dir+"/"+tt.path)
			if tt.want == "" {
				if !slices.ContainsFunc(refused, func(e error) bool { return errors.Is(err, e) }) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := Place(f); err != nil || got != filepath.Join(dir, tt.want) {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// Where the server happens to be is nobody's business.
func TestOpenFromTheRootOnly(t *testing.T) {
	for _, path := range []string{"", ".", "tmp"} {
		if f, err := Open(t.Context(), As{}, path); !errors.Is(err, unix.ENOENT) {
			f.Close()
			t.Errorf("%q: %v", path, err)
		}
	}
}

// A look that is broken off says nothing about the path.
func TestOpenInterrupted(t *testing.T) {
	needRoot(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // whichever of the two is first
		f, err := Open(ctx, As{}, "/")
		if err == nil {
			f.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}
