package httpapi

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/workload"
)

// A thousand requests for the last place: one gets it.
func TestAThousandForTheLast(t *testing.T) {
	const crowd = 1000
	h := newHarness(t)
	set := func(l v1.Limit) {
		get[v1.LimitUse](h, 200, request{method: "POST", path: "/v1/limits", user: "olga", body: l})
	}
	set(v1.Limit{Account: "nlp", Resource: "submitted", Max: "1"})
	at := make(chan struct{})
	together := func(do func()) {
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() { <-at; do() })
		}
		close(at)
		all.Wait()
		at = make(chan struct{})
	}
	ada, _ := h.seq.World().Tenancy.User("ada")
	spec := parsed(t, h)
	var accepted, refused atomic.Int32
	together(func() {
		_, err := h.seq.Do(context.Background(), sequencer.Actor{User: ada.ID}, command.Submit{Spec: spec}, sequencer.Key{})
		switch {
		case err == nil:
			accepted.Add(1)
		case strings.Contains(err.Error(), "account nlp has 1 of at most 1 jobs submitted"):
			refused.Add(1)
		default:
			t.Error(err)
		}
	})
	if accepted.Load() != 1 || refused.Load() != crowd-1 {
		t.Errorf("%d accepted, %d refused", accepted.Load(), refused.Load())
	}

	h.as("root", command.GrantGive{Account: "nlp", Amount: 10_000 * money.Credit, Source: "enough"})
	set(v1.Limit{Account: "nlp", Resource: "submitted", Max: "1000"})
	set(v1.Limit{User: "ada", Resource: "gpu:a100", Max: "1"})
	for range crowd - 1 {
		h.as("ada", command.Submit{Spec: spec})
	}
	var next atomic.Int64
	together(func() { h.system(command.JobStart{Job: id.Job(next.Add(1)), Image: "sha256:1"}) })
	if n := h.seq.World().Workload.Active.Len(); n != 1 {
		t.Errorf("%d jobs have the last device", n)
	}
}

// A limit below what is used says who is over and by how much, and stops nothing.
func TestALimitBelowUse(t *testing.T) {
	h := newHarness(t)
	for _, who := range []string{"ada", "ada", "mia", "ben"} {
		h.start(h.submit(who))
	}
	got := get[v1.LimitUse](h, 200, request{method: "POST", path: "/v1/limits", user: "olga", body: v1.Limit{Account: "nlp", Resource: "gpu", Max: "1"}})
	if got.Over != "3" || got.Used != "4" || got.Left != "0" || got.By != "olga" {
		t.Errorf("%+v", got)
	}
	var users []string
	for _, u := range got.Users {
		users = append(users, u.User+" "+string(u.Used))
	}
	if list := strings.Join(users, ", "); list != "ada 2, mia 1, ben 1" && list != "ada 2, ben 1, mia 1" {
		t.Errorf("users: %s", list)
	}
	got = get[v1.LimitUse](h, 200, request{method: "POST", path: "/v1/limits", user: "olga", body: v1.Limit{Partition: "main", QoS: "normal", Resource: "job.cpu", Max: "0.5"}})
	if len(got.Users) != 3 || got.Users[0].Jobs != 2 || got.From != "everybody with QoS normal in partition main" {
		t.Errorf("%+v", got)
	}
	if n := h.seq.World().Workload.Active.Len(); n != 4 {
		t.Errorf("%d jobs still run", n)
	}
}

// What binds somebody is shown with what is left, whose it is and which is the
// tightest; defaults, partitions and QoS are among it.
func TestLimitsOfSomebody(t *testing.T) {
	h := newHarness(t)
	for _, c := range []command.LimitPut{
		{Account: "nlp", Resource: "gpu", Max: 4000}, {Account: "nlp", User: "ada", Resource: "gpu", Max: 3000}, {Account: "vision", Resource: "gpu", Max: 1000},
		{QoS: "normal", Resource: "gpu", Max: 2000}, {User: "ada", Resource: "job.gpu", Max: 2000}, {User: "mia", Resource: "gpu", Max: 0},
		{Account: "nlp", Resource: "time", Max: 50 * hour},
	} {
		h.as("root", c)
	}
	h.start(h.submit("ada"))
	tests := map[string]struct{ query, user, want string }{
		"oneself": {"?user=ada", "ada", "gpu 2 left 1 everybody with QoS normal; gpu 3 left 2 * user ada in account nlp; gpu 4 left 3 account nlp; " +
			"job.gpu 2 left  * user ada; time 2d left  partition main; time 2d2h left  * account nlp"},
		"with a QoS and a partition": {"?user=ada&qos=normal&partition=main", "olga", "gpu 2 left 1 * everybody with QoS normal; gpu 3 left 2 user ada in account nlp; gpu 4 left 3 account nlp; " +
			"job.gpu 2 left  * user ada; time 2d left  * partition main; time 2d2h left  account nlp"},
		"an account": {"?account=vision", "ben", "gpu 1 left 1 * account vision; gpu 2 left 1 everybody with QoS normal; gpu 4 left 3 account nlp; " +
			"time 2d left  partition main; time 2d2h left  * account nlp"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range get[v1.Page[v1.LimitUse]](h, 200, request{method: "GET", path: "/v1/limits" + tt.query, user: tt.user}).Items {
				mark := " "
				if l.Tightest {
					mark = " * "
				}
				got = append(got, l.Resource+" "+string(l.Max)+" left "+string(l.Left)+mark+l.From)
			}
			if list := strings.Join(got, "; "); list != tt.want {
				t.Errorf("\n got %s\nwant %s", list, tt.want)
			}
		})
	}
	for _, query := range []string{"?user=mia", "?user=nobody", "?account=nobody", "?partition=nothing", "?qos=nothing"} {
		get[v1.Problem](h, 404, request{method: "GET", path: "/v1/limits" + query, user: "ada"})
	}
}

// parsed is the example as it comes to be a command.
func parsed(t *testing.T, h *harness) workload.Spec {
	t.Helper()
	spec, err := h.parse(example())
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// A limit on hours is shown with its period; what can't be read says which field.
func TestLimitsPerPeriod(t *testing.T) {
	h := newHarness(t)
	put := v1.Limit{Account: "nlp", Resource: "gpu-hours", Max: "2.5", Per: "month", CarryOver: "50%"}
	got := get[v1.LimitUse](h, 200, request{method: "POST", path: "/v1/limits", user: "olga", body: put})
	put.ID = got.ID
	if got.Limit != put || got.Used != "0" || got.Left != "2.5" || got.Until.Format("2006-01-02") != "2026-12-01" || got.Since.Format("2006-01-02") != "2026-11-01" {
		t.Errorf("%+v", got)
	}
	h.start(h.submit("ada"))
	list := get[v1.Page[v1.LimitUse]](h, 200, request{method: "GET", path: "/v1/limits?user=ada", user: "ada"}).Items
	if list[0].Used != "2" || list[0].Left != "0.5" || !list[0].Tightest {
		t.Errorf("%+v", list[0])
	}
	tests := map[string]struct {
		limit v1.Limit
		field string
	}{
		"no period":       {v1.Limit{Resource: "gpu-hours", Max: "1"}, "per"},
		"no such period":  {v1.Limit{Resource: "gpu-hours", Max: "1", Per: "decade"}, "per"},
		"too short":       {v1.Limit{Resource: "gpu-hours", Max: "1", Per: "rolling 1s"}, "per"},
		"at once":         {v1.Limit{Resource: "gpu", Max: "1", Per: "month"}, "per"},
		"too much":        {v1.Limit{Resource: "mem-hours", Max: "99999999999999999", Per: "month"}, "max"},
		"not hours":       {v1.Limit{Resource: "mem-hours", Max: "64G", Per: "month"}, "max"},
		"too large share": {v1.Limit{Resource: "gpu-hours", Max: "1", Per: "month", CarryOver: "101%"}, "carry_over"},
		"no share":        {v1.Limit{Resource: "gpu-hours", Max: "1", Per: "month", CarryOver: "half"}, "carry_over"},
		"rolls already":   {v1.Limit{Resource: "gpu-hours", Max: "1", Per: "rolling 7d", CarryOver: "5"}, "carry_over"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/limits", user: "olga", body: tt.limit})
			if len(p.Fields) != 1 || p.Fields[0].Path != tt.field {
				t.Errorf("%+v, want %s", p, tt.field)
			}
		})
	}
}

// A limit for each user counts everybody by himself; a user's own takes its place.
func TestALimitForEachUser(t *testing.T) {
	h := newHarness(t)
	set := func(l v1.Limit) v1.LimitUse {
		t.Helper()
		return get[v1.LimitUse](h, 200, request{method: "POST", path: "/v1/limits", user: "olga", body: l})
	}
	for _, who := range []string{"ada", "ada", "ada", "mia"} {
		h.start(h.submit(who))
	}
	got := set(v1.Limit{User: "*", QoS: "normal", Resource: "submitted", Max: "2"})
	if got.User != "*" || got.Used != "3" || got.Over != "1" || len(got.Users) != 1 || got.Users[0].User != "ada" || got.From != "each user with QoS normal" {
		t.Errorf("%+v", got)
	}
	h.submit("mia")
	submit := request{method: "POST", path: "/v1/jobs", user: "mia", body: example()}
	refused := get[v1.Problem](h, 422, submit)
	if len(refused.Reasons) == 0 || refused.Reasons[0].Scope != "user mia with QoS normal" {
		t.Errorf("%+v", refused)
	}
	for _, l := range get[v1.Page[v1.LimitUse]](h, 200, request{method: "GET", path: "/v1/limits?user=mia&qos=normal", user: "mia"}).Items {
		if l.Resource == "submitted" && l.ID != "" && (l.From != "each user with QoS normal" || l.Used != "2" || !l.Tightest) {
			t.Errorf("%+v", l)
		}
	}
	set(v1.Limit{User: "mia", QoS: "normal", Resource: "submitted", Max: "3"})
	get[v1.Job](h, 201, submit)
	p := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/limits", user: "olga", body: v1.Limit{User: "*", Resource: "gpu-hours", Max: "5", Per: "day"}})
	if !strings.Contains(p.Detail, "user") {
		t.Errorf("%+v", p)
	}
}
