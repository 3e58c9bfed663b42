package httpapi

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
)

// A share is set, shown to those whom it concerns, and removed; who has borrowed is named
// to those who may know.
func TestShares(t *testing.T) {
	h := newHarness(t)
	h.as("root", command.AccountPut{Create: true, Name: "bio"})
	set := func(s v1.Share) v1.ShareUse {
		s.Partition, s.Resource = "main", "gpu"
		return get[v1.ShareUse](h, 200, request{method: "POST", path: "/v1/shares", user: "olga", body: s})
	}
	h.start(h.submit("ada"))
	h.start(h.submit("ada"))
	set(v1.Share{Account: "bio", Guaranteed: "3"})
	got := set(v1.Share{Account: "nlp", Guaranteed: "1", Borrow: "0", Weight: 2})
	if got.Used != "2" || got.Borrowed != "1" || got.Over != "1" || got.Free != "0" || got.By != "olga" || got.Weight != 2 {
		t.Errorf("%+v", got)
	}
	for user, want := range map[string][]v1.ShareBorrower{"olga": {{Account: "nlp", Borrowed: "1"}}, "zoe": {{Borrowed: "1"}}} {
		h.as("root", command.MemberPut{Account: "bio", User: "zoe", Role: "member"})
		list := get[v1.Page[v1.ShareUse]](h, 200, request{method: "GET", path: "/v1/shares?account=bio&partition=main", user: user}).Items
		if len(list) != 1 || !cmp.Equal(list[0].Borrowers, want) || list[0].Free != "2" {
			t.Errorf("%s sees %+v", user, list)
		}
	}
	list := get[v1.Page[v1.LimitUse]](h, 200, request{method: "GET", path: "/v1/limits?account=nlp&partition=main", user: "ada"}).Items
	if len(list) == 0 || list[0].From != "share of account nlp in partition main" || list[0].Max != "1" || list[0].Over != "1" || !list[0].Tightest {
		t.Errorf("limits %+v", list)
	}
	get[v1.Problem](h, 422, request{method: "POST", path: "/v1/shares", user: "olga", body: v1.Share{Account: "nlp", Partition: "main", Resource: "gpu", Guaranteed: "x"}})
	p := get[v1.Problem](h, 409, request{method: "POST", path: "/v1/shares", user: "olga", body: v1.Share{Account: "nlp", Partition: "main", Resource: "gpu", Guaranteed: "2"}})
	if p.Detail != "5 gpu would be guaranteed together (nlp 2, bio 3), and partition main has 4" && p.Detail != "5 gpu would be guaranteed together (bio 3, nlp 2), and partition main has 4" {
		t.Errorf("%q", p.Detail)
	}
	h.send(request{method: "DELETE", path: "/v1/shares/" + got.ID, user: "olga"})
	if list := get[v1.Page[v1.ShareUse]](h, 200, request{method: "GET", path: "/v1/shares?account=nlp", user: "ada"}).Items; len(list) != 0 {
		t.Errorf("after its removal: %+v", list)
	}
}

// However many are started at once, a share's limit holds.
func TestAShareHolds(t *testing.T) {
	h := newHarness(t)
	get[v1.ShareUse](h, 200, request{method: "POST", path: "/v1/shares", user: "olga", body: v1.Share{Account: "nlp", Partition: "main", Resource: "gpu", Guaranteed: "1", Limit: "2"}})
	const crowd = 50
	spec := parsed(t, h)
	spec.CPU, spec.Mem = 1000, 1<<30
	var jobs []id.Job
	for range crowd {
		jobs = append(jobs, id.Job(len(jobs)+1))
		h.as("ada", command.Submit{Spec: spec})
	}
	var all sync.WaitGroup
	for _, k := range jobs {
		all.Go(func() { h.system(command.JobStart{Job: k, Image: "sha256:1"}) })
	}
	all.Wait()
	if n := h.seq.World().Workload.Active.Len(); n != 2 {
		t.Errorf("%d jobs have a device, the share allows 2", n)
	}
}
