package query

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// How deep lines go: those that may be asked for, and what members are summed from.
const (
	byMember      = "member"
	byOneToken    = "token"
	byJob         = "job"
	byStep        = "step"
	byDevice      = "device"
	byDay         = "day"
	byMemberModel = "member and model"
)

var byDepth = []string{byMember, byOneToken, byJob, byStep, byDevice, byDay}

// maxLines is the most that one answer has.
const maxLines = 100_000

// work is an attempt's part of a period: what was posted of it, and its devices' time.
type work struct {
	job     id.Job // 0: what was reserved and not used
	attempt int32
	account id.Account
	user    id.User

	days        []store.SpentDay
	spent, lost money.Micros // the days' sums
	tiles       []ledger.Tile
}

// used is a further step's devices, for itself.
type used struct {
	step     int32
	attempt  int32
	device   string
	from, to int64
}

// who has spent: one of a user in an account, or all those in it whom the caller may not
// look at.
type who struct {
	account id.Account
	user    id.User // 0: nobody; hidden: others
}

const hidden id.User = -1

func (s *statement) whoOf(w *work) who {
	if w.user == 0 || s.may(access.JobRead, w.user, w.account) {
		return who{w.account, w.user}
	}
	return who{w.account, hidden}
}

func (s *statement) nameOf(k who) string {
	switch k.user {
	case 0:
		return "(reserved, unused)"
	case hidden:
		return "(others)"
	}
	return s.user(k.user)
}

// deviceTime adds device time up exactly, in thousandths of a device: in nanoseconds alone
// it would pass an int64 at 292 device-years.
type deviceTime struct{ seconds, nanos int64 }

func (d *deviceTime) add(ns, milli int64) {
	d.plus(deviceTime{ns / 1e9 * milli, ns % 1e9 * milli})
}

func (d *deviceTime) plus(e deviceTime) {
	d.seconds, d.nanos = d.seconds+e.seconds, d.nanos+e.nanos
	d.seconds, d.nanos = d.seconds+d.nanos/1e9, d.nanos%1e9
}

// thousandths is in thousandths of an hour, rounded down.
func (d deviceTime) thousandths() int64 { return d.seconds / 3600 }

// String is in hours to a thousandth, rounded down.
func (d deviceTime) String() string { return quantity.FormatDecimal(d.thousandths(), 3, 1) }

// muldiv is a × b / c, rounded down, if it fits; all are at least 0 and c isn't 0.
func muldiv(a, b, c int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q), q < 1<<63
}

// apportion divides total in proportion to weights, so that the parts come to it exactly.
// Weights that are all 0 count as equal.
func apportion(total int64, weights []int64) []int64 {
	out := make([]int64, len(weights))
	var sum int64
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		weights, sum = slices.Repeat([]int64{1}, len(weights)), int64(len(weights))
	}
	size, sign := total, int64(1)
	if size < 0 {
		size, sign = -size, -1
	}
	var reached, given int64
	for i, w := range weights {
		reached += w
		upTo, _ := muldiv(size, reached, sum) // at most size
		out[i], given = sign*(upTo-given), upTo
	}
	return out
}

// atom is time of a device that nothing a line tells apart divides any further.
type atom struct {
	step                int32
	device, node, model string
	from, to, milli     int64
}

// weight is its device time, roughly: it only says how much of the whole it is.
func (a atom) weight() int64 { return (a.to - a.from) / 1e6 * a.milli }

// atoms cuts what an attempt used to the period, and where a line ends.
func (s *statement) atoms(w *work, by string) []atom {
	var out []atom
	for _, t := range w.tiles {
		from, to := cut(t, s.span)
		if from >= to {
			continue
		}
		a := atom{device: t.Device, node: t.Node, model: t.Model, from: from, to: to, milli: t.Milli}
		switch by {
		case byDay:
			for ; a.from < to; a.from = a.to {
				a.to = min(to, (a.from/Day+1)*Day)
				out = append(out, a)
			}
		case byStep, byDevice:
			out = append(out, s.bySteps(w, a)...)
		default:
			out = append(out, a)
		}
	}
	return out
}

// cut is a tile's time within the period.
func cut(t ledger.Tile, p store.Period) (from, to int64) {
	if to = t.To; to == 0 {
		to = p.Now
	}
	return max(t.From, p.From), min(to, p.Until())
}

// bySteps divides a device's time among the steps that had it for themselves, and the
// primary, which has the rest.
func (s *statement) bySteps(w *work, a atom) []atom {
	if a.step = workload.PrimaryStep; w.job == 0 {
		a.step = 0
	}
	out, end := []atom{}, a.to
	for _, u := range s.steps[w.job] {
		from, to := max(u.from, a.from), min(u.to, end)
		if u.attempt != w.attempt || u.device != a.device || from >= to {
			continue
		}
		if a.from < from {
			before := a
			before.to = from
			out = append(out, before)
		}
		own := a
		own.step, own.from, own.to = u.step, from, to
		out, a.from = append(out, own), to
	}
	if a.from < end {
		out = append(out, a)
	}
	return out
}

// readSteps finds the devices that further steps had for themselves. Of two that had one
// together, the first has its time.
func (s *statement) readSteps(b *store.Books) error {
	s.steps = map[id.Job][]used{}
	if s.kept != nil {
		s.keptSteps()
		return nil
	}
	return b.Steps(s.jobs(), func(p *workload.Step) error {
		to := p.Ended
		if to == 0 {
			to = s.span.Now
		}
		if p.Spec.GPU == 0 || p.Started == 0 {
			return nil
		}
		for _, d := range p.Devices {
			s.steps[p.Job] = append(s.steps[p.Job], used{p.N, p.Attempt, d, p.Started, to})
		}
		slices.SortStableFunc(s.steps[p.Job], func(x, y used) int { return cmp.Compare(x.from, y.from) })
		return nil
	})
}

// jobs lists those that have work in the period, by id.
func (s *statement) jobs() []id.Job {
	var out []id.Job
	for k := range s.work {
		if k.Job > 0 {
			out = append(out, k.Job)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// line is a sum of time and money, by as much as its depth tells apart.
type line struct {
	lineKey
	time    deviceTime
	credits money.Micros
}

type lineKey struct {
	who
	grant               id.Grant
	token               tenancy.ByToken
	job                 id.Job
	step                int32
	device, node, model string
	from, to, milli     int64
	day                 int64 // since the epoch; -1: not told apart
}

// lines divides what was spent in the period among grants, members and so on down to a
// depth. What an attempt was charged is divided among its devices' time; all of it comes
// to what was posted exactly.
func (s *statement) lines(by string) []line {
	sums := map[lineKey]*line{}
	for _, w := range s.work {
		for _, part := range s.parts(w, by) {
			s.share(sums, w, part, by)
		}
	}
	out := make([]line, 0, len(sums))
	for _, l := range sums {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b line) int {
		return cmp.Or(
			cmp.Compare(a.grant, b.grant), cmp.Compare(s.account(a.account), s.account(b.account)), cmp.Compare(s.nameOf(a.who), s.nameOf(b.who)),
			cmp.Compare(a.token.Name, b.token.Name), cmp.Compare(a.token.ID, b.token.ID), cmp.Compare(a.day, b.day), cmp.Compare(a.job, b.job), cmp.Compare(a.step, b.step), cmp.Compare(a.from, b.from),
			cmp.Compare(a.device, b.device), cmp.Compare(a.model, b.model), cmp.Compare(a.to, b.to),
		)
	})
	return out
}

// part is atoms of an attempt with the money that was posted for them, by grant.
type part struct {
	day   int64 // -1: any
	atoms []atom
	spent map[id.Grant]money.Micros
}

// parts is all of an attempt, or each of its days.
func (s *statement) parts(w *work, by string) []part {
	whole := part{day: -1, atoms: s.atoms(w, by), spent: map[id.Grant]money.Micros{}}
	for _, d := range w.days {
		whole.spent[d.Grant] += d.Spent
	}
	if by != byDay {
		return []part{whole}
	}
	days := map[int64]*part{}
	of := func(day int64) *part {
		if days[day] == nil {
			days[day] = &part{day: day, spent: map[id.Grant]money.Micros{}}
		}
		return days[day]
	}
	for _, d := range w.days {
		of(d.Day).spent[d.Grant] += d.Spent
	}
	for _, a := range whole.atoms {
		p := of(a.from / Day)
		p.atoms = append(p.atoms, a)
	}
	out := make([]part, 0, len(days))
	for _, p := range days {
		out = append(out, *p)
	}
	return out
}

// share adds a part to the lines that it belongs to.
func (s *statement) share(sums map[lineKey]*line, w *work, p part, by string) {
	grants, paid := []id.Grant{}, []int64{}
	for g := range p.spent {
		grants = append(grants, g)
	}
	slices.Sort(grants)
	for _, g := range grants {
		paid = append(paid, max(int64(p.spent[g]), -int64(p.spent[g])))
	}
	if len(grants) == 0 {
		grants, paid = []id.Grant{0}, []int64{0}
	}
	weights := make([]int64, len(p.atoms))
	for i, a := range p.atoms {
		weights[i] = a.weight()
	}
	for gi, g := range grants {
		if len(p.atoms) == 0 {
			addLine(sums, s.keyOf(w, p.day, g, atom{}, by), 0, 0, p.spent[g])
			continue
		}
		costs := apportion(int64(p.spent[g]), weights)
		for i, a := range p.atoms {
			ns := apportion(a.to-a.from, paid)[gi]
			addLine(sums, s.keyOf(w, p.day, g, a, by), ns, a.milli, money.Micros(costs[i]))
		}
	}
}

func addLine(sums map[lineKey]*line, k lineKey, ns, milli int64, credits money.Micros) {
	if ns == 0 && credits == 0 {
		return
	}
	if sums[k] == nil {
		sums[k] = &line{lineKey: k}
	}
	sums[k].time.add(ns, milli)
	sums[k].credits += credits
}

// keyOf keeps of what is known as much as a depth tells apart, and the caller may know.
func (s *statement) keyOf(w *work, day int64, g id.Grant, a atom, by string) lineKey {
	k := lineKey{who: s.whoOf(w), grant: g, model: a.model, day: day}
	if by == byMemberModel {
		k.grant = 0
	}
	if k.user == hidden {
		return k
	}
	switch by {
	case byDevice:
		k.device, k.node, k.from, k.to, k.milli = a.device, a.node, a.from, a.to, a.milli
		fallthrough
	case byStep:
		if k.step = a.step; a.step == 0 && w.job != 0 {
			k.step = workload.PrimaryStep
		}
		fallthrough
	case byJob:
		k.job, k.token = w.job, s.token[w.job]
	case byOneToken:
		k.token = s.token[w.job]
	}
	return k
}

func (s *statement) lineWire(l line) v1.StatementLine {
	out := v1.StatementLine{
		Account: s.account(l.account), User: s.nameOf(l.who), Token: byToken(l.token), Device: l.device, Node: l.node, Model: l.model, From: moment(l.from), To: moment(l.to),
		GPUHours: l.time.String(), Credits: l.credits.String(),
	}
	if g, ok := s.ledger.Grants.Get(l.grant); ok {
		out.Grant, out.Source = decimal(g.ID), g.Source
	}
	if l.job != 0 {
		out.Job = decimal(l.job)
	}
	if l.step != 0 {
		out.Step = out.Job + "." + decimal(int64(l.step))
	}
	if l.milli != 0 {
		out.GPU = v1.Quantity(quantity.FormatDevices(l.milli))
	}
	if l.day >= 0 {
		out.Day = time.Unix(l.day*int64(Day/1e9), 0).UTC().Format(time.DateOnly)
	}
	return out
}
