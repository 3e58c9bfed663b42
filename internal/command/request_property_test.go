package command_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/world"
)

// asks is what the oracle remembers of requests: who asked for what, and whether it is over.
type asks struct {
	*people
	t    *rapid.T
	made map[id.Request]*asked
}

type asked struct {
	who    id.User
	name   string
	wish   approval.Wish
	until  int64
	over   bool
	effect int
}

var askers = []string{"ada", "ben", "the-operator", "the-auditor", "the-user", "root"}

// direct is the command that does what is asked for, without any request.
func (a *asks) direct(x *asked) world.Command {
	switch {
	case x.wish.Join != nil:
		return command.MemberPut{Account: x.wish.Join.Account, User: x.name, Role: x.wish.Join.Role}
	case x.wish.Credits != nil:
		return command.GrantGive{Account: x.wish.Credits.Account, Amount: x.wish.Credits.Amount, Source: "DFG-9"}
	case x.wish.Transfer != nil:
		return command.GrantTransfer{From: x.wish.Transfer.From, To: x.wish.Transfer.To, Amount: x.wish.Transfer.Amount}
	}
	switch y := x.wish; {
	case y.Wall != nil:
		return command.JobExtend{Job: y.Wall.Job, Time: y.Wall.Time}
	case y.Reservation != nil:
		r := y.Reservation
		return command.ReservationPut{Name: r.Name, Accounts: r.Accounts, Count: r.Count, CPU: r.CPU, Mem: r.Mem, GPU: r.GPU, From: r.From, Length: r.Length}
	case y.Asset != nil:
		f := y.Asset
		return command.FolderPut{Account: f.Account, Name: f.Folder, Path: "/srv/" + f.Owner, ReadOnly: true}
	}
	l := x.wish.Limit
	return command.LimitPut{Account: l.Account, Resource: l.Resource, Max: l.Max}
}

func (a *asks) wish(t *rapid.T) approval.Wish {
	accounts := []string{"nlp", "vision", "a", "b", "c", "absent"}
	account := rapid.SampledFrom(accounts).Draw(t, "of account")
	amount := money.Micros(rapid.Int64Range(-1, int64(300*money.Credit)).Draw(t, "amount"))
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return joinWish(account, rapid.SampledFrom(ranks[1:]).Draw(t, "to be"))
	case 1:
		return creditsWish(account, amount)
	case 2:
		return transferWish(account, rapid.SampledFrom(accounts).Draw(t, "to"), amount)
	case 3:
		return wallWish(rapid.SampledFrom([]id.Job{1, 2, 3}).Draw(t, "job"), rapid.Int64Range(0, 30).Draw(t, "hours")*hour)
	case 4:
		r := a.bookWish(account)
		r.Reservation.Name = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name")
		r.Reservation.From = a.now + rapid.Int64Range(0, 100).Draw(t, "from")*hour
		return r
	case 5:
		return folderWish(account, "data", rapid.SampledFrom(accounts).Draw(t, "owner"))
	}
	return limitWish(account, rapid.Int64Range(0, 4).Draw(t, "max")*1000)
}

func (a *asks) act() {
	t := a.t
	a.now += rapid.Int64Range(0, 40*hour).Draw(t, "later")
	user := rapid.SampledFrom(askers).Draw(t, "user")
	p := a.user(user)
	open := rapid.SampledFrom(append(a.keys(), 999)).Draw(t, "request")
	switch rapid.IntRange(0, 6).Draw(t, "act") {
	case 0, 1, 2:
		wish := a.wish(t)
		if got, err := a.do(p, command.RequestMake{Wish: wish}); err == nil {
			r := got.(approval.Request)
			a.made[r.ID] = &asked{who: id.User(p.User), name: user, wish: wish, until: r.Expires}
		}
	case 3, 4:
		a.approve(p, open)
	case 5:
		x := a.made[open]
		if x != nil {
			beside := &sim{w: a.w.Copy(), now: a.now}
			if _, directly := beside.do(p, a.direct(x)); fault.Of(directly) == codes.Denied {
				if _, err := a.do(p, command.RequestReject{Request: open}); err == nil {
					t.Fatalf("%s rejects request %d, and may not do it: %v", user, open, directly)
				}
			}
		}
		_, err := a.do(p, command.RequestReject{Request: open})
		if err == nil && (x == nil || x.over || a.now >= x.until || x.who == id.User(p.User)) {
			t.Fatalf("%s rejects request %d", user, open)
		}
		if err == nil {
			x.over = true
		}
	case 6:
		x := a.made[open]
		_, err := a.do(p, command.RequestWithdraw{Request: open})
		if err == nil && (x == nil || x.over || a.now >= x.until || x.who != id.User(p.User)) {
			t.Fatalf("%s withdraws request %d", user, open)
		}
		if err == nil {
			x.over = true
		}
	}
}

// approve has somebody approve a request, and compares what comes of it with what the direct
// command would have brought about for him.
func (a *asks) approve(p access.Principal, k id.Request) {
	x, was, now := a.made[k], a.w, a.now
	_, err := a.do(p, command.RequestApprove{Request: k, Source: map[bool]string{true: "DFG-9"}[x != nil && x.wish.Credits != nil]})
	if x == nil {
		if err == nil {
			a.t.Fatalf("request %d isn't there", k)
		}
		return
	}
	beside := &sim{w: was.Copy(), now: now}
	_, directly := beside.do(p, a.direct(x))
	current, _ := was.Tenancy.Users.Get(x.who)
	may := !x.over && now < x.until && x.who != id.User(p.User) && current.Barred(now) == ""
	switch {
	case err == nil && !may:
		a.t.Fatalf("%s approves request %d of %s, which is over, his own or of nobody any more", p.Name, k, x.name)
	case err == nil && directly != nil && x.wish.Asset == nil && !(x.wish.Transfer != nil && was.MayTransfer(p, a.account(was, x.wish.Transfer.From))):
		a.t.Fatalf("%s approves request %d, and may not do it: %v", p.Name, k, directly)
	case err != nil && (a.others(a.w) != a.others(was) || rolesOf(a.w) != rolesOf(was) || a.w.Ledger.Grants.Len() != was.Ledger.Grants.Len() || a.w.Limits.Limits.Len() != was.Limits.Limits.Len()):
		a.t.Fatalf("request %d isn't approved (%v), and something has changed", k, err)
	case err == nil:
		x.over = true
		x.effect++
		if directly == nil && (rolesOf(a.w) != rolesOf(beside.w) || !reflect.DeepEqual(balances(a.w), balances(beside.w)) || limitsOf(a.w) != limitsOf(beside.w) || a.others(a.w) != a.others(beside.w)) {
			a.t.Fatalf("request %d: %+v does something else than %+v", k, x.wish, a.direct(x))
		}
	}
	if x.effect > 1 {
		a.t.Fatalf("request %d is done %d times", k, x.effect)
	}
}

// others is what requests about jobs, windows and folders change.
func (a *asks) others(w *world.World) string {
	out := ""
	for k, j := range w.Workload.Jobs.All() {
		out += fmt.Sprint(k, j.Spec.Time, j.Deposit, j.Attempt.Until, " ")
	}
	for _, r := range w.Placement.Reservations.All() {
		out += fmt.Sprint(r.Name, r.Accounts, r.Payer, r.From, r.Length, " ")
	}
	for _, f := range w.Assets.Folders() {
		out += fmt.Sprint(f.Account, f.Name, f.Path, f.Target, f.ReadOnly, " ")
	}
	return out
}

func (a *asks) account(w *world.World, name string) id.Account {
	row, _ := w.Tenancy.Account(name)
	return row.ID
}

func (a *asks) keys() []id.Request {
	var out []id.Request
	for k := range a.made {
		out = append(out, k)
	}
	for i := range out { // in order, so that a seed shows the same again
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

func rolesOf(w *world.World) string {
	out := ""
	for a := range w.Tenancy.Accounts.All() {
		for _, m := range w.Tenancy.Members(a) {
			out += m.Role.String() + string(rune('0'+a)) + string(rune('0'+m.User)) + " "
		}
	}
	return out
}

func limitsOf(w *world.World) int64 {
	var sum int64
	for k, l := range w.Limits.Limits.All() {
		sum += int64(k) * (l.Max + 1)
	}
	return sum
}

func balances(w *world.World) map[string]money.Micros {
	out := map[string]money.Micros{}
	for acc, b := range w.Ledger.Balances {
		out[string(acc)] = b
	}
	return out
}

// Whoever asks for whatever, and whatever becomes of people and accounts meanwhile: a request is
// done at most once, by somebody else who may do it himself, and does just that.
func TestRequestsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &asks{people: newPeople(t), t: t, made: map[id.Request]*asked{}}
		a.users["the-auditor"] = person{platform: "auditor"}
		a.run(t, example(), true)
		for _, name := range []string{"nlp", "vision", "a"} {
			a.must(t, system, command.FolderPut{Account: name, Name: "data", Path: "/srv/" + name})
		}
		for range rapid.IntRange(5, 40).Draw(t, "acts") {
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				a.step(t)
			}
			a.act()
		}
	})
}
