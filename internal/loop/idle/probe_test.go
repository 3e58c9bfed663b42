package idle

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/workload"
)

const (
	quietKernels = `[{"id":"a","name":"python3","last_activity":"2026-12-01T14:03:00.000000Z","execution_state":"idle","connections":1}]`
	busyKernels  = `[{"execution_state":"idle","last_activity":"2026-12-01T14:03:00Z"},{"execution_state":"busy","last_activity":"2026-12-01T09:00:00Z"}]`
)

var at = time.Date(2026, 12, 1, 14, 3, 0, 0, time.UTC).UnixNano()

// page is what a program answers at a path.
type page struct {
	status int
	text   string
}

func TestAsk(t *testing.T) {
	jupyter := workload.App{Name: "lab", Port: 8888, Activity: workload.ActivityJupyter, Strip: true}
	own := workload.App{Name: "web", Port: 8888, Activity: "/busy?now=1", Strip: true}
	below := workload.App{Name: "lab", Port: 8888, Activity: workload.ActivityJupyter}
	none := page{404, ""}
	tests := map[string]struct {
		app   workload.App
		pages map[string]page
		down  bool
		want  idle.Activity
	}{
		"idle kernels":               {jupyter, map[string]page{"/api/kernels": {200, quietKernels}, "/api/terminals": {200, "[]"}}, false, idle.Activity{Known: true, Last: at}},
		"one of them computes":       {jupyter, map[string]page{"/api/kernels": {200, busyKernels}, "/api/terminals": none}, false, idle.Activity{Known: true, Busy: true, Last: at}},
		"no kernels":                 {jupyter, map[string]page{"/api/kernels": {200, "[]"}, "/api/terminals": none}, false, idle.Activity{Known: true}},
		"somebody types":             {jupyter, map[string]page{"/api/kernels": {200, "[]"}, "/api/terminals": {200, `[{"name":"1","last_activity":"2026-12-01T14:03:00Z"}]`}}, false, idle.Activity{Known: true, Last: at}},
		"a terminal of old":          {jupyter, map[string]page{"/api/kernels": {200, "[]"}, "/api/terminals": {200, `[{"name":"1"}]`}}, false, idle.Activity{Known: true}},
		"terminals not known":        {jupyter, map[string]page{"/api/kernels": {200, quietKernels}, "/api/terminals": {500, ""}}, false, idle.Activity{Last: at}},
		"it wants a login":           {jupyter, map[string]page{"/api/kernels": {403, "[]"}, "/api/terminals": none}, false, idle.Activity{}},
		"it leads elsewhere":         {jupyter, map[string]page{"/api/kernels": {302, ""}}, false, idle.Activity{}},
		"a state nobody knows":       {jupyter, map[string]page{"/api/kernels": {200, `[{"execution_state":"pondering"}]`}, "/api/terminals": none}, false, idle.Activity{}},
		"a time that is none":        {jupyter, map[string]page{"/api/kernels": {200, `[{"execution_state":"idle","last_activity":"now"}]`}, "/api/terminals": none}, false, idle.Activity{}},
		"not JSON":                   {jupyter, map[string]page{"/api/kernels": {200, "<html>"}, "/api/terminals": none}, false, idle.Activity{}},
		"too long":                   {jupyter, map[string]page{"/api/kernels": {200, "[" + strings.Repeat(" ", mostAnswer) + "]"}, "/api/terminals": none}, false, idle.Activity{}},
		"below its base":             {below, map[string]page{"/w/7/api/kernels": {200, busyKernels}, "/w/7/api/terminals": none}, false, idle.Activity{Known: true, Busy: true, Last: at}},
		"its own way":                {own, map[string]page{"/busy?now=1": {200, `{"busy":true,"last_activity":"2026-12-01T15:03:00+01:00","users":3}`}}, false, idle.Activity{Known: true, Busy: true, Last: at}},
		"its own way, idle":          {own, map[string]page{"/busy?now=1": {200, `{"busy":false}`}}, false, idle.Activity{Known: true}},
		"its own way, not as agreed": {own, map[string]page{"/busy?now=1": {200, `{"last_activity":"2026-12-01T14:03:00Z"}`}}, false, idle.Activity{}},
		"nothing listens":            {jupyter, nil, true, idle.Activity{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				p, ok := tt.pages[r.URL.RequestURI()]
				if !ok || r.Host != "localhost:8888" || r.Method != http.MethodGet {
					t.Errorf("asked for %s %s at %s", r.Method, r.URL, r.Host)
				}
				w.Header().Set("Location", "http://localhost:1/")
				w.WriteHeader(p.status)
				_, _ = w.Write([]byte(p.text)) // it hangs up on what is too long
			}))
			defer srv.Close()
			p := Prober{Instance: "3f2a9c1e", Base: func(*workload.Job, workload.App) string { return "/w/7/" },
				Dial: func(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error) {
					if step.String() != "3f2a9c1e-7-2.1" || port != 8888 {
						t.Errorf("dials %s, port %d", step, port)
					}
					if tt.down {
						return nil, &engine.DialError{Port: port, Message: engine.NothingListens}
					}
					return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
				}}
			job := &workload.Job{ID: 7, Attempt: workload.Attempt{N: 2}, Spec: workload.Spec{Apps: []workload.App{{Name: "silent", Port: 1}, tt.app}}}
			tt.want.Name = tt.app.Name
			got := p.Ask(t.Context(), job)
			if len(got) == 1 && !got[0].Known {
				got[0].Last, tt.want.Last = 0, 0 // means nothing
			}
			if diff := cmp.Diff([]idle.Activity{tt.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A program that takes the question and never answers holds nobody up for long.
func TestAskOfOneThatHangs(t *testing.T) {
	p := Prober{Dial: func(ctx context.Context, _ engine.StepID, _ uint16) (net.Conn, error) {
		<-ctx.Done()
		return nil, errors.New("too late")
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	got := p.Ask(ctx, &workload.Job{Spec: workload.Spec{Apps: []workload.App{{Name: "lab", Activity: workload.ActivityJupyter}}}})
	if diff := cmp.Diff([]idle.Activity{{Name: "lab"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzActivity(f *testing.F) {
	for _, s := range []string{quietKernels, busyKernels, `{"busy":false,"last_activity":"2026-12-01T14:03:00Z"}`, `[{"last_activity":"0001-01-01T00:00:00Z"}]`, "[", "null"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, k, _ := parseKernels(text)
		_, a, _ := parseActivity(text)
		n, _ := parseTerminals(text)
		if k < 0 || a < 0 || n < 0 {
			t.Errorf("%q: a time before all times", text)
		}
	})
}
