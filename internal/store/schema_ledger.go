package store

import (
	"strconv"
	"strings"

	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
)

func grants() *relation[ledger.Grant] {
	type row = ledger.Grant
	return &relation[row]{name: "grants", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Grant { return &r.ID }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("amount", func(r *row) *money.Micros { return &r.Amount }),
		str("source", func(r *row) *string { return &r.Source }),
		num("starts", func(r *row) *int64 { return &r.Start }),
		num("ends", func(r *row) *int64 { return &r.End }),
		num("own_end", func(r *row) *int64 { return &r.OwnEnd }),
		flag("subtree", func(r *row) *bool { return &r.Subtree }),
		num("author", func(r *row) *id.User { return &r.By }),
		num("created", func(r *row) *int64 { return &r.Created }),
		flag("expired", func(r *row) *bool { return &r.Expired }),
		num("allowance", func(r *row) *id.Allowance { return &r.Allowance }),
		num("carried", func(r *row) *money.Micros { return &r.Carried }),
		num("origin", func(r *row) *id.Grant { return &r.Origin }),
		num("passed", func(r *row) *money.Micros { return &r.Passed }),
	}}
}

func allowances() *relation[allowance.Allowance] {
	type row = allowance.Allowance
	return &relation[row]{name: "allowance", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Allowance { return &r.ID }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		str("name", func(r *row) *string { return &r.Name }),
		num("amount", func(r *row) *money.Micros { return &r.Amount }),
		str("per", func(r *row) *limits.Unit { return &r.Per }),
		num("starts", func(r *row) *int64 { return &r.From }),
		num("ends", func(r *row) *int64 { return &r.Until }),
		doc("carry", func(r *row) *limits.Carry { return &r.Carry }),
		str("source", func(r *row) *string { return &r.Source }),
		flag("subtree", func(r *row) *bool { return &r.Subtree }),
		num("author", func(r *row) *id.User { return &r.By }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
		flag("removed", func(r *row) *bool { return &r.Removed }),
		num("through", func(r *row) *int64 { return &r.Through }),
		num("last_grant", func(r *row) *id.Grant { return &r.Last }),
	}}
}

func transfers() *relation[ledger.Transfer] {
	type row = ledger.Transfer
	return &relation[row]{name: "transfer", keys: 1, append: true, columns: []column[row]{
		num("id", func(r *row) *id.Transfer { return &r.ID }),
		num("seq", func(r *row) *int64 { return &r.Seq }),
		num("at", func(r *row) *int64 { return &r.At }),
		str("source", func(r *row) *ledger.Account { return &r.From }),
		str("target", func(r *row) *ledger.Account { return &r.To }),
		num("amount", func(r *row) *money.Micros { return &r.Amount }),
		str("kind", func(r *row) *ledger.Kind { return &r.Kind }),
		num("job", func(r *row) *id.Job { return &r.Job }),
		num("attempt", func(r *row) *int32 { return &r.Attempt }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("person", func(r *row) *id.User { return &r.User }),
		{
			name: "grant_id",
			get: func(r *row) (any, error) {
				return max(grantIn(r.From), grantIn(r.To)), nil
			},
			dst: func(*row) any { return new(int64) },
		},
		num("token", func(r *row) *id.Token { return &r.Token }),
	}}
}

// grantIn finds the grant in the name of its own ledger account, "grant:3", or of
// a deposit out of it, "deposit:118:grant:3"; 0: none.
func grantIn(a ledger.Account) int64 {
	i := strings.LastIndex(string(a), "grant:")
	if i < 0 || i > 0 && a[i-1] != ':' {
		return 0
	}
	n, err := strconv.ParseInt(string(a[i+len("grant:"):]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func tiles() *relation[ledger.Tile] {
	type row = ledger.Tile
	return &relation[row]{name: "tile", keys: 3, columns: append(tileColumns(func(r *row) *row { return r }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("person", func(r *row) *id.User { return &r.User }),
		num("posted", func(r *row) *money.Micros { return &r.Posted }),
	)}
}

// tileColumns are those that say what of a device was used, when and by which attempt.
func tileColumns[R any](tile func(*R) *ledger.Tile) []column[R] {
	return []column[R]{
		str("device", func(r *R) *string { return &tile(r).Device }),
		num("starts", func(r *R) *int64 { return &tile(r).From }),
		num("job", func(r *R) *id.Job { return &tile(r).Job }),
		num("ends", func(r *R) *int64 { return &tile(r).To }),
		str("node", func(r *R) *string { return &tile(r).Node }),
		str("model", func(r *R) *string { return &tile(r).Model }),
		num("milli", func(r *R) *int64 { return &tile(r).Milli }),
		str("cause", func(r *R) *ledger.Cause { return &tile(r).Cause }),
		num("attempt", func(r *R) *int32 { return &tile(r).Attempt }),
	}
}
