package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/loop/run"
	"croft.dev/croft/internal/people"
)

// table is a machine whose users are ada, 1001, and one who has an id of the ranges.
func table(_ context.Context, _ string, args ...string) (string, int, error) {
	switch strings.Join(args, " ") {
	case "passwd ada":
		return "ada:x:1001:1001::/home/ada:/bin/sh\n", 0, nil
	case "passwd":
		return "ada:x:1001:1001::/home/ada:/bin/sh\n", 0, nil
	}
	return "", 2, nil
}

func TestSubids(t *testing.T) {
	ids := run.Subids{First: 1000, Users: 10, Start: 1_000_000, Size: 65536} // ada's: from 1065536 on
	for name, tc := range map[string]struct {
		ids  run.Subids
		file string
		bad  string
	}{
		"no file":               {ids, "-", ""},
		"others below":          {ids, "bob:100000:65536\neve:934464:65536\n", ""},
		"others above":          {ids, "bob:1655360:65536\n", ""},
		"no lines of it":        {ids, "# bob:1000000:65536\nbob:x:65536\nbob:1000000\nbob:1000000:0\n:1000000:1\n\n", ""},
		"one id at the end":     {ids, "bob:1655359:1\n", "gives bob the ids 1655359 to 1655359, of those from 1000000 to 1655359"},
		"all around":            {ids, "bob:1:4000000000\n", "gives bob"},
		"her own":               {ids, "ada:1065536:65536\n", ""},
		"a part of her own":     {ids, "1001:1065537:7\n", ""},
		"more than her own":     {ids, "ada:1065536:65537\n", "gives ada"},
		"another's, by number":  {ids, "1002:1065536:65536\n", "gives 1002"},
		"no fake root":          {run.Subids{}, "bob:1:4000000000\n", ""},
		"over a user's own uid": {run.Subids{First: 2000, Users: 1, Start: 900, Size: 65536}, "-", "the machine's user ada has the id 1001"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "subuid")
			if tc.file != "-" {
				if err := os.WriteFile(path, []byte(tc.file), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := checkSubids(t.Context(), tc.ids, []string{path}, machine{people.New(people.Config{Run: table})}, slog.New(slog.DiscardHandler))
			if tc.bad == "" && err != nil || tc.bad != "" && (err == nil || !strings.Contains(err.Error(), tc.bad)) {
				t.Errorf("%v, want %q", err, tc.bad)
			}
		})
	}
	silent := func(context.Context, string, ...string) (string, int, error) { return "", 0, errors.New("away") }
	if err := checkSubids(t.Context(), ids, nil, machine{people.New(people.Config{Run: silent})}, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("a directory that is away: %v", err)
	}
}

// The ids that come with Croft are those that no convention gives to anything else: above
// systemd's for containers, below its for foreign ones and below 2^31.
func TestPresetSubids(t *testing.T) {
	ids := subidsOf(config.Default().Subids)
	if end := ids.Start + ids.Users*ids.Size; ids.Start < 1_879_048_192 || end > 2_147_352_576 {
		t.Errorf("%+v end at %d", ids, end)
	}
}

func FuzzParseSubids(f *testing.F) {
	f.Add("ada:100000:65536\n")
	f.Add("1000:4294967295:1\n\x00::\n:0:0\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range parseSubids(text) {
			if r.owner == "" || r.start < 0 || r.start > 1<<32-1 || r.count < 1 || r.count > 1<<32-1 {
				t.Errorf("%+v", r)
			}
		}
	})
}
