package idle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/workload"
)

// Prober asks the web programs of jobs what they say of themselves. They are their users'
// and may answer anything: what isn't as agreed is unknown.
type Prober struct {
	Dial     func(ctx context.Context, step engine.StepID, port uint16) (net.Conn, error)
	Instance string
	// Base is the path that an app's addresses begin with for the app itself: CROFT_BASE_URL.
	Base func(j *workload.Job, app workload.App) string
}

// Bounds of an answer.
const (
	answerTime = 3 * time.Second
	mostAnswer = 1 << 20 // bytes
	mostHeader = 64 << 10
)

// Ask asks those of a job's apps that say how.
func (p Prober) Ask(ctx context.Context, j *workload.Job) []idle.Activity {
	var out []idle.Activity
	var wg sync.WaitGroup
	apps := slices.DeleteFunc(slices.Clone(j.Spec.Apps), func(a workload.App) bool { return a.Activity == "" })
	out = make([]idle.Activity, len(apps))
	for i, app := range apps {
		wg.Go(func() {
			busy, last, err := p.ask(ctx, j, app)
			out[i] = idle.Activity{Name: app.Name, Known: err == nil, Busy: busy, Last: last}
		})
	}
	wg.Wait()
	return out
}

func (p Prober) ask(ctx context.Context, j *workload.Job, app workload.App) (busy bool, last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	step := engine.StepID{Attempt: engine.AttemptID(id.Attempt{Job: j.ID, N: j.Attempt.N}.Engine(p.Instance)), N: engine.PrimaryStep}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx, step, app.Port) },
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: mostHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	base := "/"
	if !app.Strip && p.Base != nil {
		base = p.Base(j, app)
	}
	get := func(path string) ([]byte, error) { return get(ctx, client, app.Port, base, path) }
	if app.Activity != workload.ActivityJupyter {
		text, err := get(app.Activity)
		if err != nil {
			return false, 0, err
		}
		return parseActivity(text)
	}
	text, err := get("/api/kernels")
	if err != nil {
		return false, 0, err
	}
	if busy, last, err = parseKernels(text); err != nil {
		return false, 0, err
	}
	var status *statusError
	if text, err = get("/api/terminals"); errors.As(err, &status) && status.code == http.StatusNotFound {
		return busy, last, nil // it has none
	} else if err != nil {
		return false, 0, err
	}
	typed, err := parseTerminals(text)
	return busy, max(last, typed), err
}

// statusError is an answer other than 200.
type statusError struct{ code int }

func (e *statusError) Error() string { return "status " + strconv.Itoa(e.code) }

// get returns what is at a path below base. The host is one that programs on loopback take.
func get(ctx context.Context, client *http.Client, port uint16, base, path string) ([]byte, error) {
	below, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "http", Host: "localhost:" + strconv.Itoa(int(port)), RawQuery: below.RawQuery}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath(base, below.EscapedPath()).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "croft")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{resp.StatusCode}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	if err == nil && len(text) > mostAnswer {
		err = errors.New("the answer is too long")
	}
	return text, err
}

// parseActivity reads {"busy": true, "last_activity": "2026-12-01T14:03:00Z"}, of which busy
// must be there.
func parseActivity(text []byte) (busy bool, last int64, err error) {
	var a struct {
		Busy *bool  `json:"busy"`
		Last string `json:"last_activity"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return false, 0, err
	}
	if a.Busy == nil {
		return false, 0, errors.New("busy is missing")
	}
	last, err = instant(a.Last)
	return *a.Busy, last, err
}

// quietStates are those in which a kernel of Jupyter doesn't compute. One that waits for
// its user's input says that it is busy.
var quietStates = []string{"idle", "starting", "restarting", "autorestarting", "terminating", "dead"}

// parseKernels reads the answer of Jupyter's /api/kernels: whether one computes, and when
// the last one did something.
func parseKernels(text []byte) (busy bool, last int64, err error) {
	var all []struct {
		State string `json:"execution_state"`
		Last  string `json:"last_activity"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return false, 0, err
	}
	for _, k := range all {
		switch {
		case k.State == "busy":
			busy = true
		case !slices.Contains(quietStates, k.State):
			return false, 0, fmt.Errorf("a kernel is in the state %.40q", k.State)
		}
		at, err := instant(k.Last)
		if err != nil {
			return false, 0, err
		}
		last = max(last, at)
	}
	return busy, last, nil
}

// parseTerminals reads the answer of Jupyter's /api/terminals: when somebody typed, or
// something was printed, the last time. Old ones don't say.
func parseTerminals(text []byte) (last int64, err error) {
	var all []struct {
		Last string `json:"last_activity"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return 0, err
	}
	for _, t := range all {
		at, err := instant(t.Last)
		if err != nil {
			return 0, err
		}
		last = max(last, at)
	}
	return last, nil
}

// instant reads a time, in ns; empty is 0.
func instant(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		return 0, fmt.Errorf("%.40q is no time", s)
	}
	return t.UnixNano(), nil
}
