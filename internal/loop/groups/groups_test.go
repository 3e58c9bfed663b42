package groups_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/loop/groups"
	"croft.dev/croft/internal/loop/looptest"
)

// directory is a machine's users and groups.
type directory struct {
	groups   map[string][]string
	uids     map[string]int64
	warnings map[string]string
	err      error
}

func (d *directory) Members(_ context.Context, g string) ([]string, error) {
	return d.groups[g], d.err
}

func (d *directory) UID(_ context.Context, name string) (int64, bool, error) {
	uid, ok := d.uids[name]
	return uid, ok, d.err
}

func (d *directory) Warning(_ context.Context, name string, _ int64) (string, error) {
	return d.warnings[name], d.err
}

type bench struct {
	*testing.T
	port *looptest.Port
	dir  *directory
}

func inBench(t *testing.T, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, looptest.New(t, looptest.NewFleet(t)), &directory{groups: map[string][]string{}, uids: map[string]int64{}, warnings: map[string]string{}}}
		group := "nlp-lab"
		b.port.Do(t, command.AccountPut{Name: "nlp", Group: &group})
		f(b)
	})
}

func (b *bench) once() error {
	return groups.Loop{Port: b.port, People: b.dir, Log: looptest.Log()}.Once(context.Background())
}

// members is who is in nlp: a role, "+" if by the group.
func (b *bench) members() map[string]string {
	out := map[string]string{}
	w := b.port.World()
	a, _ := w.Tenancy.Account("nlp")
	for _, m := range w.Tenancy.Members(a.ID) {
		u, _ := w.Tenancy.Users.Get(m.User)
		out[u.Name] = m.Role.String() + map[bool]string{true: "+"}[m.FromGroup]
	}
	return out
}

// An account's members come and go with its Unix group; those added by hand stay
// what they are, and who can't be a user is left out.
func TestFollowsAGroup(t *testing.T) {
	inBench(t, func(b *bench) {
		b.dir.uids = map[string]int64{"ben": 1001, "eve": 1002, "Bad Name": 1003, "twin": 1001}
		for _, step := range []struct {
			name  string
			group []string
			want  map[string]string
		}{
			{"joins", []string{"ben", "ada"}, map[string]string{"ada": "member", "ben": "member+"}},
			{"again", []string{"ben", "ada"}, map[string]string{"ada": "member", "ben": "member+"}},
			{"strange names", []string{"ben", "Bad Name", "ghost", "twin", "eve"}, map[string]string{"ada": "member", "ben": "member+", "eve": "member+"}},
			{"leaves", []string{"eve"}, map[string]string{"ada": "member", "eve": "member+"}},
			{"the group is gone", nil, map[string]string{"ada": "member"}},
		} {
			b.dir.groups["nlp-lab"] = step.group
			if err := b.once(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if diff := cmp.Diff(step.want, b.members()); diff != "" {
				t.Errorf("%s (-want +got)\n%s", step.name, diff)
			}
		}
		if u, _ := b.port.World().Tenancy.User("ben"); u.UID != 1001 {
			t.Errorf("ben has uid %d", u.UID)
		}
		rows := b.port.World().Seq
		if err := b.once(); err != nil || b.port.World().Seq != rows {
			t.Errorf("nothing changed, and yet a row: %v", err)
		}
	})
}

// Who was retired doesn't come back by still being in the group, until an admin says
// so; somebody else with the name does.
func TestRetiredStayAway(t *testing.T) {
	inBench(t, func(b *bench) {
		b.dir.uids["ben"], b.dir.groups["nlp-lab"] = 1001, []string{"ben"}
		for _, step := range []struct {
			name string
			do   func()
			want map[string]string
		}{
			{"joins", func() {}, map[string]string{"ada": "member", "ben": "member+"}},
			{"retired", func() { b.port.Do(t, command.UserRetire{Name: "ben"}) }, map[string]string{"ada": "member"}},
			{"another ben", func() { b.dir.uids["ben"] = 1002 }, map[string]string{"ada": "member", "ben": "member+"}},
			{"retired too", func() { b.port.Do(t, command.UserRetire{Name: "ben"}) }, map[string]string{"ada": "member"}},
			{"by an admin", func() { b.port.Do(t, command.UserPut{Create: true, Name: "ben"}) }, map[string]string{"ada": "member", "ben": "member+"}},
		} {
			step.do()
			if err := b.once(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if diff := cmp.Diff(step.want, b.members()); diff != "" {
				t.Errorf("%s (-want +got)\n%s", step.name, diff)
			}
		}
	})
}

// A directory that doesn't answer changes nothing.
func TestSilenceChangesNothing(t *testing.T) {
	inBench(t, func(b *bench) {
		b.dir.uids["ben"], b.dir.groups["nlp-lab"] = 1001, []string{"ben"}
		if err := b.once(); err != nil {
			t.Fatal(err)
		}
		before, rows := b.members(), b.port.World().Seq
		b.dir.groups, b.dir.err = nil, errors.New("sssd is down")
		if err := b.once(); err == nil {
			t.Error("nobody is told")
		}
		if diff := cmp.Diff(before, b.members()); diff != "" || b.port.World().Seq != rows {
			t.Errorf("(-before +after)\n%s", diff)
		}
	})
}

// A uid that has come to mean somebody else keeps the user's jobs from starting,
// until it is right again.
func TestReusedUID(t *testing.T) {
	inBench(t, func(b *bench) {
		uid := int64(1000)
		b.port.Do(t, command.UserPut{Name: "ada", UID: &uid})
		warning := func() string {
			u, _ := b.port.World().Tenancy.User("ada")
			return u.Warning
		}
		for _, now := range []string{"", "uid 1000 now belongs to eve", "uid 1000 now belongs to eve", ""} {
			b.dir.warnings["ada"] = now
			if err := b.once(); err != nil || warning() != now {
				t.Errorf("%q, want %q (%v)", warning(), now, err)
			}
			k, err := b.port.As(b.port.Ada(), command.Submit{Spec: looptest.Spec()})
			if (err != nil) != (now != "") {
				t.Errorf("with warning %q: %v %v", now, k, err)
			}
		}
		if n := len(b.port.Done("user.set")); n != 3 { // the binding, the warning, its end
			t.Errorf("%d rows", n)
		}
	})
}
