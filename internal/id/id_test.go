package id

import "testing"

func TestParse(t *testing.T) {
	for in, want := range map[string]Job{"118": 118, "0": 0, "-1": 0, "": 0, "1.2": 0, "R-7": 0, "99999999999999999999": 0, "1\n": 0} {
		if got, ok := ParseJob(in); ok != (want != 0) || ok && got != want {
			t.Errorf("job %q: %d, %v", in, got, ok)
		}
	}
	for in, want := range map[string]Refusal{"R-7": 7, "r-7": 7, "7": 0, "R-0": 0, "R--1": 0, "R-": 0} {
		if got, ok := ParseRefusal(in); ok != (want != 0) || ok && got != want {
			t.Errorf("refusal %q: %d, %v", in, got, ok)
		}
	}
}

// The names of two attempts differ whenever the attempts do.
func TestAttemptName(t *testing.T) {
	seen := map[string]Attempt{}
	for _, a := range []Attempt{{1, 11}, {11, 1}, {1, 1}, {111, 1}, {11, 11}} {
		name := a.Engine("3f2a9c1e-0000-4000-8000-000000000000")
		if other, twice := seen[name]; twice {
			t.Errorf("%v and %v are both %s", other, a, name)
		}
		seen[name] = a
	}
	if got := (Attempt{118, 1}).Engine("3f2a9c1e-0000"); got != "3f2a9c1e-118-1" {
		t.Errorf("got %s", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("R-7")
	f.Add("118")
	f.Fuzz(func(t *testing.T, s string) {
		if r, ok := ParseRefusal(s); ok && r <= 0 {
			t.Errorf("%q gave %d", s, r)
		}
		if j, ok := ParseJob(s); ok && j <= 0 {
			t.Errorf("%q gave %d", s, j)
		}
	})
}
