package query_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// still is a world that stands still.
type still struct{ w *world.World }

func (s still) World() *world.World { return s.w }

// sharing is the world of the example in docs/operations/priority.md.
func sharing() *world.World {
	w := world.New()
	w.Now = 1000 * hour
	w.Fold([]world.Change{
		world.SiteSet{Row: world.Site{PlanDepth: 10, Weights: admission.Weights{Age: 1000, AgeCap: 14 * 24 * hour, Share: 1000, HalfLife: 7 * 24 * hour}}},
		catalog.PartitionSet{Row: catalog.Partition{Name: "main", Default: true}}, catalog.QoSSet{Row: catalog.QoS{Name: "normal", Default: true, Factor: 1000}},
		tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: "nlp", Weight: 2}}, tenancy.AccountSet{Row: tenancy.Account{ID: 2, Name: "vision"}},
	})
	for i, u := range []struct {
		name            string
		account         id.Account
		weight, credits int64
	}{{"ada", 1, 2, 40}, {"ben", 1, 1, 10}, {"cho", 2, 0, 30}} {
		k := id.User(i + 1)
		w.Fold([]world.Change{
			tenancy.UserSet{Row: tenancy.User{ID: k, Name: u.name, UID: -1, Platform: access.PlatformUser}},
			tenancy.MemberSet{Row: tenancy.Member{Account: u.account, User: k, Role: access.Member, Weight: u.weight}},
			fairshare.UseSet{Row: fairshare.Use{Account: u.account, User: k, Left: money.Micros(u.credits) * money.Credit, At: w.Now}},
		})
	}
	for k, wait := range map[id.Job]int64{1: 84 * hour, 2: 0, 3: 14 * 24 * hour} {
		account := id.Account(1 + k/3)
		w.Fold([]world.Change{workload.JobSet{Row: &workload.Job{
			ID: k, User: id.User(k), Account: account, Path: []id.Account{account}, State: workload.Queued, Submitted: w.Now - wait,
			Spec: workload.Spec{Partition: "main", QoS: "normal", CPU: 1000, Mem: 1 << 30, Time: hour},
		}}})
	}
	return w
}

// Everybody sees what his role lets him, with sums that have what he doesn't see.
func TestFairShareByRole(t *testing.T) {
	b := newBench(t)
	w := sharing()
	w.Fold([]world.Change{
		tenancy.UserSet{Row: tenancy.User{ID: 9, Name: "zoe", UID: -1}},
		tenancy.AccountSet{Row: tenancy.Account{ID: 3, Name: "speech", Parent: 1}},
		tenancy.MemberSet{Row: tenancy.Member{Account: 3, User: 9, Role: access.Member}},
	})
	r := query.New(query.Deps{Worlds: still{w}, History: b.db, Now: func() int64 { return w.Now }})
	tests := map[string]struct {
		as   access.Principal
		of   string
		want string
	}{
		"an admin":             {root, "", "nlp /speech //zoe /ben /ada vision /cho"},
		"an account":           {root, "nlp", "nlp /speech //zoe /ben /ada"},
		"a user":               {root, "ada", "nlp /ada"},
		"a member":             {w.Principal(1, 0, w.Now), "", "nlp /speech //zoe /ben /ada"},
		"of an account below":  {w.Principal(9, 0, w.Now), "", "nlp /speech //zoe"},
		"another's account":    {w.Principal(9, 0, w.Now), "vision", "not_found"},
		"another user":         {w.Principal(9, 0, w.Now), "ada", "not_found"},
		"the account above":    {w.Principal(9, 0, w.Now), "nlp", "not_found"},
		"nobody":               {root, "eve", "not_found"},
		"a name that can't be": {root, "\x00\xff", "not_found"},
		"whoever isn't known":  {access.Principal{}, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := r.FairShare(tt.as, tt.of)
			var names []string
			for _, n := range got.Nodes {
				node := n.User
				if node == "" {
					node = n.Account
				}
				names = append(names, strings.Repeat("/", n.Depth)+node)
				if n.Account == "nlp" && n.User == "" && (n.Use != "50.000" || n.Used != "62.50" || n.Share != "66.66" || n.Times != "0.93" || got.Places != 4) {
					t.Errorf("%+v of %d", n, got.Places)
				}
			}
			if err != nil {
				names = []string{string(fault.Of(err))}
			}
			if line := strings.Join(names, " "); line != tt.want {
				t.Errorf("%q, want %q", line, tt.want)
			}
		})
	}
}

// The example of the documentation is what is answered.
func TestPriorityAsDocumented(t *testing.T) {
	b := newBench(t)
	w := sharing()
	text, err := os.ReadFile("../../docs/operations/priority.md")
	if err != nil {
		t.Fatal(err)
	}
	r := query.New(query.Deps{Worlds: still{w}, History: b.db, Now: func() int64 { return w.Now }})
	for job, want := range map[string]int64{"1": 916, "2": 1000, "3": 1333} {
		why, err := r.Why(t.Context(), root, job)
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, f := range why.Priority {
			sum += f.Value
			if f.Meaning != "" && job == "1" && !strings.Contains(string(text), "      "+f.Name+": "+f.Meaning+"\n") {
				t.Errorf("not in the documentation: %s: %s", f.Name, f.Meaning)
			}
		}
		if sum != want {
			t.Errorf("job %s has %d, want %d: %+v", job, sum, want, why.Priority)
		}
	}
	for n := range w.View(w.Now).Standings().Below {
		name := []string{"", "ada", "ben", "cho"}[n.User]
		if n.User == 0 {
			name = []string{"", "nlp", "vision"}[n.Account]
		}
		row := fmt.Sprintf("| %s | %d of %d | %d of %d | %d.%02d× |", name, n.Weight, n.Siblings, n.Use/money.Credit, n.Level/money.Credit, n.Times()/100, n.Times()%100)
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("not in the documentation: %s", row)
		}
	}
}
