package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/audit"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// What the log says of a change: what differs, without what is secret or only counts.
func TestChanged(t *testing.T) {
	const secret = "s3cret"
	w := world.New()
	job := workload.Job{ID: 118, State: workload.Running, Spec: workload.Spec{Env: map[string]string{"TOKEN": secret}, Time: 5, CPU: 1000, Mem: 1}}
	w.Fold([]world.Change{
		tenancy.AccountSet{Row: tenancy.Account{ID: 3, Name: "nlp", Weight: 1}},
		tenancy.MemberSet{Row: tenancy.Member{Account: 3, User: 2, Role: access.Owner}},
		tenancy.TokenSet{Row: tenancy.Token{ID: 5, User: 2, Hash: secret, Used: 1}},
		workload.JobSet{Row: &job},
	})
	longer := job
	longer.Spec.Time, longer.Spec.Env, longer.Seq = 9, map[string]string{"TOKEN": secret + "2"}, 7
	account := tenancy.Account{ID: 3, Name: "nlp", Weight: 2, Closed: true}
	for what, tc := range map[string]struct {
		change world.Change
		system bool
		want   string
	}{
		"an account":            {change: tenancy.AccountSet{Row: account}, want: `account:3 closed null true weight 1 2`},
		"the same":              {change: tenancy.AccountSet{Row: tenancy.Account{ID: 3, Name: "nlp", Weight: 1}}},
		"by the server":         {change: tenancy.AccountSet{Row: account}, system: true, want: `account:3 closed null true weight 1 2`},
		"a new one":             {change: tenancy.AccountSet{Row: tenancy.Account{ID: 4, Name: "x"}}, want: `account:4 name null "x"`},
		"somebody goes":         {change: tenancy.MemberSet{Row: tenancy.Member{Account: 3, User: 2}}, want: `member:3:2 role "owner" null`},
		"a token is used":       {change: tenancy.TokenSet{Row: tenancy.Token{ID: 5, User: 2, Hash: secret, Used: 9}}},
		"a token's secret":      {change: tenancy.TokenSet{Row: tenancy.Token{ID: 5, User: 2, Hash: secret + "2"}}, want: `token:5 hash "not kept" "not kept"`},
		"a password":            {change: tenancy.PasswordSet{Row: tenancy.Password{User: 2, Hash: secret, Changed: 4}}, want: `password:2 changed null 4 hash null "not kept"`},
		"a registry's password": {change: tenancy.CredentialSet{Row: tenancy.Credential{User: 2, Registry: "r", Username: "u", Sealed: secret}}, want: `credential:2:r sealed null "not kept" username null "u"`},
		"what a month carries":  {change: allowance.Set{Row: allowance.Allowance{ID: 2, Name: "month", Amount: 5, Carry: limits.Carry{Milli: 500}}}, want: `allowance:2 amount null 5 carry.milli null 500 name null "month"`},
		"a folder's variables":  {change: asset.FolderSet{Row: asset.Folder{Account: 3, Name: "env", Path: "/p", Env: map[string]string{"A": secret}}}, want: `folder:3:env env null "not kept" path null "/p"`},
		"a template":            {change: asset.TemplateSet{Row: asset.Template{User: 2, Name: "t", Spec: v1.JobSpec{Image: secret}}}, want: `template:2:t spec null "not kept"`},
		"a job by a person":     {change: workload.JobSet{Row: &longer}, want: `job:118 spec.env "not kept" "not kept" spec.time 5 9`},
		"a job by the server":   {change: workload.JobSet{Row: &longer}, system: true},
		"a new job":             {change: workload.JobSet{Row: &workload.Job{ID: 119, Spec: job.Spec}}},
		"a posting":             {change: ledger.Posted{Row: ledger.Transfer{ID: 1, Amount: 5}}},
		"a node as it is seen":  {change: placement.NodeSet{Row: placement.Node{Name: "gpu1", CPU: 1000}}, system: true},
		"the site's settings":   {change: world.SiteSet{Row: world.Site{PlanDepth: 50}}, system: true, want: `site PlanDepth null 50`},
	} {
		t.Run(what, func(t *testing.T) {
			text, err := store.Changed(w, []world.Change{tc.change}, !tc.system)
			if err != nil || strings.Contains(string(text), secret) {
				t.Fatalf("%s, %v", text, err)
			}
			var rows []audit.RowChange
			if len(text) > 0 {
				if err := json.Unmarshal(text, &rows); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, r := range rows {
				got = append(got, r.Row)
				for _, f := range r.Fields {
					got = append(got, f.Name, string(f.Before), string(f.After))
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
