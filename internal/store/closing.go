package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// ClosedBook is what is kept of an account when a period is closed, beside its daily sums,
// which never change any more, and its device time. Account 0 is the platform.
type ClosedBook struct {
	Account tenancy.Account
	Grants  []ledger.Grant
	Users   []ClosedUser // who is named in it
	Money   []MoneyDay   // the period's sums by grant; Day is 0
	Steps   []ClosedStep
	Hash    string `json:"-"`
	body    string
}

// ClosedUser is what a user was called.
type ClosedUser struct {
	ID   id.User
	Name string
}

// ClosedStep is a further step that had devices for itself.
type ClosedStep struct {
	Job      id.Job
	N        int32
	Attempt  int32
	Devices  []string
	From, To int64 // To 0: it ran on
}

// closedBook is a ClosedBook as a row.
type closedBook struct {
	Period     int64
	Account    id.Account
	Body, Hash string
}

type closedTile struct {
	Period int64
	ledger.Tile
}

func closedPeriods() *relation[ledger.Period] {
	type row = ledger.Period
	return &relation[row]{name: "closed_period", keys: 1, append: true, columns: []column[row]{
		num("starts", func(r *row) *int64 { return &r.From }),
		num("ends", func(r *row) *int64 { return &r.To }),
		num("closed", func(r *row) *int64 { return &r.Closed }),
		num("author", func(r *row) *id.User { return &r.By }),
	}}
}

func closedBooks() *relation[closedBook] {
	type row = closedBook
	return &relation[row]{name: "closed_book", keys: 2, append: true, columns: []column[row]{
		num("period", func(r *row) *int64 { return &r.Period }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		str("body", func(r *row) *string { return &r.Body }),
		str("hash", func(r *row) *string { return &r.Hash }),
	}}
}

func closedTiles() *relation[closedTile] {
	type row = closedTile
	columns := []column[row]{
		num("period", func(r *row) *int64 { return &r.Period }),
		num("account", func(r *row) *id.Account { return &r.Account }),
	}
	columns = append(columns, tileColumns(func(r *row) *ledger.Tile { return &r.Tile })...)
	return &relation[row]{name: "closed_tile", keys: 5, append: true, columns: append(columns,
		num("person", func(r *row) *id.User { return &r.User }),
	)}
}

// accountBooks is all that an account's hash is of: its book as it is written, its daily
// sums and its device time.
type accountBooks struct {
	book  ClosedBook
	days  []MoneyDay
	spent []SpentDay
	tiles []ledger.Tile
}

// hash is the same on every database, whatever order it lists text in, and whatever a later
// program adds to these types.
func (a *accountBooks) hash(body string) string {
	h := sha256.New()
	fmt.Fprintln(h, body)
	for _, d := range a.days {
		fmt.Fprintln(h, "money", d.Account, d.Day, d.Grant, int64(d.Given), int64(d.Aside), int64(d.Spent), int64(d.Expired))
	}
	for _, d := range a.spent {
		fmt.Fprintln(h, "spent", d.Account, d.Day, d.User, d.Job, d.Attempt, d.Grant, int64(d.Spent), int64(d.Lost))
	}
	slices.SortFunc(a.tiles, tileOrder)
	for _, t := range a.tiles {
		fmt.Fprintf(h, "time %q %q %q %d %d %d %q %d %d %d %d\n", t.Device, t.Node, t.Model, t.From, t.To, t.Milli, t.Cause, t.Job, t.Attempt, t.Account, t.User)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func tileOrder(a, b ledger.Tile) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.From, b.From), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Account, b.Account))
}

// keepBooks keeps a period's books as they are in the transaction that closes it.
func (s *Store) keepBooks(ctx context.Context, tx *sql.Tx, p ledger.Period) error {
	b := &Books{q: tx, ctx: ctx}
	all, err := b.gather(p)
	if err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		a := all[k]
		body, err := json.Marshal(a.book)
		if err != nil {
			return err
		}
		if err := insert(ctx, tx, s.dialect, closedBooks(), []closedBook{{p.From, k, string(body), a.hash(string(body))}}); err != nil {
			return err
		}
		rows := make([]closedTile, len(a.tiles))
		for i, t := range a.tiles {
			rows[i] = closedTile{p.From, t}
		}
		if err := insert(ctx, tx, s.dialect, closedTiles(), rows); err != nil {
			return err
		}
	}
	return nil
}

func insert[R any](ctx context.Context, tx *sql.Tx, d dialect, rel *relation[R], rows []R) error {
	for len(rows) > 0 {
		n := min(len(rows), maxChunk)
		var args []any
		var err error
		for i := range rows[:n] {
			if args, err = rel.args(args, &rows[i]); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, rel.insertSQL(n, d.numbered), args...); err != nil {
			return fmt.Errorf("writing %d of %s: %w", n, rel.name, err)
		}
		rows = rows[n:]
	}
	return nil
}

// gather reads the books of every account as they are now, its device time cut to the
// period.
func (b *Books) gather(p ledger.Period) (map[id.Account]*accountBooks, error) {
	all := map[id.Account]*accountBooks{0: {}}
	err := accounts().each(b.ctx, b.q, "ORDER BY id", nil, func(r *tenancy.Account) error {
		all[r.ID] = &accountBooks{book: ClosedBook{Account: *r}}
		return nil
	})
	of := func(k id.Account) *accountBooks {
		if all[k] == nil {
			all[k] = &accountBooks{}
		}
		return all[k]
	}
	if err == nil {
		err = grants().each(b.ctx, b.q, "ORDER BY id", nil, func(r *ledger.Grant) error {
			if a := of(r.Account); r.Created < p.To {
				a.book.Grants = append(a.book.Grants, *r)
			}
			return nil
		})
	}
	span := Period{From: p.From, To: p.To, Now: p.Closed}
	var w where
	w.overlap(span)
	if err == nil {
		err = b.tiles(w, func(t *ledger.Tile) {
			if t.To == 0 || t.To > p.To {
				t.To = p.To
			}
			t.From, t.Posted = max(t.From, p.From), 0
			of(t.Account).tiles = append(of(t.Account).tiles, *t)
		})
	}
	if err != nil {
		return nil, err
	}
	names := map[id.User]string{}
	err = persons().each(b.ctx, b.q, "ORDER BY id", nil, func(r *tenancy.User) error { names[r.ID] = r.Name; return nil })
	for k, a := range all {
		if err == nil {
			err = b.complete(k, span, a, names)
		}
	}
	if author := all[0]; author.book.Users == nil {
		author.book.Users = []ClosedUser{{p.By, names[p.By]}}
	}
	return all, err
}

// complete adds what is found by account: the daily sums, the steps, and who is named.
func (b *Books) complete(k id.Account, span Period, a *accountBooks, names map[id.User]string) error {
	if k == 0 {
		return nil
	}
	if err := b.daysOf(k, span, a); err != nil {
		return err
	}
	for _, d := range a.days {
		i := slices.IndexFunc(a.book.Money, func(m MoneyDay) bool { return m.Grant == d.Grant })
		if i < 0 {
			i, a.book.Money = len(a.book.Money), append(a.book.Money, MoneyDay{Account: k, Grant: d.Grant})
		}
		m := &a.book.Money[i]
		m.Given, m.Aside, m.Spent, m.Expired = m.Given+d.Given, m.Aside+d.Aside, m.Spent+d.Spent, m.Expired+d.Expired
	}
	slices.SortFunc(a.book.Money, func(x, y MoneyDay) int { return cmp.Compare(x.Grant, y.Grant) })
	users, jobs := map[id.User]bool{}, map[id.Job]bool{}
	for _, d := range a.spent {
		users[d.User], jobs[d.Job] = true, true
	}
	for _, t := range a.tiles {
		users[t.User], jobs[t.Job] = true, true
	}
	for _, u := range slices.Sorted(maps.Keys(users)) {
		a.book.Users = append(a.book.Users, ClosedUser{u, names[u]})
	}
	delete(jobs, 0)
	return b.Steps(slices.Sorted(maps.Keys(jobs)), func(s *workload.Step) error {
		if s.Spec.GPU != 0 && s.Started != 0 && s.Started < span.To {
			a.book.Steps = append(a.book.Steps, ClosedStep{s.Job, s.N, s.Attempt, s.Devices, s.Started, s.Ended})
		}
		return nil
	})
}

// daysOf reads an account's daily sums of a period, in an order of numbers.
func (b *Books) daysOf(k id.Account, span Period, a *accountBooks) error {
	if err := b.Spent([]id.Account{k}, span, func(d *SpentDay) { a.spent = append(a.spent, *d) }); err != nil {
		return err
	}
	first, end := span.Days()
	return b.Money([]id.Account{k}, nil, func(d *MoneyDay) {
		if d.Day >= first && d.Day < end {
			a.days = append(a.days, *d)
		}
	})
}

// Closed calls each for the books that are kept of a period, by account; none named are
// all of them.
func (b *Books) Closed(p ledger.Period, only []id.Account, each func(ClosedBook) error) error {
	var w where
	w.add("period = ?", p.From)
	if only != nil {
		in(&w, "account", only)
	}
	return closedBooks().each(b.ctx, b.q, w.page("account", 0), w.args, func(r *closedBook) error {
		var out ClosedBook
		if err := json.Unmarshal([]byte(r.Body), &out); err != nil {
			return fmt.Errorf("the kept books of account %d: %w", r.Account, err)
		}
		out.Account.ID, out.Hash, out.body = r.Account, r.Hash, r.Body
		return each(out)
	})
}

// ClosedTiles calls each for the device time that is kept of a period, by device, start and
// job; none named are everybody's.
func (b *Books) ClosedTiles(p ledger.Period, only []id.Account, each func(*ledger.Tile)) error {
	var w where
	w.add("period = ?", p.From)
	if only != nil {
		in(&w, "account", only)
	}
	var all []ledger.Tile
	err := closedTiles().each(b.ctx, b.q, w.page("account, device, starts, job", 0), w.args, func(r *closedTile) error {
		all = append(all, r.Tile)
		return nil
	})
	slices.SortFunc(all, tileOrder)
	for i := range all {
		each(&all[i])
	}
	return err
}

// ClosedDiffers compares what is kept of a period with its hashes, and its sums with the
// postings: the first difference, "" if there is none, and how many books there are. None
// named are all accounts, and the platform.
func (b *Books) ClosedDiffers(p ledger.Period, only []id.Account) (books int64, first string, err error) {
	tiles := map[id.Account][]ledger.Tile{}
	if err := b.ClosedTiles(p, only, func(t *ledger.Tile) { tiles[t.Account] = append(tiles[t.Account], *t) }); err != nil {
		return 0, "", err
	}
	var kept []ClosedBook
	if err := b.Closed(p, only, func(c ClosedBook) error { kept = append(kept, c); return nil }); err != nil {
		return 0, "", err
	}
	for _, c := range kept {
		first, err := b.bookDiffers(p, c, tiles[c.Account.ID])
		if delete(tiles, c.Account.ID); err != nil || first != "" {
			return 0, first, err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(tiles)) {
		return 0, fmt.Sprintf("device time is kept of account %d, whose book isn't there", k), nil
	}
	without, err := b.withoutBook(p, only)
	if err == nil && without != 0 {
		return 0, fmt.Sprintf("account %d was charged, and its book isn't there", without), nil
	}
	return int64(len(kept)), "", err
}

// bookDiffers compares an account's book with its hash and with the postings.
func (b *Books) bookDiffers(p ledger.Period, c ClosedBook, tiles []ledger.Tile) (string, error) {
	a := &accountBooks{book: c, tiles: tiles}
	k, span := c.Account.ID, Period{From: p.From, To: p.To, Now: p.To}
	if k != 0 {
		if err := b.daysOf(k, span, a); err != nil {
			return "", err
		}
	}
	if hash := a.hash(c.body); hash != c.Hash {
		return fmt.Sprintf("what is kept of %s isn't what it was: its hash is %.12s, when it was closed it was %.12s", c.name(), hash, c.Hash), nil
	}
	var spent money.Micros
	for _, m := range c.Money {
		spent += m.Spent
	}
	if k == 0 {
		return "", nil
	}
	posted, err := b.Posted([]id.Account{k}, span)
	if err == nil && posted != spent {
		return fmt.Sprintf("the postings of %s come to %s, when it was closed they came to %s", c.name(), posted, spent), nil
	}
	return "", err
}

// withoutBook is an account that was charged in a period and of which no book is kept; 0:
// there is none.
func (b *Books) withoutBook(p ledger.Period, only []id.Account) (id.Account, error) {
	first, end := Period{From: p.From, To: p.To}.Days()
	var w where
	w.add("day >= ?", first)
	w.add("day < ?", end)
	w.add("account NOT IN (SELECT account FROM closed_book WHERE period = ?)", p.From)
	if only != nil {
		in(&w, "account", only)
	}
	var k id.Account
	err := b.q.QueryRowContext(b.ctx, "SELECT COALESCE(MIN(account), 0) FROM spent_day WHERE "+strings.Join(w.text, " AND "), w.args...).Scan(&k)
	return k, wrap("reading daily sums", err)
}

func (c ClosedBook) name() string {
	if c.Account.Name == "" {
		return "the platform"
	}
	return "account " + c.Account.Name
}

// ClosedHash is the hash of all that is kept of a period.
func (b *Books) ClosedHash(p ledger.Period) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %d\n", p.From, p.To, p.Closed, p.By)
	var w where
	w.add("period = ?", p.From)
	err := closedBooks().each(b.ctx, b.q, w.page("account", 0), w.args, func(r *closedBook) error {
		fmt.Fprintf(h, "%d %s\n", r.Account, r.Hash)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
