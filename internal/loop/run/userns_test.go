package run

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/workload"
)

func TestUserns(t *testing.T) {
	ids := Subids{First: 1000, Users: 10, Start: 1 << 20, Size: 1 << 16}
	const second = 1<<20 + 1<<16
	for name, tc := range map[string]struct {
		ids  Subids
		pod  workload.Pod
		want *engine.Userns
		bad  string
	}{
		"not said":             {ids, workload.Pod{}, nil, ""},
		"off":                  {ids, workload.Pod{Userns: workload.UsernsOff}, nil, ""},
		"off, as oneself":      {ids, workload.Pod{User: "1001:100"}, nil, ""},
		"off, by number alone": {ids, workload.Pod{User: "1001"}, nil, ""},
		"off, as root":         {ids, workload.Pod{User: "0"}, nil, "without fake root containers run as ada, 1001:100, not as 0"},
		"off, another group":   {ids, workload.Pod{User: "1001:0"}, nil, "not as 1001:0"},
		"where it can be":      {ids, workload.Pod{Userns: workload.UsernsAuto}, &engine.Userns{First: second, Size: 1 << 16}, ""},
		"or else not":          {ids, workload.Pod{Userns: workload.UsernsOn}, &engine.Userns{First: second, Size: 1 << 16, Required: true}, ""},
		"as somebody":          {ids, workload.Pod{Userns: workload.UsernsAuto, User: "33"}, &engine.Userns{First: second, Size: 1 << 16, UID: 33, Required: true}, ""},
		"as oneself in there":  {ids, workload.Pod{Userns: workload.UsernsAuto, User: "1001:100"}, &engine.Userns{First: second, Size: 1 << 16, UID: 1001, GID: 100}, ""},
		"without ids":          {Subids{First: 2000, Users: 10, Start: 1 << 20, Size: 1 << 16}, workload.Pod{Userns: workload.UsernsAuto}, &engine.Userns{Size: 1 << 16, Lack: "uid 1001 has no ids for it, an admin can give them (subids in the configuration)"}, ""},
		"a site that has none": {Subids{}, workload.Pod{Userns: workload.UsernsAuto}, nil, ""},
		"but it must be":       {Subids{}, workload.Pod{Userns: workload.UsernsOn}, &engine.Userns{Required: true, Lack: "this site has none"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.ids.userns(tc.pod, engine.User{Name: "ada", UID: 1001, GID: 100})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if tc.bad == "" && err != nil || tc.bad != "" && (err == nil || !strings.Contains(err.Error(), tc.bad)) {
				t.Errorf("%v, want %q", err, tc.bad)
			}
		})
	}
}

// Two users' ids never meet, nor do they leave what the site has set aside.
func TestSubidsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Subids{First: rapid.Int64Range(1, 1<<31).Draw(t, "first"), Users: rapid.Int64Range(1, 1000).Draw(t, "users"), Start: rapid.Int64Range(1, 1<<31).Draw(t, "start"), Size: rapid.Int64Range(65536, 1<<20).Draw(t, "size")}
		uid := rapid.Int64Range(s.First-1, s.First+s.Users)
		a, b := uid.Draw(t, "a"), uid.Draw(t, "b")
		x, okX := s.Of(a)
		y, okY := s.Of(b)
		if okX != (a >= s.First && a < s.First+s.Users) {
			t.Fatalf("uid %d has ids: %v", a, okX)
		}
		if okX && (x < s.Start || x+s.Size > s.Start+s.Users*s.Size) {
			t.Fatalf("uid %d has ids from %d on", a, x)
		}
		if okX && okY && a != b && x < y+s.Size && y < x+s.Size {
			t.Fatalf("uids %d and %d share ids: %d, %d", a, b, x, y)
		}
	})
}
