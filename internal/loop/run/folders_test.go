package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/engine"
)

// What the job mounts itself wins, then what the nearest account has.
func TestWithFolders(t *testing.T) {
	own := []engine.Mount{{Source: "/home/ada/x", Target: "/shared/nlp/own/"}}
	folders := []asset.Folder{ // the topmost account's first
		{Account: 1, Name: "env", Path: "/opt/env", Target: "/opt/env", ReadOnly: true},
		{Account: 1, Name: "own", Path: "/srv/own", Target: "/shared/nlp/own"},
		{Account: 2, Name: "env", Path: "/opt/env2", Target: "/opt/env", Env: map[string]string{"A": "b"}},
	}
	want := []engine.Mount{own[0], {Source: "/opt/env2", Target: "/opt/env", Within: []string{"/opt/env2"}, Optional: "folder /opt/env", Env: map[string]string{"A": "b"}}}
	if diff := cmp.Diff(want, withFolders(own, folders)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
