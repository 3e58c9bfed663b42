package run

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// Programs are told where browsers find the job's apps; the first one's address is the job's.
func TestAppsEnvironment(t *testing.T) {
	j := &workload.Job{ID: 118, Spec: workload.Spec{Apps: []workload.App{{Name: "lab", Port: 8888}, {Name: "my-board", Port: 6006}}}}
	byName := func(job id.Job, app string, first bool) string {
		if first {
			return "https://118.apps.example.org:8443/"
		}
		return "https://118-" + app + ".apps.example.org:8443/"
	}
	for name, tc := range map[string]struct {
		address func(id.Job, string, bool) string
		want    map[string]string
	}{
		"by path": {nil, map[string]string{
			"CROFT_URL": "/w/118/", "CROFT_BASE_URL": "/w/118/", "CROFT_URL_LAB": "/w/118/", "CROFT_BASE_URL_LAB": "/w/118/",
			"CROFT_URL_MY_BOARD": "/w/118/my-board/", "CROFT_BASE_URL_MY_BOARD": "/w/118/my-board/",
		}},
		"by name": {byName, map[string]string{
			"CROFT_URL": "https://118.apps.example.org:8443/", "CROFT_BASE_URL": "/", "CROFT_URL_LAB": "https://118.apps.example.org:8443/", "CROFT_BASE_URL_LAB": "/",
			"CROFT_URL_MY_BOARD": "https://118-my-board.apps.example.org:8443/", "CROFT_BASE_URL_MY_BOARD": "/",
		}},
	} {
		maps.Copy(tc.want, map[string]string{"CROFT_APP_PORT": "8888", "CROFT_APP_PORT_LAB": "8888", "CROFT_APP_PORT_MY_BOARD": "6006"})
		if diff := cmp.Diff(tc.want, ofApps(j, tc.address)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if env := ofApps(&workload.Job{ID: 118}, nil); len(env) != 0 {
		t.Errorf("without an app: %v", env)
	}
}
