package query

import (
	"fmt"
	"slices"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// findings is the first difference between what was posted and what was metered.
type findings struct {
	first    string
	account  id.Account // whose it is; 0: no user's alone
	user     id.User
	balances *ledger.State // as of the books; nil: not known
}

func (f *findings) note(account id.Account, user id.User, format string, args ...any) {
	if f.first == "" {
		f.first, f.account, f.user = fmt.Sprintf(format, args...), account, user
	}
}

// balance compares what a grant has by its daily sums with its balance.
func (f *findings) balance(g ledger.Grant, d store.MoneyDay) {
	if f.balances == nil {
		return
	}
	if sum, have := left(d)-d.Aside, f.balances.Balance(ledger.OfGrant(g.ID)); sum != have {
		f.note(0, 0, "grant %d has %s, its days come to %s", g.ID, have, sum)
	}
}

// verify compares the postings of the period with its metered device time: attempt by
// attempt, what was posted with what prices make of its metered time, and that with its
// devices' used time; then all of them together with every posting.
func (s *statement) verify(b *store.Books) error {
	if s.kept != nil {
		return s.kept.verify(b, s.accounts, &s.check)
	}
	seq, err := b.Seq()
	if err != nil {
		return err
	}
	if s.w.Seq == seq {
		s.check.balances = &s.w.Ledger
	}
	known := map[id.Job]bool{}
	var doubtful []doubt
	check := func(j *workload.Job) error {
		known[j.ID] = true
		doubtful = append(doubtful, s.verifyJob(j)...)
		return nil
	}
	if err := b.Over(s.accounts, s.span, check); err != nil {
		return err
	}
	var others []id.Job
	for k := range s.work {
		if k.Job > 0 && !known[k.Job] {
			others = append(others, k.Job)
		}
	}
	for k, j := range s.w.Workload.Active.All() {
		if !known[k] && slices.Contains(s.accounts, j.Account) && j.Attempt.Started < s.span.To {
			others = append(others, k)
		}
	}
	slices.Sort(others)
	if err := b.Jobs(slices.Compact(others), check); err != nil {
		return err
	}
	for _, d := range doubtful {
		all, err := b.Transfers(d.job.ID)
		if err != nil {
			return err
		}
		s.verifyPostings(d.job, d.attempt, d.work, all)
	}
	return s.verifySums(b, known)
}

// doubt is an attempt of which more must be known than what was posted in the period.
type doubt struct {
	job     *workload.Job
	attempt workload.Attempt
	work    *work
}

// verifySums compares the sums with each other and with every posting.
func (s *statement) verifySums(b *store.Books, known map[id.Job]bool) error {
	var spent, byDay, unused money.Micros
	first, end := s.span.Days()
	ever := map[id.Account]money.Micros{}
	for _, d := range s.money {
		if !slices.Contains(s.accounts, d.Account) {
			continue
		}
		if ever[d.Account] += d.Spent; d.Day >= first && d.Day < end {
			byDay += d.Spent
		}
	}
	for k, w := range s.work {
		if spent += w.spent; w.job == 0 {
			unused += w.spent
		} else if !known[k.Job] {
			s.check.note(0, 0, "postings or device time name job %d, of which nothing is recorded", k.Job)
		}
	}
	posted, err := b.Posted(s.accounts, s.span)
	if err != nil {
		return err
	}
	if posted != spent || spent != byDay {
		s.check.note(0, 0, "the postings of the period come to %s, those of its attempts to %s, those of its days to %s", posted, spent, byDay)
	}
	charged, metered, err := b.Unused(s.accounts)
	if err != nil {
		return err
	}
	if charged != metered {
		s.check.note(0, 0, "%s was charged for what was reserved and not used, its device time says %s", charged, metered)
	}
	for _, a := range s.accounts {
		if f := s.check.balances; f != nil && f.Balance(ledger.Spent(a)) != ever[a] {
			s.check.note(0, 0, "%s has spent %s, its days come to %s", s.account(a), f.Balance(ledger.Spent(a)), ever[a])
		}
	}
	return nil
}

// verifyJob checks the attempts of a job, and returns those of which that doesn't say all.
func (s *statement) verifyJob(j *workload.Job) (doubtful []doubt) {
	for _, a := range append(slices.Clone(j.Past), j.Attempt) {
		w := s.work[id.Attempt{Job: j.ID, N: a.N}]
		if w == nil {
			w = &work{job: j.ID, attempt: a.N, account: j.Account, user: j.User}
		}
		s.verifyTime(j, a, w)
		if !s.postedRight(j, a, w) {
			doubtful = append(doubtful, doubt{j, a, w})
		}
	}
	return doubtful
}

// postedRight reports whether what an attempt that is over was posted within the period
// is all that it cost: then there is no more to look at.
func (s *statement) postedRight(j *workload.Job, a workload.Attempt, w *work) bool {
	if a.Ended == 0 && j.State != workload.Ended {
		return a.Started == 0 && w.spent == 0 && w.lost == 0
	}
	if _, forgiven := metering.Forgiven(a); forgiven {
		return w.spent == 0
	}
	cost, err := metering.Accrued(&s.w.Catalog, j, a, a.Ended)
	return err == nil && cost.Total == w.spent+w.lost
}

// verifyPostings compares all that an attempt was ever posted with what it cost up to
// the last of it. One that is over has been posted for in full.
func (s *statement) verifyPostings(j *workload.Job, a workload.Attempt, w *work, all []ledger.Transfer) {
	var charged, lost, within money.Micros
	last := int64(0)
	for _, t := range all {
		if t.Attempt != a.N {
			continue
		}
		m, d := store.Effects(t)
		charged, lost = charged+m.Spent, lost+d.Lost
		if m.Spent != 0 {
			last = t.At
		}
		if t.At >= s.span.From && t.At < s.span.To {
			within += m.Spent
		}
	}
	name := id.Attempt{Job: j.ID, N: a.N}
	if within != w.spent {
		s.check.note(j.Account, j.User, "attempt %s was posted %s in the period, its days come to %s", name, within, w.spent)
	}
	if _, forgiven := metering.Forgiven(a); forgiven {
		if charged != 0 {
			s.check.note(j.Account, j.User, "attempt %s is the platform's to pay and yet was posted %s", name, charged)
		}
		return
	}
	over := a.Ended != 0 || j.State == workload.Ended
	if over {
		last = a.Ended
	}
	cost, err := metering.Accrued(&s.w.Catalog, j, a, last)
	from, to := metering.Billable(a, j.TermsOf(a).Grace, last)
	exhausted := !over && metering.Left(j) == 0 && charged < cost.Total // what the deposit lacks is posted at the end
	if err != nil || cost.Total != charged+lost && !exhausted && last != 0 {
		s.check.note(j.Account, j.User, "attempt %s was posted %s and %s beyond its deposit; its metered time from %s to %s costs %s", name, charged, lost, stamp(from), stamp(to), cost.Total)
	}
}

// verifyTime compares an attempt's devices' used time with the time that its user pays for.
func (s *statement) verifyTime(j *workload.Job, a workload.Attempt, w *work) {
	from, to := metering.Billable(a, j.TermsOf(a).Grace, s.span.Now)
	if a.Ended == 0 && a.Started != 0 && j.State != workload.Ended {
		to = s.span.Now // what is beyond its limit is cut off when its end is known
	}
	from, to = max(from, s.span.From), min(to, s.span.Until())
	devices := int64(len(a.AllDevices()))
	each := catalog.Counted(a.Models) / max(1, devices)
	var sum int64
	for _, t := range w.tiles {
		begin, end := cut(t, s.span)
		if sum += max(0, end-begin); t.Milli != each || t.Account != j.Account || t.User != j.User {
			s.check.note(j.Account, j.User, "attempt %d.%d: %s of %s is recorded as used from %s, it has %s", j.ID, a.N,
				quantityOf(t.Milli), t.Device, stamp(t.From), quantityOf(each))
			return
		}
	}
	if want := max(0, to-from) * devices; sum != want {
		s.check.note(j.Account, j.User, "attempt %d.%d pays for %d devices from %s to %s, which is %s; their used time comes to %s", j.ID, a.N,
			devices, stamp(from), stamp(to), lasting(want), lasting(sum))
	}
}
