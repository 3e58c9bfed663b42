package httpapi

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
)

func join(account string) v1.NewRequest {
	return v1.NewRequest{RequestWish: v1.RequestWish{Join: &v1.JoinWish{Account: account}}, Message: "please"}
}

// Who has left an account sees what he asked for, and nothing of how things are there now.
func TestARequestOfWhoHasLeft(t *testing.T) {
	h := newHarness(t)
	ada := h.client("ada")
	for what, wish := range map[string]v1.RequestWish{
		"credits": {Credits: &v1.CreditsWish{Account: "nlp", Amount: "5"}},
		"limit":   {Limit: &v1.Limit{Account: "nlp", Resource: "gpu", Max: "3"}},
	} {
		h.as("root", command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
		made, err := ada.MakeRequest(t.Context(), v1.NewRequest{RequestWish: wish})
		if err != nil || len(made.Changes) != 1 {
			t.Fatalf("%s: %+v, %v", what, made, err)
		}
		h.as("root", command.MemberPut{Account: "nlp", User: "ada"})
		if seen, err := ada.Request(t.Context(), made.ID); err != nil || seen.Asks != made.Asks || len(seen.Changes) != 0 || len(seen.Deciders) != 0 {
			t.Errorf("%s: %+v, %v", what, seen, err)
		}
	}
}

// A request as it is made, listed, repeated, shown, decided and seen by others.
func TestRequests(t *testing.T) {
	h := newHarness(t)
	zoe, mia, ben := h.client("zoe"), h.client("mia"), h.client("ben")
	made, err := zoe.MakeRequest(t.Context(), join("nlp"), v1.Key("a"))
	if err != nil {
		t.Fatal(err)
	}
	if made.State != "open" || made.Kind != "join" || made.Join.Role != "member" || made.Asks != "zoe asks to be member of nlp" || made.Mine || made.Deciders != nil || !strings.Contains(made.Decides, "manager of nlp") ||
		made.Expires.Sub(made.Created) != 14*24*time.Hour {
		t.Errorf("made: %+v", made)
	}
	again, err := zoe.MakeRequest(t.Context(), join("nlp"), v1.Key("a"))
	if diff := cmp.Diff(made, again); err != nil || diff != "" {
		t.Errorf("repeated: %v\n%s", err, diff)
	}
	for who, want := range map[*v1.Client]map[string]int{
		zoe: {"": 1, "mine": 1, "inbox": 0, "all": 1}, mia: {"": 1, "mine": 0, "inbox": 1, "all": 1}, ben: {"": 0, "all": 0}, h.client("otto"): {"": 0, "all": 1},
	} {
		for whose, n := range want {
			if list, err := v1.Collect(who.Requests(t.Context(), v1.RequestQuery{Whose: whose})); err != nil || len(list) != n {
				t.Errorf("%s: %+v, %v, want %d", whose, list, err, n)
			}
		}
	}
	seen, err := mia.Request(t.Context(), made.ID)
	if err != nil || !seen.Mine || strings.Join(seen.Deciders, " ") != "root mia" && strings.Join(seen.Deciders, " ") != "mia root" || len(seen.Changes) != 1 || seen.Changes[0] != (v1.RequestChange{What: "role of zoe in nlp", Before: "none", After: "member"}) {
		t.Errorf("as its decider sees it: %+v, %v", seen, err)
	}
	if _, err := ben.Request(t.Context(), made.ID); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("as somebody else: %v", err)
	}
	done, err := mia.ApproveRequest(t.Context(), made.ID, v1.RequestApproval{RequestDecision: v1.RequestDecision{Words: "welcome"}}, v1.Key("b"))
	if err != nil || done.State != "approved" || done.By != "mia" || done.Words != "welcome" || done.Decided == nil {
		t.Errorf("approved: %+v, %v", done, err)
	}
	if repeated, err := mia.ApproveRequest(t.Context(), made.ID, v1.RequestApproval{RequestDecision: v1.RequestDecision{Words: "welcome"}}, v1.Key("b")); err != nil || repeated.State != "approved" {
		t.Errorf("repeated: %+v, %v", repeated, err)
	}
	if _, err := mia.ApproveRequest(t.Context(), made.ID, v1.RequestApproval{}); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("approved once more: %v", err)
	}
	if a, err := zoe.Account(t.Context(), "nlp"); err != nil || a.Name != "nlp" {
		t.Errorf("zoe isn't in: %+v, %v", a, err)
	}
	for state, n := range map[string]int{"open": 0, "approved": 1, "rejected": 0, "all": 1} {
		if list, err := v1.Collect(zoe.Requests(t.Context(), v1.RequestQuery{State: state, Kind: "join", Account: "nlp", Limit: 1})); err != nil || len(list) != n {
			t.Errorf("%s: %+v, %v", state, list, err)
		}
	}
	for field, q := range map[string]v1.RequestQuery{"whose": {Whose: "x"}, "state": {State: "x"}, "kind": {Kind: "x"}} {
		if _, err := v1.Collect(zoe.Requests(t.Context(), q)); v1.CodeOf(err) != codes.Invalid || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Many requests come in pages, each once.
func TestRequestsInPages(t *testing.T) {
	h := newHarness(t)
	zoe := h.client("zoe")
	for i := range 25 {
		if _, err := zoe.MakeRequest(t.Context(), join(fmt.Sprint("lab", i))); err != nil {
			t.Fatal(err)
		}
	}
	list, err := v1.Collect(zoe.Requests(t.Context(), v1.RequestQuery{Limit: 4}))
	if err != nil || len(list) != 25 {
		t.Fatalf("%d, %v", len(list), err)
	}
	for i, r := range list {
		if r.ID != fmt.Sprint(25-i) {
			t.Errorf("place %d has %s", i, r.ID)
		}
	}
}

// Whoever asks about an account that he can't see is answered, shown and told as of one that
// isn't there, until somebody answers.
func TestRequestsTellNothing(t *testing.T) {
	h := newHarness(t)
	running, _ := id.ParseJob(hide(h))
	zoe, ada := h.client("zoe"), h.client("ada")
	as := func(r *v1.Request, name string) string {
		return strings.NewReplacer(name, "NAME", "ID:"+r.ID, "ID").Replace(fmt.Sprintf("%+v %+v %+v", *r, r.Join, r.Transfer))
	}
	shown := func(c *v1.Client, name string, in v1.NewRequest) string {
		t.Helper()
		r, err := c.MakeRequest(t.Context(), in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := c.Request(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		got.Created, got.Expires, got.Token, got.Join, got.Transfer, got.Asset, got.Reservation = time.Time{}, time.Time{}, nil, nil, nil, nil, nil
		return as(got, name)
	}
	give := func(name string) v1.NewRequest {
		return v1.NewRequest{RequestWish: v1.RequestWish{Transfer: &v1.TransferWish{From: name, To: "nlp", Amount: "1"}}}
	}
	if hidden, absent := shown(zoe, "canary-lab", join("canary-lab")), shown(zoe, "absent-lab", join("absent-lab")); hidden != absent {
		t.Errorf("to join:\nhidden %s\nabsent %s", hidden, absent)
	}
	if hidden, absent := shown(ada, "canary-lab", give("canary-lab")), shown(ada, "absent-lab", give("absent-lab")); hidden != absent {
		t.Errorf("its credits:\nhidden %s\nabsent %s", hidden, absent)
	}
	h.as("root", command.FolderPut{Account: "canary-lab", Name: "data", Path: "/srv/canary"})
	h.as("canary-user", command.ImageSave{Job: running, Step: 1, Name: "env:v1"})
	later := time.Unix(0, h.now.Load()+50*hour)
	asks := func(x v1.AssetWish) v1.NewRequest {
		x.Account = "nlp"
		return v1.NewRequest{RequestWish: v1.RequestWish{Asset: &x}}
	}
	for what, ask := range map[string]func(name string) v1.NewRequest{
		"a window's name": func(name string) v1.NewRequest {
			return v1.NewRequest{RequestWish: v1.RequestWish{Reservation: &v1.NewReservation{Name: name + "-class", Accounts: []string{"nlp"}, GPU: "1", From: &later, Length: "1h"}}}
		},
		"an image": func(name string) v1.NewRequest {
			return asks(v1.AssetWish{Image: "croft.local/" + name + "-user/env:v1"})
		},
		"a folder's account": func(name string) v1.NewRequest { return asks(v1.AssetWish{Folder: "data", Owner: name + "-lab"}) },
	} {
		if hidden, absent := shown(ada, "canary", ask("canary")), shown(ada, "absent", ask("absent")); hidden != absent {
			t.Errorf("%s:\nhidden %s\nabsent %s", what, hidden, absent)
		}
	}
	for _, user := range []string{"zoe", "ada"} {
		a := h.send(request{method: "GET", path: "/v1/events?limit=1000", user: user})
		for _, line := range strings.Split(string(a.body), `{"seq"`) {
			if strings.Contains(line, "request.create") && strings.Contains(line, `"account":"canary`) {
				t.Errorf("an event says that there is one: %s", line)
			}
		}
	}
}

// Two who approve at once, and a hundred who do, bring about one effect.
func TestApprovedOnce(t *testing.T) {
	h := newHarness(t)
	h.as("root", command.GrantGive{Account: "nlp", Amount: 100 * money.Credit, Source: "x"})
	r, err := h.client("ada").MakeRequest(t.Context(), v1.NewRequest{RequestWish: v1.RequestWish{Transfer: &v1.TransferWish{From: "nlp", To: "vision", Amount: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	before := h.seq.World().Ledger.Grants.Len()
	var wg sync.WaitGroup
	var done, late atomic.Int64
	for i := range 100 {
		c := h.client([]string{"mia", "root"}[i%2])
		wg.Go(func() {
			switch _, err := c.ApproveRequest(t.Context(), r.ID, v1.RequestApproval{}); v1.CodeOf(err) {
			case "":
				done.Add(1)
			case codes.Conflict:
				late.Add(1)
			}
		})
	}
	wg.Wait()
	if made := h.seq.World().Ledger.Grants.Len() - before; done.Load() != 1 || late.Load() != 99 || made != 1 {
		t.Errorf("approved %d times, too late %d times, %d grants", done.Load(), late.Load(), made)
	}
}

// An approval that can't take effect says why, to whoever repeats it too, and leaves the request.
func TestApprovalFails(t *testing.T) {
	h := newHarness(t)
	ada, mia := h.client("ada"), h.client("mia")
	r, err := ada.MakeRequest(t.Context(), v1.NewRequest{RequestWish: v1.RequestWish{Transfer: &v1.TransferWish{From: "nlp", To: "nowhere", Amount: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := mia.ApproveRequest(t.Context(), r.ID, v1.RequestApproval{}, v1.Key("x")); err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("%v", err)
		}
	}
	if got, err := mia.Request(t.Context(), r.ID); err != nil || got.State != "open" || !strings.Contains(got.Failed, "nowhere") {
		t.Errorf("its decider sees %+v, %v", got, err)
	}
	if got, err := ada.Request(t.Context(), r.ID); err != nil || got.Failed != "it could not be approved" {
		t.Errorf("whoever asked sees %+v, %v", got, err)
	}
	if got, err := ada.WithdrawRequest(t.Context(), r.ID); err != nil || got.State != "withdrawn" || got.By != "ada" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ada.RemindRequest(t.Context(), r.ID); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("reminded of what is withdrawn: %v", err)
	}
}

// Credits that go to another account, given directly, are said in both accounts' grants.
func TestTransferGrant(t *testing.T) {
	h := newHarness(t)
	mia := h.client("mia")
	h.as("root", command.AccountPut{Create: true, Name: "seminar", Parent: "nlp"})
	var out [2]*v1.Page[v1.Grant]
	for i := range out {
		var err error
		if out[i], err = mia.TransferGrant(t.Context(), v1.GrantTransfer{From: "nlp", To: "seminar", Amount: "2.5"}, v1.Key("a")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(out[0], out[1]); diff != "" || len(out[0].Items) != 1 || out[0].Items[0].Amount != "2.500" || out[0].Items[0].Source != "DFG-123" {
		t.Errorf("%+v, repeated:\n%s", out[0], diff)
	}
	grants, err := v1.Collect(mia.Grants(t.Context(), "nlp"))
	if err != nil || len(grants) != 1 || grants[0].Transferred != "2.500" || grants[0].Spent != "0.000" {
		t.Errorf("%+v, %v", grants, err)
	}
	for field, in := range map[string]v1.GrantTransfer{"amount": {From: "nlp", To: "seminar", Amount: "-1"}, "amount ": {From: "nlp", To: "seminar", Amount: "9223372036854.775807"}, "grant": {From: "nlp", To: "seminar", Amount: "1", Grant: "x"}, "grant ": {From: "nlp", To: "seminar", Amount: "1", Grant: "9"}, "to": {From: "nlp", To: "nlp", Amount: "1"}} {
		if _, err := mia.TransferGrant(t.Context(), in); v1.CodeOf(err) != codes.Invalid || !strings.Contains(err.Error(), strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := mia.TransferGrant(t.Context(), v1.GrantTransfer{From: "nlp", To: "seminar", Amount: "498"}); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("more than there is: %v", err)
	}
}
