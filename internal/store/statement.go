package store

import (
	"context"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
)

// Period is the time that a statement is about: [From, To), ns since the epoch. An
// open tile counts up to To, so To lies at most at the present.
type Period struct{ From, To int64 }

// GrantUse is a grant with what was moved in and out of it and of the deposits made
// from it.
type GrantUse struct {
	Grant ledger.Grant
	Moves []Move
}

// Move is a sum of transfers of one kind.
type Move struct {
	Kind   ledger.Kind
	Period money.Micros // within the period
	Ever   money.Micros // up to the period's end
}

// GrantUses returns the grants of an account by id, whoever spent them, with their
// moves by kind.
func (s *Store) GrantUses(ctx context.Context, account id.Account, p Period) ([]GrantUse, error) {
	own, err := grants().all(ctx, s.read, "WHERE account = $1 ORDER BY id", int64(account))
	if err != nil {
		return nil, err
	}
	out := make([]GrantUse, len(own))
	at := make(map[id.Grant]int, len(own))
	for i, g := range own {
		out[i].Grant, at[g.ID] = g, i
	}
	rows, err := s.read.QueryContext(ctx, `SELECT grant_id, kind,
			CAST(SUM(CASE WHEN at >= $1 THEN amount ELSE 0 END) AS BIGINT), CAST(SUM(amount) AS BIGINT)
		FROM transfer WHERE grant_id <> 0 AND grant_id IN (SELECT id FROM grants WHERE account = $2) AND at < $3
		GROUP BY grant_id, kind ORDER BY grant_id, kind`, p.From, int64(account), p.To)
	if err != nil {
		return nil, wrap("summing grants", err)
	}
	defer rows.Close()
	for rows.Next() {
		var g id.Grant
		var m Move
		if err := rows.Scan(&g, &m.Kind, &m.Period, &m.Ever); err != nil {
			return nil, wrap("summing grants", err)
		}
		if i, ok := at[g]; ok {
			out[i].Moves = append(out[i].Moves, m)
		}
	}
	return out, wrap("summing grants", rows.Err())
}

// Charge is what a user was charged in an account, or got back.
type Charge struct {
	User   id.User
	Kind   ledger.Kind // KindCharge, KindRefund or KindCorrect
	Amount money.Micros
	Jobs   int64
}

// Charges returns what an account was charged in a period, by user and kind.
func (s *Store) Charges(ctx context.Context, account id.Account, p Period) ([]Charge, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT person, kind, CAST(SUM(amount) AS BIGINT), COUNT(DISTINCT job)
		FROM transfer WHERE account <> 0 AND account = $1 AND at >= $2 AND at < $3 AND kind IN ($4, $5, $6)
		GROUP BY person, kind ORDER BY person, kind`,
		int64(account), p.From, p.To, string(ledger.KindCharge), string(ledger.KindRefund), string(ledger.KindCorrect))
	if err != nil {
		return nil, wrap("summing charges", err)
	}
	defer rows.Close()
	var out []Charge
	for rows.Next() {
		var c Charge
		if err := rows.Scan(&c.User, &c.Kind, &c.Amount, &c.Jobs); err != nil {
			return nil, wrap("summing charges", err)
		}
		out = append(out, c)
	}
	return out, wrap("summing charges", rows.Err())
}

// DeviceTime is time of devices, cut to a period. It is Seconds and Nanos (below
// 10^9) of Milli thousandths of a device: in nanoseconds alone it would pass an
// int64 at 292 device-years.
type DeviceTime struct {
	Node    string // of the machine's time
	Cause   ledger.Cause
	User    id.User // of an account's time
	Model   string
	Milli   int64
	Seconds int64
	Nanos   int64
}

// MachineTime returns where the devices' time went, by node, cause and model. An
// empty node is all of them.
func (s *Store) MachineTime(ctx context.Context, node string, p Period) ([]DeviceTime, error) {
	var w where
	if node != "" {
		w.add("node = ?", node)
	}
	return s.deviceTime(ctx, "node AS a, cause AS b, 0 AS c", w, p)
}

// AccountTime returns the device time that an account paid for, by user and model.
func (s *Store) AccountTime(ctx context.Context, account id.Account, p Period) ([]DeviceTime, error) {
	var w where
	w.add("account = ?", int64(account))
	return s.deviceTime(ctx, "'' AS a, cause AS b, person AS c", w, p)
}

// deviceTime sums tiles by three columns, a (node), b (cause) and c (person), and
// by model and milli.
func (s *Store) deviceTime(ctx context.Context, by string, w where, p Period) ([]DeviceTime, error) {
	w.add("(ends = 0 OR ends > ?)", p.From)
	w.add("starts < ?", p.To)
	span := where{args: w.args}
	span.add("(CASE WHEN ends = 0 OR ends > ? THEN ? ELSE ends END) - (CASE WHEN starts < ? THEN ? ELSE starts END)",
		p.To, p.To, p.From, p.From)
	rows, err := s.read.QueryContext(ctx, `SELECT a, b, c, model, milli,
			CAST(SUM(span / 1000000000) AS BIGINT), CAST(SUM(span % 1000000000) AS BIGINT)
		FROM (SELECT `+by+`, model, milli, `+span.text[0]+` AS span FROM tile WHERE `+strings.Join(w.text, " AND ")+`) AS cut
		GROUP BY a, b, c, model, milli ORDER BY a, b, c, model, milli`, span.args...)
	if err != nil {
		return nil, wrap("summing device time", err)
	}
	defer rows.Close()
	var out []DeviceTime
	for rows.Next() {
		var t DeviceTime
		if err := rows.Scan(&t.Node, &t.Cause, &t.User, &t.Model, &t.Milli, &t.Seconds, &t.Nanos); err != nil {
			return nil, wrap("summing device time", err)
		}
		t.Seconds, t.Nanos = t.Seconds+t.Nanos/1e9, t.Nanos%1e9
		out = append(out, t)
	}
	return out, wrap("summing device time", rows.Err())
}
