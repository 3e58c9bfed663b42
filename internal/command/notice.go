package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// ContactPut says where a user is told things, and which; nil fields stay.
type ContactPut struct {
	User    string
	Address *string `json:",omitempty"` // of mail; "": none
	Wants   *string `json:",omitempty"` // words; "": as who hasn't said
}

// Kind is contact.set.
func (ContactPut) Kind() string { return "contact.set" }

// Decide sets it. An admin may set any address, a user one that the site allows.
func (c ContactPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, err := ownCredentials(w, at, c.User)
	if err != nil {
		return world.Outcome{}, err
	}
	old := w.Notices.Of(user.ID)
	row := old
	var bad fault.Fields
	if c.Address != nil {
		row.Address = *c.Address
		check := w.Site.Mail.Own
		if w.Can(at.Principal, access.UserRun, 0, 0) {
			check = notice.CheckAddress
		}
		if row.Address != "" {
			if err := check(row.Address); err != nil {
				bad.Add("address", "%v", err)
			}
		}
	}
	if c.Wants != nil {
		if row.Wants, err = notice.ParseWants(*c.Wants, notice.Words()); err != nil {
			bad.Add("mail", "%v", err)
		}
	}
	if err := bad.Err(); err != nil {
		return world.Outcome{}, err
	}
	if row == old {
		return world.Outcome{Result: row, Event: world.Event{Skip: true}}, nil
	}
	row.Changed = at.Now
	return world.Outcome{
		Changes: []world.Change{notice.ContactSet{Row: row}}, Result: row,
		Event: world.Event{Message: "notices of " + c.User},
	}, nil
}

// NoticeTest asks for a notice to oneself, to see whether they arrive.
type NoticeTest struct{}

// Kind is notice.test.
func (NoticeTest) Kind() string { return "notice.test" }

// Decide notes the wish: the notice is made of it as others are.
func (NoticeTest) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user := id.User(at.Principal.User)
	if !w.Can(at.Principal, access.TokenRun, user, 0) || user == 0 {
		return world.Outcome{}, fault.New(codes.Denied, "only a user is told things")
	}
	switch {
	case w.Site.Hooks.On() && len(w.Notices.HooksOf(user)) > 0:
	case !w.Site.Mail.On:
		return world.Outcome{}, fault.New(codes.Conflict, "this site sends no mail: its administrator sets notify.mail.host")
	case w.Notices.Of(user).Address == "":
		return world.Outcome{}, fault.New(codes.Conflict, "you have no address: croft notice address ADDRESS")
	}
	return world.Outcome{Event: world.Event{Message: "test of notices to " + at.Principal.Name}}, nil
}

// CreditsOver is the state of a CreditWarn that says that an overdraft begins to be used; of
// others it is how much of the credits is used up, in percent.
const CreditsOver = "overdraft"

// CreditWarn notes that so much of an account's credits is used up that its managers are
// told, or that there are more again. The server proposes it.
type CreditWarn struct{ Account id.Account }

// Kind is credit.warn.
func (CreditWarn) Kind() string { return "credit.warn" }

// Decide notes the level that the account is at now, if it is another.
func (c CreditWarn) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	row, change := CreditLevel(w, c.Account, at.Now)
	if !change {
		return skip, nil
	}
	given, left := credits(w, c.Account, at.Now)
	acc, _ := w.Tenancy.Accounts.Get(c.Account)
	row.Changed = at.Now
	state, text := fmt.Sprint(row.Percent), fmt.Sprintf("%s has credits again: %s of %s are left", acc.Name, left, given)
	switch was, _ := w.Notices.Levels.Get(c.Account); {
	case row.Over && !was.Over:
		state = CreditsOver
		text = fmt.Sprintf("the credits of %s are used up: %s of its overdraft of %s are used or set aside", acc.Name, w.Ledger.Overdrawn(acc.ID), acc.Overdraft)
	case row.Percent > was.Percent:
		text = fmt.Sprintf("%d %% of the credits of %s are used up or set aside: %s of %s are left", row.Percent, acc.Name, left, given)
	case was.Over && !row.Over:
		state = "0"
		text = fmt.Sprintf("%s uses nothing of its overdraft any more: %s of its credits of %s are left", acc.Name, left, given)
	}
	return world.Outcome{
		Changes: []world.Change{notice.LevelSet{Row: row}},
		Event:   world.Event{Account: c.Account, State: state, Message: text},
	}, nil
}

// CreditLevel is how much of an account's credits its managers are to be told is used up,
// at time now; change says that they were told something else before.
func CreditLevel(w *world.World, a id.Account, now int64) (row notice.Level, change bool) {
	was, _ := w.Notices.Levels.Get(a)
	was.Account, row = a, notice.Level{Account: a}
	acc, _ := w.Tenancy.Accounts.Get(a)
	if given, left := credits(w, a, now); given > 0 && acc.Billing != tenancy.BillingOff && acc.Retired == 0 {
		row.Percent, _ = was.Next(money.Percent(given-left, given))
	}
	row.Over = acc.Retired == 0 && w.Ledger.Overdrawn(a) > 0
	return row, row.Percent != was.Percent || row.Over != was.Over
}

// credits is what an account's own grants that may be spent came to, and what of it is
// neither spent nor set aside.
func credits(w *world.World, a id.Account, now int64) (given, left money.Micros) {
	for _, g := range w.Ledger.GrantsOf(a) {
		if !g.Usable(now) {
			continue
		}
		sum, err := given.Add(g.Own())
		if err != nil {
			return given, left // absurdly much: nobody needs to be told
		}
		given, left = sum, left+w.Ledger.Balance(ledger.OfGrant(g.ID))
	}
	return given, left
}
