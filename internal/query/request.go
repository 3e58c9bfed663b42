package query

import (
	"fmt"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
)

// RequestQuery selects requests.
type RequestQuery struct {
	Whose   string // "" or me, mine, inbox, all
	State   string // "": open
	Kind    string
	Account string
	Limit   int // items per page; 0: the default
	Cursor  string
}

// Requests lists requests that the caller may see, the newest first.
func (r *Reader) Requests(p access.Principal, q RequestQuery) (v1.Page[v1.Request], error) {
	out := v1.Page[v1.Request]{Items: []v1.Request{}}
	v := r.view(p)
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	filter := filterHash("requests", decimal(p.User), q.Whose, q.State, q.Kind, q.Account)
	from, err := parseCursor(q.Cursor, filter)
	if err != nil {
		return out, err
	}
	match, err := v.requestMatch(q)
	if err != nil {
		return out, err
	}
	before := v.w.Approvals.Next()
	if q.Cursor != "" {
		before = id.Request(from.ID)
	}
	for _, row := range v.w.Approvals.Requests.Back(before) {
		if !match(row) {
			continue
		}
		if len(out.Items) == size {
			out.Next = cursor{Filter: filter, ID: int64(row.ID) + 1}.encode()
			break
		}
		out.Items = append(out.Items, v.requestWire(row))
	}
	return out, nil
}

// requestMatch is what a question asks for, of what the caller may see.
func (v view) requestMatch(q RequestQuery) (func(approval.Request) bool, error) {
	var bad fault.Fields
	var account id.Account
	if q.Account != "" {
		a, err := v.accountNamed(q.Account)
		if err != nil {
			return nil, err
		}
		account = a.ID
	}
	whose, state := orWord(q.Whose, "me"), orWord(q.State, string(approval.Open))
	if !slices.Contains([]string{"me", "mine", "inbox", "all"}, whose) {
		bad.Add("whose", "must be me, mine, inbox or all")
	}
	if state != "all" && !slices.Contains(approval.Stages(), approval.Stage(state)) {
		bad.Add("state", "must be open, approved, rejected, withdrawn, expired or all")
	}
	if q.Kind != "" && !slices.Contains(approval.Kinds(), approval.Kind(q.Kind)) {
		bad.Add("kind", "must be one of %v", approval.Kinds())
	}
	return func(r approval.Request) bool {
		if state != "all" && v.requestState(r) != approval.Stage(state) || q.Kind != "" && r.Kind != approval.Kind(q.Kind) ||
			account != 0 && r.Account != account && r.Other != account || !v.w.SeesRequest(v.p, r) {
			return false
		}
		mine := r.User == v.self()
		inbox := v.w.MayDecide(v.p, r)
		switch whose {
		case "mine":
			return mine
		case "inbox":
			return inbox
		case "me":
			return mine || inbox
		}
		return true
	}, bad.Err()
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// requestState is that of a request now: one that is over is expired before the server has
// noted it.
func (v view) requestState(r approval.Request) approval.Stage {
	if r.State == approval.Open && !r.Pending(v.now) {
		return approval.Expired
	}
	return r.State
}

// Request is one request, with what it would change and who may decide it.
func (r *Reader) Request(p access.Principal, k id.Request) (v1.Request, error) {
	v := r.view(p)
	row, ok := v.w.Approvals.Requests.Get(k)
	if !ok || !v.w.SeesRequest(v.p, row) {
		return v1.Request{}, fault.NotFound("request", decimal(k))
	}
	out := v.requestWire(row)
	out.Changes = v.requestChanges(row)
	out.Decides = decides(row)
	if v.requestState(row) == approval.Open && v.knows(row) {
		for _, u := range v.w.Deciders(row, v.now) {
			out.Deciders = append(out.Deciders, v.user(u))
		}
	}
	return out, nil
}

// RequestMade finds the request that the caller made at a moment, for a repeated one.
func (r *Reader) RequestMade(p access.Principal, created int64) (made v1.Request, ok bool) {
	v := r.view(p)
	for k, row := range v.w.Approvals.Requests.All() {
		if row.User == v.self() && row.Created == created {
			out, err := r.Request(p, k)
			made, ok = out, err == nil
		}
	}
	return made, ok
}

// knows reports whether the caller may look into every account that a request is about: to
// others it says what was asked, and nothing of how things are there.
func (v view) knows(r approval.Request) bool {
	if r.Kind == approval.KindTransfer && (r.Other == 0 || !v.may(access.AccountRead, 0, r.Other)) {
		return false
	}
	if r.Kind == approval.KindAsset {
		return false // it may be nobody's to know of
	}
	if r.Account == 0 {
		return r.Kind == approval.KindLimit
	}
	return v.may(access.AccountRead, 0, r.Account)
}

func (v view) requestWire(r approval.Request) v1.Request {
	out := v1.Request{
		ID: decimal(r.ID), Kind: string(r.Kind), State: string(v.requestState(r)), User: v.user(r.User), Token: byToken(r.Token), Asks: v.w.Asks(r), Message: r.Message,
		RequestWish: v.wishWire(r), Created: at(r.Created), Expires: at(r.Expires), Reminded: moment(r.Reminded), Decided: moment(r.Decided), By: v.user(r.By), Words: r.Said,
	}
	if r.State == approval.Withdrawn {
		out.By = out.User
	}
	if out.Mine = out.State == string(approval.Open) && v.w.MayDecide(v.p, r); r.Failed != "" {
		out.Failed = "it could not be approved"
		if v.knows(r) || out.Mine {
			out.Failed = r.Failed
		}
	}
	return out
}

func (v view) wishWire(r approval.Request) v1.RequestWish {
	switch x := r.Wish; r.Kind {
	case approval.KindJoin:
		return v1.RequestWish{Join: &v1.JoinWish{Account: x.Join.Account, Role: x.Join.Role, Ends: moment(x.Join.Ends)}}
	case approval.KindCredits:
		c := x.Credits
		return v1.RequestWish{Credits: &v1.CreditsWish{Account: c.Account, Amount: c.Amount.String(), Source: c.Source, End: moment(c.End), Subtree: c.Subtree}}
	case approval.KindTransfer:
		t := v1.TransferWish{From: x.Transfer.From, To: x.Transfer.To, Amount: x.Transfer.Amount.String()}
		if x.Transfer.Grant != 0 {
			t.Grant = decimal(x.Transfer.Grant)
		}
		return v1.RequestWish{Transfer: &t}
	case approval.KindWall:
		return v1.RequestWish{Wall: &v1.WallWish{Job: x.Wall.Name, Time: spanWire(x.Wall.Time)}}
	case approval.KindReservation:
		return v1.RequestWish{Reservation: reservationWish(*x.Reservation)}
	case approval.KindAsset:
		return v1.RequestWish{Asset: &v1.AssetWish{Account: x.Asset.Account, Image: x.Asset.Image, Folder: x.Asset.Folder, Owner: x.Asset.Owner}}
	case approval.KindJob:
		return v1.RequestWish{Job: &v1.JobWish{Job: decimal(x.Job.Job), Cost: x.Job.Cost.String(), Above: x.Job.Above.String()}}
	default:
		l := x.Limit
		return v1.RequestWish{Limit: &v1.Limit{
			Account: l.Account, User: l.User, Partition: l.Partition, QoS: l.QoS, Resource: string(l.Resource), Max: v1.Quantity(limits.Format(l.Resource, l.Max)), Per: l.Per.String(),
		}}
	}
}

func reservationWish(x approval.Reservation) *v1.NewReservation {
	out := &v1.NewReservation{
		Name: x.Name, Partition: x.Partition, Accounts: x.Accounts, Users: x.Users, Payer: x.Payer, Count: x.Count, Model: x.Model, Where: x.Where, Nodes: x.Nodes,
		From: moment(x.From), To: moment(x.To), Every: placement.Repeat(x.Repeat).String(), Until: moment(x.Until), Join: x.Join, Each: x.Each, Images: x.Images, Reason: x.Reason,
		Length: spanWire(x.Length),
	}
	for _, q := range []struct {
		to *v1.Quantity
		r  limits.Resource
		n  int64
	}{{&out.CPU, limits.CPU, x.CPU}, {&out.Mem, limits.Mem, x.Mem}, {&out.GPU, limits.GPU, x.GPU}} {
		if q.n != 0 {
			*q.to = amount(q.r, q.n)
		}
	}
	return out
}

// decides says who may decide a request. It is the same whether there is such an account or
// not.
func decides(r approval.Request) string {
	switch x := r.Wish; r.Kind {
	case approval.KindJoin:
		least := access.Manager
		if x.Join.AsRole() == access.Owner {
			least = access.Owner
		}
		return fmt.Sprintf("whoever is at least %s of %s, or an admin", least, x.Join.Account)
	case approval.KindCredits:
		return "an admin"
	case approval.KindTransfer:
		return fmt.Sprintf("whoever is at least manager of %s, or an admin", x.Transfer.From)
	case approval.KindWall, approval.KindReservation:
		return "an operator"
	case approval.KindAsset:
		if x.Asset.Image != "" {
			return "whoever has the image, or an admin"
		}
		return "an operator"
	case approval.KindJob:
		return "whose token it is, himself"
	default:
		if x.Limit.Resource == limits.Credits {
			return fmt.Sprintf("whoever is at least manager of %s, or an operator", x.Limit.Account)
		}
		return "an operator"
	}
}

// requestChanges is what approving would change now.
func (v view) requestChanges(r approval.Request) []v1.RequestChange {
	if v.requestState(r) != approval.Open {
		return nil
	}
	if r.Kind != approval.KindJoin && !v.knows(r) {
		return nil
	}
	switch x := r.Wish; r.Kind {
	case approval.KindJoin:
		was := "none"
		if m, ok := v.w.Tenancy.Member(r.Account, r.User); ok && v.w.Tenancy.Role(r.User, r.Account, v.now) != access.NoRole {
			was = m.Role.String()
		}
		return []v1.RequestChange{{What: "role of " + v.user(r.User) + " in " + x.Join.Account, Before: was, After: x.Join.Role}}
	case approval.KindCredits:
		have := v.spendable(r.Account)
		return []v1.RequestChange{{What: "credits of " + x.Credits.Account, Before: have.String(), After: v.given(r.Account, x.Credits.Amount)}}
	case approval.KindTransfer:
		from, to := v.spendable(r.Account), v.spendable(r.Other)
		return []v1.RequestChange{
			{What: "credits of " + x.Transfer.From, Before: from.String(), After: (from - x.Transfer.Amount).String()},
			{What: "credits of " + x.Transfer.To, Before: to.String(), After: v.given(r.Other, x.Transfer.Amount)},
		}
	case approval.KindWall:
		j, ok := v.w.Workload.Jobs.Get(x.Wall.Job)
		if !ok {
			return nil
		}
		return []v1.RequestChange{{What: "time limit of job " + j.Name(), Before: string(spanWire(j.Spec.Time)), After: string(spanWire(x.Wall.Time))}}
	case approval.KindJob:
		return []v1.RequestChange{{What: "set aside for job " + decimal(x.Job.Job), Before: money.Micros(0).String(), After: "up to " + x.Job.Cost.String()}}
	case approval.KindReservation, approval.KindAsset:
		return nil // there is nothing of it before
	default:
		return v.limitChange(*x.Limit)
	}
}

// limitChange is the limit of a scope before and after.
func (v view) limitChange(x approval.Limit) []v1.RequestChange {
	sc := limits.Scope{Partition: x.Partition, QoS: x.QoS, User: x.Of}
	if x.User == limits.EachName {
		sc.User = limits.Each
	}
	if a, ok := v.w.Tenancy.Account(x.Account); ok {
		sc.Account = a.ID
	}
	was := "none"
	if l, ok := v.w.Limits.Find(sc, x.Resource, x.Per); ok {
		was = limits.Format(x.Resource, l.Max)
	}
	what := strings.TrimSpace(string(x.Resource) + " " + x.Per.String())
	return []v1.RequestChange{{What: "limit on " + what, Before: was, After: limits.Format(x.Resource, x.Max)}}
}

// spendable is what an account's own grants have now.
func (v view) spendable(a id.Account) money.Micros {
	return ledger.Available(v.w.Ledger.Sources([]id.Account{a}, v.now))
}

// given is what they have once the account is given so much, which repays what it owes.
func (v view) given(a id.Account, more money.Micros) string {
	n, err := v.spendable(a).Add(more)
	if err != nil {
		return "more than can be counted"
	}
	return (n - min(max(v.w.Ledger.Owed(a), 0), n)).String()
}
