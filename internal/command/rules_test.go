package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/world"
)

// What an admin types wrongly is told by code and field, and changes nothing.
func TestBadCommands(t *testing.T) {
	uid := func(n int64) *int64 { return &n }
	tests := map[string]struct {
		cmd   world.Command
		code  codes.Code
		field string
	}{
		"an account's name with a newline":  {command.AccountPut{Create: true, Name: "a\nb"}, codes.Invalid, "name"},
		"an account called ..":              {command.AccountPut{Create: true, Name: ".."}, codes.Invalid, "name"},
		"an account twice":                  {command.AccountPut{Create: true, Name: "nlp"}, codes.Exists, ""},
		"below no account":                  {command.AccountPut{Create: true, Name: "x", Parent: "none"}, codes.Invalid, "parent"},
		"no such account":                   {command.AccountPut{Name: "none"}, codes.NotFound, ""},
		"no such billing":                   {command.AccountPut{Name: "nlp", Billing: text("free")}, codes.Invalid, "billing"},
		"no group's name":                   {command.AccountPut{Name: "nlp", Group: text("a b")}, codes.Invalid, "group"},
		"no such role":                      {command.MemberPut{Account: "nlp", User: "ada", Role: "king"}, codes.Invalid, "role"},
		"no such member":                    {command.MemberPut{Account: "nlp", User: "ben"}, codes.NotFound, ""},
		"a member who is no user":           {command.MemberPut{Account: "nlp", User: "eve", Role: "member"}, codes.NotFound, ""},
		"a user's name in capitals":         {command.UserPut{Create: true, Name: "Eve"}, codes.Invalid, "name"},
		"a long name":                       {command.UserPut{Create: true, Name: strings.Repeat("a", 64)}, codes.Invalid, "name"},
		"a user twice":                      {command.UserPut{Create: true, Name: "ada"}, codes.Exists, ""},
		"no such user":                      {command.UserPut{Name: "eve"}, codes.NotFound, ""},
		"no such platform role":             {command.UserPut{Name: "ada", Role: text("god")}, codes.Invalid, "role"},
		"giving up one's own role":          {command.UserPut{Name: "root", Role: text("user")}, codes.Conflict, ""},
		"blocking oneself":                  {command.UserPut{Name: "root", Blocked: yes()}, codes.Conflict, ""},
		"a uid that is somebody's":          {command.UserPut{Name: "ada", UID: uid(1001)}, codes.Conflict, ""},
		"a token that is over":              {command.TokenPut{User: "ada", Name: "x", Hash: "h", Expires: 1}, codes.Invalid, "expires"},
		"no such token":                     {command.TokenRevoke{User: "ada", Token: 99}, codes.NotFound, ""},
		"somebody else's token":             {command.TokenRevoke{User: "ben", Token: 1}, codes.NotFound, ""},
		"a grant of nothing":                {command.GrantGive{Account: "nlp", Source: "x"}, codes.Invalid, "amount"},
		"a grant below nothing":             {command.GrantGive{Account: "nlp", Amount: -1, Source: "x"}, codes.Invalid, "amount"},
		"an absurd grant":                   {command.GrantGive{Account: "nlp", Amount: 1<<63 - 1, Source: "x"}, codes.Invalid, "amount"},
		"a grant from nowhere":              {command.GrantGive{Account: "nlp", Amount: 1}, codes.Invalid, "source"},
		"a grant from the platform":         {command.GrantGive{Account: "nlp", Amount: 1, Source: "Platform"}, codes.Invalid, "source"},
		"a grant from two lines":            {command.GrantGive{Account: "nlp", Amount: 1, Source: "a\nb"}, codes.Invalid, "source"},
		"a grant that is over":              {command.GrantGive{Account: "nlp", Amount: 1, Source: "x", End: 5}, codes.Invalid, "end"},
		"a grant to nobody":                 {command.GrantGive{Account: "none", Amount: 1, Source: "x"}, codes.NotFound, ""},
		"a price below nothing":             {command.PricePut{CPU: -1}, codes.Invalid, "cpu"},
		"an absurd price of memory":         {command.PricePut{Mem: 1<<63 - 1}, codes.Invalid, "mem"},
		"an absurd price of a model":        {command.PricePut{Devices: []catalog.ModelRate{{Model: "a100", Rate: 1e12 + 1}}}, codes.Invalid, "gpu.a100"},
		"a price for the past":              {command.PricePut{From: 5, CPU: 1}, codes.Invalid, "from"},
		"a price of no partition":           {command.PricePut{Partition: "none", CPU: 1}, codes.Invalid, "partition"},
		"a limit on nothing":                {command.LimitPut{Resource: "disk", Max: 1}, codes.Invalid, "resource"},
		"a limit below nothing":             {command.LimitPut{Resource: "gpu", Max: -1}, codes.Invalid, "max"},
		"a limit of no account":             {command.LimitPut{Account: "none", Resource: "gpu"}, codes.NotFound, ""},
		"a limit of no user":                {command.LimitPut{User: "none", Resource: "gpu"}, codes.NotFound, ""},
		"hours per nothing":                 {command.LimitPut{Resource: "gpu-hours", Max: 1}, codes.Invalid, "per"},
		"hours per fortnight":               {command.LimitPut{Resource: "gpu-hours", Max: 1, Per: limits.Per{Unit: "fortnight"}}, codes.Invalid, "per"},
		"hours of a moment":                 {command.LimitPut{Resource: "gpu-hours", Max: 1, Per: limits.Per{Unit: limits.Rolling, Span: 1}}, codes.Invalid, "per"},
		"devices per month":                 {command.LimitPut{Resource: "gpu", Max: 1000, Per: limits.Per{Unit: limits.Month}}, codes.Invalid, "per"},
		"carried to nowhere":                {command.LimitPut{Resource: "gpu", Max: 1000, Carry: limits.Carry{Milli: 1}}, codes.Invalid, "carry_over"},
		"carried on and on":                 {command.LimitPut{Resource: "gpu-hours", Max: 1, Per: limits.Per{Unit: limits.Rolling, Span: hour}, Carry: limits.Carry{Milli: 1}}, codes.Invalid, "carry_over"},
		"more carried than left":            {command.LimitPut{Resource: "gpu-hours", Max: 1, Per: limits.Per{Unit: limits.Day}, Carry: limits.Carry{Milli: 1001}}, codes.Invalid, "carry_over"},
		"a limit of no QoS":                 {command.LimitPut{QoS: "none", Resource: "gpu"}, codes.Invalid, "qos"},
		"a limit of no partition":           {command.LimitPut{Partition: "none", Resource: "gpu"}, codes.Invalid, "partition"},
		"no such limit":                     {command.LimitPut{Remove: 99}, codes.NotFound, ""},
		"draining without a reason":         {command.NodeDrain{Node: "gpu1"}, codes.Invalid, "reason"},
		"draining for two lines":            {command.NodeDrain{Node: "gpu1", Reason: "a\nb"}, codes.Invalid, "reason"},
		"a label that isn't one":            {command.NodeLabel{Node: "gpu1", Set: map[string]string{"a b": ""}}, codes.Invalid, "set"},
		"removing a label that isn't there": {command.NodeLabel{Node: "gpu1", Remove: []string{"ib"}}, codes.Invalid, "remove"},
		"labelling no such node":            {command.NodeLabel{Node: "none"}, codes.NotFound, ""},
		"no such node":                      {command.NodeDrain{Node: "none", Reason: "x"}, codes.NotFound, ""},
		"maintenance of no node":            {command.MaintenancePut{Node: "none", From: 1, To: 1 << 62}, codes.Invalid, "node"},
		"maintenance that is over":          {command.MaintenancePut{Node: "*", From: 1, To: 2}, codes.Invalid, "to"},
		"maintenance backwards":             {command.MaintenancePut{Node: "*", From: 1 << 62, To: 1 << 61}, codes.Invalid, "to"},
		"no such maintenance":               {command.MaintenancePut{Cancel: 99}, codes.NotFound, ""},
		"no such job":                       {command.JobStop{Job: 99}, codes.NotFound, ""},
	}
	base := newSim(t)
	base.must(t, base.user("root"), command.UserPut{Name: "ben", UID: uid(1001)})
	base.must(t, base.user("root"), command.TokenPut{User: "ada", Name: "x", Hash: "h"})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &sim{w: base.w, now: base.now}
			_, err := s.do(s.user("root"), tt.cmd)
			f, ok := err.(*fault.Error)
			if !ok || f.Code != tt.code {
				t.Fatalf("got %v, want %s", err, tt.code)
			}
			field := ""
			if len(f.Fields) > 0 {
				field = f.Fields[0].Path
			}
			if field != tt.field || s.w != base.w {
				t.Errorf("field %q of %q, want %q", field, f.Message, tt.field)
			}
		})
	}
}

// The account tree is at most as deep as what looks through it.
func TestTreeDepth(t *testing.T) {
	s := newSim(t)
	parent := ""
	for n := 0; ; n++ {
		name := "d" + strings.Repeat("x", n)
		if _, err := s.do(s.user("root"), command.AccountPut{Create: true, Name: name, Parent: parent}); err != nil {
			if fault.Of(err) != codes.Invalid || n != 32 {
				t.Fatalf("%d deep: %v", n, err)
			}
			break
		}
		parent = name
	}
	s.must(t, s.user("root"), command.MemberPut{Account: "d", User: "ada", Role: "manager"})
	a, _ := s.w.Tenancy.Account(parent)
	if got := s.w.Tenancy.Role(2, a.ID, s.now); got.String() != "manager" {
		t.Errorf("the deepest account doesn't see its root's manager: %q", got)
	}
}

// A uid means one user, also after it was bound anew.
func TestUIDs(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	one, two := int64(1001), int64(1002)
	s.must(t, root, command.UserPut{Name: "ada", UID: &one, Warning: text("reused")})
	s.must(t, root, command.UserPut{Name: "ada", UID: &two})
	s.must(t, root, command.UserPut{Name: "ben", UID: &one})
	for uid, want := range map[int64]string{one: "ben", two: "ada", -1: "", 7: ""} {
		if u, ok := s.w.Tenancy.UserOfUID(uid); u.Name != want || ok != (want != "") {
			t.Errorf("uid %d is %q", uid, u.Name)
		}
	}
	if u, _ := s.w.Tenancy.User("ada"); u.Warning != "" {
		t.Error("bound anew, and still warned of")
	}
}

// A revoked token authenticates no more; its id isn't given out again.
func TestTokens(t *testing.T) {
	s := newSim(t)
	ada := s.user("ada")
	s.must(t, ada, command.TokenPut{User: "ada", Name: "x", Hash: "h", Expires: s.now + hour})
	row, ok := s.w.Tenancy.TokenOfHash("h")
	if !ok || !row.Usable(s.now+hour-1) || row.Usable(s.now+hour) {
		t.Errorf("%+v", row)
	}
	s.must(t, ada, command.TokenRevoke{User: "ada", Token: row.ID})
	if _, ok := s.w.Tenancy.TokenOfHash("h"); ok || s.w.Tenancy.NextToken() != row.ID+1 {
		t.Error("it was revoked")
	}
}

// A limit for the same scope replaces the one before; the same inventory, drain
// and settings again make no row.
func TestSameAgain(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.LimitPut{Account: "nlp", Resource: "gpu", Max: 3000})
	s.must(t, root, command.LimitPut{Account: "nlp", Resource: "gpu", Max: 2000})
	if n := s.w.Limits.Limits.Len(); n != 1 {
		t.Errorf("%d limits", n)
	}
	seq := s.w.Seq
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	s.must(t, system, command.TilesDue{})
	s.must(t, system, command.Contact{Lost: true})
	s.must(t, system, command.Meter{})
	if s.w.Seq != seq {
		t.Errorf("%d rows of nothing", s.w.Seq-seq)
	}
}

// Draining and maintenance move the payer of idle devices; what runs goes on and
// is paid by its user.
func TestDrainMovesIdleDevicesOnly(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	j := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
	s.must(t, root, command.NodeDrain{Node: "gpu1", Reason: "fans"})
	causes := map[ledger.Cause]int{}
	for _, tile := range s.w.Ledger.Tiles.All() {
		causes[tile.Cause]++
	}
	if diff := cmp.Diff(map[ledger.Cause]int{ledger.CauseUsed: 1, ledger.CauseDrained: 3}, causes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	s.now += hour
	s.must(t, root, command.NodeDrain{Node: "gpu1", Resume: true})
	if waste := s.w.Ledger.Balance(ledger.Waste(ledger.CauseDrained)); waste != 3*money.Credit {
		t.Errorf("three drained device hours cost %s", waste)
	}
	if n, _ := s.w.Placement.Nodes.Get("gpu1"); n.Drained || n.Why != "" {
		t.Errorf("%+v", n)
	}
}

// A manager's account below his own pays like that one: he can't make himself one
// that never runs out. An admin may.
func TestBillingOfANewAccount(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("root"), command.AccountPut{Create: true, Name: "lab", Billing: text("enforce")})
	s.must(t, s.user("root"), command.MemberPut{Account: "lab", User: "ada", Role: "manager"})
	for name, by := range map[string]string{"course": "ada", "pilot": "root"} {
		s.must(t, s.user(by), command.AccountPut{Create: true, Name: name, Parent: "lab"})
	}
	if _, err := s.do(s.user("ada"), command.AccountPut{Create: true, Name: "free", Parent: "lab", Billing: text("showback")}); fault.Of(err) != codes.Denied {
		t.Errorf("a manager's own billing: %v", err)
	}
	for name, want := range map[string]string{"course": "enforce", "pilot": "showback"} {
		if a, _ := s.w.Tenancy.Account(name); string(a.Billing) != want {
			t.Errorf("%s is billed %s, want %s", name, a.Billing, want)
		}
	}
}
