package query

import (
	"cmp"
	"slices"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
)

// kept is what is kept of the closed periods that a statement is of: its names, grants and
// device time are as they were when they were closed, its rights those of today.
type kept struct {
	periods  []ledger.Period
	closed   []v1.StatementClosed
	accounts map[id.Account]tenancy.Account // as of the last of the periods, as is what follows
	users    map[id.User]string
	ledger   ledger.State
	steps    []store.ClosedStep // of all periods
}

// keptOf reads what is kept of a span; nil if some of it is open.
func (v view) keptOf(b *store.Books, span store.Period) (*kept, error) {
	periods, ok := v.w.Ledger.AllClosed(span.From, span.To)
	if !ok {
		return nil, nil
	}
	k := &kept{periods: periods, accounts: map[id.Account]tenancy.Account{}, users: map[id.User]string{}}
	for _, p := range periods {
		if err := b.Closed(p, nil, func(c store.ClosedBook) error { k.add(c); return nil }); err != nil {
			return nil, err
		}
		hash, err := b.ClosedHash(p)
		if err != nil {
			return nil, err
		}
		k.closed = append(k.closed, v1.StatementClosed{Period: periodName(p.From, p.To), At: at(p.Closed), By: k.users[p.By], Hash: hash})
	}
	return k, nil
}

func (k *kept) add(c store.ClosedBook) {
	if c.Account.ID != 0 {
		k.accounts[c.Account.ID] = c.Account
	}
	for _, u := range c.Users {
		k.users[u.ID] = u.Name
	}
	for _, g := range c.Grants {
		k.ledger.Fold(ledger.GrantSet{Row: g})
	}
	k.steps = append(k.steps, c.Steps...)
}

// below lists an account and those that were below it, by id.
func (k *kept) below(top id.Account) []id.Account {
	out := []id.Account{top}
	for a := range k.accounts {
		for up, n := a, 0; up != 0 && n < tenancy.MaxDepth; up, n = k.accounts[up].Parent, n+1 {
			if up == top && a != top {
				out = append(out, a)
			}
		}
	}
	slices.Sort(out[1:])
	return out
}

func (k *kept) wire() []v1.StatementClosed {
	if k == nil {
		return nil
	}
	return k.closed
}

// verify notes where what is kept isn't what it was.
func (k *kept) verify(b *store.Books, accounts []id.Account, f *findings) error {
	for _, p := range k.periods {
		_, first, err := b.ClosedDiffers(p, accounts)
		if err != nil {
			return err
		}
		if first != "" {
			f.note(0, 0, "closed period %s: %s", periodName(p.From, p.To), first)
		}
	}
	return nil
}

// keep makes a statement of closed periods one of what is kept.
func (s *statement) keep(b *store.Books) (err error) {
	if s.kept, err = s.keptOf(b, s.span); s.kept == nil || err != nil {
		return err
	}
	s.accounts, s.ledger = s.kept.below(s.own.ID), &s.kept.ledger
	return nil
}

func (s *statement) readTiles(b *store.Books, each func(*ledger.Tile)) error {
	if s.kept == nil {
		return b.Tiles(s.accounts, s.span, each)
	}
	for _, p := range s.kept.periods {
		if err := b.ClosedTiles(p, s.accounts, each); err != nil {
			return err
		}
	}
	return nil
}

func (s *statement) keptSteps() {
	for _, p := range s.kept.steps {
		to := p.To
		if to == 0 {
			to = s.span.Now
		}
		u := make([]used, 0, len(p.Devices))
		for _, d := range p.Devices {
			u = append(u, used{p.N, p.Attempt, d, p.From, to})
		}
		s.steps[p.Job] = append(s.steps[p.Job], u...)
	}
	for j := range s.steps {
		slices.SortStableFunc(s.steps[j], func(x, y used) int { return cmp.Compare(x.from, y.from) })
	}
}

// account is what an account is called, or was.
func (s *statement) account(k id.Account) string {
	if s.kept == nil {
		return s.view.account(k)
	}
	if a, ok := s.kept.accounts[k]; ok {
		return a.Name
	}
	return s.own.Name // made since, and its own statement alone is of it
}

// user is what a user is called, or was.
func (s *statement) user(k id.User) string {
	if s.kept == nil {
		return s.view.user(k)
	}
	return s.kept.users[k]
}

// readKept sums the device time that is kept.
func (m *machine) readKept(b *store.Books, nodes []string) error {
	for _, p := range m.kept.periods {
		err := b.ClosedTiles(p, nil, func(t *ledger.Tile) {
			if from, to := cut(*t, m.span); from < to && (nodes == nil || slices.Contains(nodes, t.Node)) {
				timeOf(m.sums, balanceKey{t.Node, t.Model, t.Cause}).add(to-from, t.Milli)
			}
		})
		if err != nil {
			return err
		}
	}
	return m.kept.verify(b, nil, &m.check)
}

// correct finds what was posted in the span and takes back what attempts were charged in
// periods that are closed by now, the latest first.
func (s *statement) correct(b *store.Books) error {
	closed := s.w.Ledger.ClosedIn(0, s.span.From)
	if len(closed) == 0 {
		return nil
	}
	var back []*work
	for _, w := range s.work {
		if w.spent < 0 && w.job != 0 {
			back = append(back, w)
		}
	}
	slices.SortFunc(back, func(x, y *work) int { return cmp.Or(cmp.Compare(x.job, y.job), cmp.Compare(x.attempt, y.attempt)) })
	for _, w := range back {
		all, err := b.Transfers(w.job)
		if err != nil {
			return err
		}
		rest := -w.spent
		for _, p := range slices.Backward(closed) {
			var charged money.Micros
			for _, t := range all {
				if t.Attempt == w.attempt && t.At >= p.From && t.At < p.To {
					m, _ := store.Effects(t)
					charged += m.Spent
				}
			}
			if n := min(rest, charged); n > 0 {
				s.corrected(p, w, n)
				rest -= n
			}
		}
	}
	return nil
}

// corrected notes a correction, of others' jobs without saying whose.
func (s *statement) corrected(p ledger.Period, w *work, n money.Micros) {
	c := v1.StatementCorrection{Period: periodName(p.From, p.To), Credits: (-n).String()}
	if s.whoOf(w).user != hidden {
		c.Job, c.Attempt = decimal(w.job), w.attempt
	}
	s.corrections = append(s.corrections, c)
}
