package people

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// machine is a Command that answers from a table; what isn't in it isn't found.
type machine map[string]string

func (m machine) run(_ context.Context, name string, args ...string) (string, int, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	switch out, ok := m[line]; {
	case out == "fail":
		return "", 0, errors.New("broken pipe")
	case out == "usage":
		return "", getentNoUse, nil
	case ok:
		return out, 0, nil
	}
	return "", getentNotFound, nil
}

func directory(m machine) *Directory { return New(Config{Run: m.run}) }

const adaLine = "ada:x:5001:5000:Ada Lovelace,,,:/home/ada:/bin/zsh\n"

var ada = User{Name: "ada", UID: 5001, GID: 5000, Gecos: "Ada Lovelace,,,", Home: "/home/ada", Shell: "/bin/zsh"}

func TestUser(t *testing.T) {
	d := directory(machine{
		"getent passwd ada":    adaLine,
		"getent passwd 5001":   adaLine,
		"getent passwd Ada":    adaLine, // case-insensitive directories answer so
		"getent passwd odd":    adaLine, // another user's record
		"getent passwd 7":      adaLine,
		"getent passwd torn":   "torn:x:5001",
		"getent passwd minus":  "minus:x:4294967295:0:::\n",
		"getent passwd broken": "fail",
		"getent passwd usage":  "usage",
	})
	tests := map[string]struct {
		get  func(context.Context) (User, error)
		want User
		code codes.Code
	}{
		"by name":          {get: name(d, "ada"), want: ada},
		"by uid":           {get: uid(d, 5001), want: ada},
		"other case":       {get: name(d, "Ada"), want: ada},
		"another's record": {get: name(d, "odd"), code: codes.NotFound},
		"another's uid":    {get: uid(d, 7), code: codes.NotFound},
		"torn record":      {get: name(d, "torn"), code: codes.NotFound},
		"uid -1":           {get: name(d, "minus"), code: codes.NotFound},
		"none":             {get: name(d, "bob"), code: codes.NotFound},
		"no such uid":      {get: uid(d, 6000), code: codes.NotFound},
		"negative uid":     {get: uid(d, -1), code: codes.NotFound},
		"failure":          {get: name(d, "broken"), code: codes.Unavailable},
		"usage":            {get: name(d, "usage"), code: codes.Unavailable},
	}
	for label, tt := range tests {
		t.Run(label, func(t *testing.T) {
			got, err := tt.get(t.Context())
			if tt.code != "" {
				if err == nil || fault.Of(err) != tt.code {
					t.Errorf("got %+v, %v, want %s", got, err, tt.code)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func name(d *Directory, n string) func(context.Context) (User, error) {
	return func(ctx context.Context) (User, error) { return d.ByName(ctx, n) }
}

func uid(d *Directory, n int64) func(context.Context) (User, error) {
	return func(ctx context.Context) (User, error) { return d.ByUID(ctx, n) }
}

// TestBadNames holds that no odd name reaches a command line.
func TestBadNames(t *testing.T) {
	d := New(Config{Run: func(context.Context, string, ...string) (string, int, error) {
		t.Error("a command was run")
		return "", 0, nil
	}})
	for _, n := range []string{"", "-s", "--service=x", "0", "4711", "a:b", "a\nb", "a\x00", "..", ".", "a/b", "a,b", " a", "a ", "+@net", "~ada", "\xff", strings.Repeat("a", 257)} {
		for label, err := range map[string]error{
			"ByName": second(d.ByName(t.Context(), n)), "Groups": second(d.Groups(t.Context(), n)),
			"Members": second(d.Members(t.Context(), n)), "Group": second(d.Group(t.Context(), n)),
		} {
			if err == nil || fault.Of(err) != codes.Invalid || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%s(%q): %v, want an invalid name", label, n, err)
			}
		}
	}
	for _, n := range []string{"ada", "a.b-c_d", "host$", `DOM\ada`, "ada@example.org", "domain users", "müller", "1a"} {
		if reason := badName(n); reason != "" {
			t.Errorf("%q refused: %s", n, reason)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestGroups(t *testing.T) {
	common := machine{
		"getent passwd ada": adaLine,
		"getent group 5000": "ada:x:5000:\n",
		"getent group 44":   "video:x:44:ada\n",
		"getent group 27":   "fail",
	}
	want := []Group{{"ada", 5000}, {"", 27}, {"video", 44}, {"", 999}}
	for label, extra := range map[string]machine{
		"getent": {"getent initgroups ada": "ada                   44 27 5000 999 44\n"},
		"id":     {"getent initgroups ada": "usage", "id -G ada": "5000 44 27 999\n"},
	} {
		t.Run(label, func(t *testing.T) {
			m := machine{}
			for _, part := range []machine{common, extra} {
				for k, v := range part {
					m[k] = v
				}
			}
			got, err := directory(m).Groups(t.Context(), "ada")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	d := directory(machine{
		"getent group lab":   "lab:x:5000:bob,carl,,-x,bob\n",
		"getent group empty": "empty:x:77:\n",
		"getent passwd":      adaLine + "root:x:0:0:root:/root:/bin/sh\nnot a line\n",
	})
	for group, want := range map[string][]string{"lab": {"ada", "bob", "carl"}, "empty": nil} {
		got, err := d.Members(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", group, diff)
		}
	}
	if _, err := d.Members(t.Context(), "none"); fault.Of(err) != codes.NotFound {
		t.Errorf("no such group: %v", err)
	}
}

func TestCheck(t *testing.T) {
	eve := User{Name: "eve", UID: 5001, GID: 5000, Home: "/home/eve", Shell: "/bin/sh"}
	maiden := User{Name: "byron", UID: 5001, GID: 5000, Home: "/home/ada", Shell: "/bin/sh"}
	moved := User{Name: "ada", UID: 6001, GID: 5000, Home: "/home/ada", Shell: "/bin/sh"}
	bound := Binding{Name: "ada", UID: 5001, Home: "/home/ada"}
	tests := map[string]struct {
		users []User
		bound Binding
		want  Checked
	}{
		"same":                   {[]User{ada}, bound, Checked{OK, ada}},
		"gone":                   {nil, bound, Checked{Verdict: Gone}},
		"uid given to another":   {[]User{eve}, bound, Checked{UIDReused, eve}},
		"another and renumbered": {[]User{eve, moved}, bound, Checked{UIDReused, eve}},
		"new name, same home":    {[]User{maiden}, bound, Checked{Renamed, maiden}},
		"home wasn't known":      {[]User{maiden}, Binding{Name: "ada", UID: 5001}, Checked{UIDReused, maiden}},
		"shared home says nothing": {
			[]User{{Name: "x", UID: 5001, Home: "/"}}, Binding{Name: "ada", UID: 5001, Home: "/"},
			Checked{UIDReused, User{Name: "x", UID: 5001, Home: "/"}},
		},
		"new number": {[]User{moved}, bound, Checked{Renumbered, moved}},
	}
	for label, tt := range tests {
		t.Run(label, func(t *testing.T) {
			m := machine{}
			for _, u := range tt.users {
				m["getent passwd "+u.Name] = line(u)
				m["getent passwd "+itoa(u.UID)] = line(u)
			}
			got, err := directory(m).Check(t.Context(), tt.bound)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	for _, q := range []string{"ada", "5001"} {
		if got, err := directory(machine{"getent passwd " + q: "fail"}).Check(t.Context(), bound); fault.Of(err) != codes.Unavailable || got.Verdict != "" {
			t.Errorf("%s unanswered: %+v, %v", q, got, err)
		}
	}
}

func TestSource(t *testing.T) {
	dir := t.TempDir()
	for label, tt := range map[string]struct {
		text string
		want []string
	}{
		"plain":   {"group: files\npasswd:  files sss # comment\n", []string{"files", "sss"}},
		"actions": {"passwd: files [SUCCESS=return NOTFOUND=continue] ldap[!UNAVAIL=return]winbind", []string{"files", "ldap", "winbind"}},
		"none":    {"# passwd: sss\n", []string{"files"}},
		"empty":   {"passwd:\n", []string{"files"}},
	} {
		t.Run(label, func(t *testing.T) {
			file := filepath.Join(dir, "nsswitch.conf")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := New(Config{NSSwitch: file}).Source(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if got, err := New(Config{NSSwitch: filepath.Join(dir, "none")}).Source(t.Context()); err != nil || !cmp.Equal(got, []string{"files"}) {
		t.Errorf("no file: %v, %v", got, err)
	}
}

// TestThisMachine asks the real one about the user that every machine has.
func TestThisMachine(t *testing.T) {
	d := New(Config{})
	root, err := d.ByName(t.Context(), "root")
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.ByUID(t.Context(), 0)
	if err != nil || again != root || root.UID != 0 || root.Home == "" {
		t.Errorf("by name %+v, by uid %+v, %v", root, again, err)
	}
	groups, err := d.Groups(t.Context(), "root")
	if err != nil || len(groups) == 0 || groups[0] != (Group{"root", 0}) {
		t.Errorf("groups %v, %v", groups, err)
	}
	if members, err := d.Members(t.Context(), "root"); err != nil || !strings.Contains(strings.Join(members, " "), "root") {
		t.Errorf("members of root: %v, %v", members, err)
	}
	if _, err := d.ByName(t.Context(), "no-such-user-here"); fault.Of(err) != codes.NotFound {
		t.Errorf("no such user: %v", err)
	}
	if c, err := d.Check(t.Context(), Binding{Name: "root", UID: 0}); err != nil || c.Verdict != OK {
		t.Errorf("root is %+v, %v", c, err)
	}
}

// TestHangingCommand holds that a command that hangs, with a child that keeps its
// output open, is ended.
func TestHangingCommand(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50_000_000)
	defer cancel()
	if _, _, err := run(ctx, "sh", "-c", "sleep 60 & sleep 60"); !errors.Is(err, errNoAnswer) {
		t.Errorf("got %v", err)
	}
}

func TestCommandLimits(t *testing.T) {
	if _, _, err := run(t.Context(), "head", "-c", itoa(maxOutput+1), "/dev/zero"); err == nil {
		t.Error("too much output was taken")
	}
	if _, code, err := run(t.Context(), "sh", "-c", "exit 2"); code != 2 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if _, _, err := run(t.Context(), "sh", "-c", "kill -9 $$"); err == nil {
		t.Error("a killed command has answered")
	}
	if _, _, err := run(t.Context(), "croft-no-such-program"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("no such program: %v", err)
	}
}
