package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"croft.dev/croft/internal/engine"
)

// What a job's user may not reach he can't have mounted, though the server could:
// the look is taken as him. Needs root, as the server does.
func TestRealLooksAsTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("runs as root only, as the server does")
	}
	dir, err := os.MkdirTemp("/tmp", "croft-paths") // t.TempDir's parents aren't for others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	root := filepath.Join(dir, "data")
	for path, mode := range map[string]os.FileMode{"data": 0o755, "data/open": 0o755, "data/closed": 0o700, "data/closed/in": 0o755, "data/group": 0o750, "elsewhere": 0o755} {
		p := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(p, 0o755), os.Chmod(p, mode)); err != nil {
			t.Fatal(err)
		}
	}
	const gid = 4242
	err = errors.Join(
		os.Chmod(dir, 0o755), os.Chown(filepath.Join(root, "group"), 0, gid),
		os.WriteFile(filepath.Join(root, "secret"), nil, 0o600),
		os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(root, "out")),
		os.Symlink("open", filepath.Join(root, "in")),
		os.Symlink("loop", filepath.Join(root, "loop")),
	)
	if err != nil {
		t.Fatal(err)
	}
	nobody := engine.User{Name: "nobody", UID: 65534, GID: 65534}
	member := nobody
	member.Groups = []engine.Group{{Name: "lab", GID: gid}}
	tests := map[string]struct {
		user engine.User
		path string
		want string // below dir; "": refused
	}{
		"a folder for all":                  {nobody, "data/open", "data/open"},
		"a link within":                     {nobody, "data/in", "data/open"},
		"a link out is seen where it leads": {nobody, "data/out", "elsewhere"},
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
			got, err := paths{}.Real(t.Context(), tt.user, dir+"/"+tt.path)
			if tt.want != "" {
				if err != nil || got != filepath.Join(dir, tt.want) {
					t.Errorf("%s, %v", got, err)
				}
				return
			}
			var refused *engine.StartError
			if !errors.As(err, &refused) || got != "" || !strings.Contains(refused.Message, "nobody may not read it") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A look that is broken off says nothing about the path.
func TestRealInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := (paths{}).Real(ctx, engine.User{}, "/tmp"); !engine.IsUnavailable(err) {
		t.Errorf("%q, %v", got, err)
	}
}
