package ledger

import (
	"strconv"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/table"
)

// Payer is whose money a posting is about.
type Payer struct {
	Job     id.Job
	Attempt int32
	Account id.Account
	User    id.User
	Token   id.Token // by which the job was submitted; 0: none
}

// Posting stamps transfers with their place in the log, and counts their ids.
type Posting struct {
	Seq  int64
	At   int64
	next id.Transfer

	moved table.Table[Account, money.Micros] // by what was posted so far
}

// NewPosting returns a stamp for one decision on s.
func (s *State) NewPosting(seq, at int64) *Posting {
	return &Posting{Seq: seq, At: at, next: s.NextTransfer()}
}

// transfer makes one posting; an amount of zero posts nothing.
func (p *Posting) transfer(from, to Account, amount money.Micros, kind Kind, who Payer) []Change {
	if amount <= 0 {
		return nil
	}
	t := Transfer{
		ID: p.next, Seq: p.Seq, At: p.At, From: from, To: to, Amount: amount, Kind: kind,
		Job: who.Job, Attempt: who.Attempt, Account: who.Account, User: who.User, Token: who.Token,
	}
	p.next++
	add(&p.moved, from, -amount)
	add(&p.moved, to, amount)
	return []Change{Posted{t}}
}

// Give posts a new grant: money from its source into the grant, and out of that into what its
// account owes.
func (p *Posting) Give(s *State, g Grant) []Change { return p.Renew(s, g, Grant{}, 0) }

// Renew posts a grant with, in addition to its amount, what is carried over out of the one
// before.
func (p *Posting) Renew(s *State, g, before Grant, carried money.Micros) []Change {
	own, who := g.Amount, Payer{Account: g.Account, User: g.By}
	g.Amount += carried
	out := append([]Change{GrantSet{g}}, p.transfer(Funding(g.Source), OfGrant(g.ID), own, KindGrant, who)...)
	if carried > 0 {
		before.Carried += carried
		out = append(append(out, GrantSet{before}), p.transfer(OfGrant(before.ID), OfGrant(g.ID), carried, KindCarry, who)...)
	}
	return append(out, p.settle(s, g.Account, 0, g)...)
}

// Pass moves what a new grant is of out of another account's grant. Each account's postings
// say what it has been given in all: the one gives it up to where it came from, and from there
// it is given to the other.
func (p *Posting) Pass(s *State, from, to Grant) []Change {
	from.Passed += to.Amount
	out := append([]Change{GrantSet{from}}, p.transfer(OfGrant(from.ID), Funding(from.Source), to.Amount, KindGiveUp, Payer{Account: from.Account, User: to.By})...)
	return append(out, p.Give(s, to)...)
}

// Part is what one source contributes to a deposit.
type Part struct {
	Source Account
	Amount money.Micros
}

// Available is what the sources have together.
func Available(sources []Source) money.Micros {
	var sum money.Micros
	for _, s := range sources {
		sum += s.Available
	}
	return sum
}

// Split takes need out of the sources in order. What they lack is short; with
// unfunded (showback) it is taken from that account, which may go below zero.
func Split(sources []Source, need money.Micros, unfunded Account) (parts []Part, short money.Micros) {
	for _, s := range sources {
		if need == 0 {
			return parts, 0
		}
		take := min(need, s.Available)
		parts = append(parts, Part{s.Account, take})
		need -= take
	}
	if need > 0 && unfunded != "" {
		return append(parts, Part{unfunded, need}), 0
	}
	return parts, need
}

// Deposit sets parts aside for a job.
func (p *Posting) Deposit(parts []Part, who Payer) []Change {
	var out []Change
	for _, part := range parts {
		out = append(out, p.transfer(part.Source, Deposit(who.Job, part.Source), part.Amount, KindDeposit, who)...)
	}
	return out
}

// Hand moves parts of one job's deposit into another's.
func (p *Posting) Hand(parts []Part, from, to Payer) []Change {
	var out []Change
	for _, part := range parts {
		out = append(out, p.transfer(Deposit(from.Job, part.Source), Deposit(to.Job, part.Source), part.Amount, KindDeposit, to)...)
	}
	return out
}

// Charge moves amount out of a job's deposit to what its account has spent, parts
// in order. left is what remains of each part. What the deposit lacks isn't
// charged: it is returned as over, for the platform to bear.
func (p *Posting) Charge(parts []Part, amount money.Micros, who Payer) (out []Change, left []Part, over money.Micros) {
	for _, part := range parts {
		take := min(part.Amount, amount)
		out = append(out, p.transfer(Deposit(who.Job, part.Source), Spent(who.Account), take, KindCharge, who)...)
		amount -= take
		left = append(left, Part{part.Source, part.Amount - take})
	}
	return out, left, amount
}

// Spend sets parts aside for what isn't a job, and charges them at once.
func (p *Posting) Spend(parts []Part, who Payer) []Change {
	out := p.Deposit(parts, who)
	charge, _, _ := p.Charge(parts, sum(parts), who)
	return append(out, charge...)
}

func sum(parts []Part) money.Micros {
	var n money.Micros
	for _, p := range parts {
		n += p.Amount
	}
	return n
}

// Correct takes amount back out of what was charged, into the deposit: the span
// turned out to be shorter than what was posted. paid is what each part was
// charged; the last to pay is corrected first.
func (p *Posting) Correct(paid []Part, amount money.Micros, who Payer) (out []Change, back []Part) {
	back = make([]Part, len(paid))
	for i := len(paid) - 1; i >= 0; i-- {
		take := min(paid[i].Amount, amount)
		back[i] = Part{paid[i].Source, take}
		out = append(out, p.transfer(Spent(who.Account), Deposit(who.Job, paid[i].Source), take, KindCorrect, who)...)
		amount -= take
	}
	return out, back
}

// Return gives what is left of a deposit back to where it came from; a grant that
// ended longer than RefundTail ago no longer takes it: it expires. What its account owes is
// repaid before anything else is done with it.
func (p *Posting) Return(s *State, parts []Part, who Payer) []Change {
	var out []Change
	for _, part := range parts {
		out = append(out, p.transfer(Deposit(who.Job, part.Source), s.home(part.Source, p.At), part.Amount, KindReturn, who)...)
	}
	return append(out, p.settled(s, parts, who)...)
}

// Refund gives money that was charged back to its sources, as Return does, and
// notes the loss as waste that the platform bears.
func (p *Posting) Refund(s *State, parts []Part, cause Cause, who Payer) []Change {
	var out []Change
	for _, part := range parts {
		out = append(out, p.transfer(Spent(who.Account), s.home(part.Source, p.At), part.Amount, KindRefund, who)...)
		out = append(out, p.transfer(Platform, Waste(cause), part.Amount, KindWaste, who)...)
	}
	return append(out, p.settled(s, parts, who)...)
}

// Lost posts platform money to a cause of waste.
func (p *Posting) Lost(cause Cause, amount money.Micros, who Payer) []Change {
	return p.transfer(Platform, Waste(cause), amount, KindWaste, who)
}

// Expire posts what is left of a grant that ended RefundTail ago.
func (p *Posting) Expire(s *State, g Grant) []Change {
	g.Expired = true
	rest := s.Balance(OfGrant(g.ID))
	return append([]Change{GrantSet{g}}, p.transfer(OfGrant(g.ID), Expired, rest, KindExpire, Payer{Account: g.Account})...)
}

// home is where money that came from source goes back to.
func (s *State) home(source Account, at int64) Account {
	if s.closedFor(source, at) {
		return Expired
	}
	return source
}

// closedFor reports whether a source no longer takes money back.
func (s *State) closedFor(source Account, at int64) bool {
	g, ok := s.Grants.Get(grantOf(source))
	return ok && !g.Open(at)
}

// grantOf is the grant whose own ledger account it is; 0: none's.
func grantOf(a Account) id.Grant {
	n, ok := strings.CutPrefix(string(a), "grant:")
	g, err := strconv.ParseInt(n, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return id.Grant(g)
}
