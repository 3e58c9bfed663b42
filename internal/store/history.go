package store

import (
	"context"
	"fmt"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// where collects the conditions of a query with their arguments.
type where struct {
	text []string
	args []any
}

// add appends a condition in which each ? stands for the next argument.
func (w *where) add(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.text = append(w.text, condition)
}

// in appends "column IN (…)"; no values narrow nothing.
func in[T ~int64 | ~string](w *where, column string, values []T) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	w.add(column+" IN (?"+strings.Repeat(", ?", len(values)-1)+")", args...)
}

// page ends the query; a limit of 0 is no limit.
func (w *where) page(order string, limit int) string {
	text := "ORDER BY " + order
	if len(w.text) > 0 {
		text = "WHERE " + strings.Join(w.text, " AND ") + " " + text
	}
	if limit > 0 {
		text += fmt.Sprintf(" LIMIT %d", limit)
	}
	return text
}

// Job returns a job, ended or not; ErrNotFound.
func (s *Store) Job(ctx context.Context, job id.Job) (*workload.Job, error) {
	all, err := jobs().all(ctx, s.read, "WHERE id = $1", int64(job))
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("job %d: %w", job, ErrNotFound)
	}
	return &all[0], nil
}

// Element returns an element of an array that has started; ErrNotFound.
func (s *Store) Element(ctx context.Context, array id.Job, index int64) (*workload.Job, error) {
	all, err := jobs().all(ctx, s.read, "WHERE array_of <> 0 AND array_of = $1 AND element = $2", int64(array), index)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("element %d of job %d: %w", index, array, ErrNotFound)
	}
	return &all[0], nil
}

// StepFilter narrows a list of steps; what is zero doesn't.
type StepFilter struct {
	N     int32
	Added int64 // the log row that it came by
	After int32 // numbers above it: the last of the page before
	Live  bool  // those that haven't ended
}

// Steps lists the steps of a job by number, at most limit.
func (s *Store) Steps(ctx context.Context, job id.Job, f StepFilter, limit int) ([]workload.Step, error) {
	var w where
	w.add("job = ?", int64(job))
	if f.N != 0 {
		w.add("n = ?", int64(f.N))
	}
	if f.Added != 0 {
		w.add("added = ?", f.Added)
	}
	if f.After != 0 {
		w.add("n > ?", int64(f.After))
	}
	if f.Live {
		w.add("state <> 'ended'")
	}
	return steps().all(ctx, s.read, w.page("n", limit), w.args...)
}

// JobFilter narrows a list of jobs; what is zero doesn't.
type JobFilter struct {
	IDs        []id.Job // any of these; likewise the other lists
	Accounts   []id.Account
	Users      []id.User
	States     []workload.JobState
	Partitions []string
	From, To   int64  // ns: jobs that existed in [From, To); To 0: no end
	Before     id.Job // ids below it: the last of the page before
	Elements   bool   // of arrays too; IDs then means those of arrays as well
}

// Jobs lists jobs, the newest first, at most limit.
func (s *Store) Jobs(ctx context.Context, f JobFilter, limit int) ([]workload.Job, error) {
	w := f.where()
	return jobs().all(ctx, s.read, w.page("id DESC", limit), w.args...)
}

func (f JobFilter) where() (w where) {
	switch {
	case len(f.IDs) > 0 && f.Elements:
		marks := " IN (?" + strings.Repeat(", ?", len(f.IDs)-1) + ")"
		var args []any
		for range 2 {
			for _, k := range f.IDs {
				args = append(args, int64(k))
			}
		}
		w.add("(id"+marks+" OR array_of <> 0 AND array_of"+marks+")", args...)
	case len(f.IDs) > 0:
		in(&w, "id", f.IDs)
	case !f.Elements:
		w.add("array_of = ?", 0)
	}
	in(&w, "account", f.Accounts)
	in(&w, "person", f.Users)
	in(&w, "state", f.States)
	in(&w, "partition", f.Partitions)
	if f.From != 0 {
		w.add("(ended = 0 OR ended >= ?)", f.From)
	}
	if f.To != 0 {
		w.add("submitted < ?", f.To)
	}
	if f.Before != 0 {
		w.add("id < ?", int64(f.Before))
	}
	return w
}

// Refusals lists refused requests, the newest first, at most limit. Only accounts
// and users narrow it, and Before is of refusals.
func (s *Store) Refusals(ctx context.Context, f JobFilter, limit int) ([]workload.Refusal, error) {
	f = JobFilter{Accounts: f.Accounts, Users: f.Users, Before: f.Before, Elements: true}
	w := f.where()
	return refusals().all(ctx, s.read, w.page("id DESC", limit), w.args...)
}

// Refusal returns a refused request; ErrNotFound.
func (s *Store) Refusal(ctx context.Context, refusal id.Refusal) (*workload.Refusal, error) {
	all, err := refusals().all(ctx, s.read, "WHERE id = $1", int64(refusal))
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("refusal %d: %w", refusal, ErrNotFound)
	}
	return &all[0], nil
}

// TransferFilter narrows a list of transfers; what is zero doesn't.
type TransferFilter struct {
	Ledger  ledger.Account // on either side
	Job     id.Job
	Account id.Account // concerned
	After   id.Transfer
}

// Transfers lists transfers by id, at most limit.
func (s *Store) Transfers(ctx context.Context, f TransferFilter, limit int) ([]ledger.Transfer, error) {
	w := f.where()
	return transfers().all(ctx, s.read, w.page("id", limit), w.args...)
}

func (f TransferFilter) where() (w where) {
	if f.Ledger != "" {
		w.touching(f.Ledger)
	}
	if f.Job != 0 {
		w.add("job <> 0 AND job = ?", int64(f.Job))
	}
	if f.Account != 0 {
		w.add("account <> 0 AND account = ?", int64(f.Account))
	}
	if f.After != 0 {
		w.add("id > ?", int64(f.After))
	}
	return w
}

// touching narrows to the transfers of a ledger account. The conditions beside the
// names are those of the indexes.
func (w *where) touching(a ledger.Account) {
	if rest, ok := strings.CutPrefix(string(a), "deposit:"); ok {
		number, _, _ := strings.Cut(rest, ":")
		job, _ := id.ParseJob(number) // 0: there is no such deposit
		w.add("job <> 0 AND job = ? AND (source = ? OR target = ?)", int64(job), string(a), string(a))
		return
	}
	w.add(`id IN (SELECT id FROM transfer WHERE source = ? AND source NOT LIKE 'deposit:%'
		UNION ALL SELECT id FROM transfer WHERE target = ? AND target NOT LIKE 'deposit:%')`, string(a), string(a))
}

// TokenNames finds what tokens are called, those that are gone too.
func (s *Store) TokenNames(ctx context.Context, ids []id.Token) (map[id.Token]string, error) {
	out := map[id.Token]string{}
	if len(ids) == 0 {
		return out, nil
	}
	var w where
	in(&w, "id", ids)
	err := tokens().each(ctx, s.read, w.page("id", 0), w.args, func(t *tenancy.Token) error {
		out[t.ID] = t.Name
		return nil
	})
	return out, err
}

// TileFilter narrows a list of tiles; what is zero doesn't.
type TileFilter struct {
	From, To int64 // ns: tiles that overlap [From, To); To 0: no end
	Node     string
	Job      id.Job
}

// Tiles lists tiles by start, device and job, at most limit.
func (s *Store) Tiles(ctx context.Context, f TileFilter, limit int) ([]ledger.Tile, error) {
	w := f.where()
	return tiles().all(ctx, s.read, w.page("starts, device, job", limit), w.args...)
}

func (f TileFilter) where() (w where) {
	if f.From != 0 {
		w.add("(ends = 0 OR ends > ?)", f.From)
	}
	if f.To != 0 {
		w.add("starts < ?", f.To)
	}
	if f.Node != "" {
		w.add("node = ?", f.Node)
	}
	if f.Job != 0 {
		w.add("job <> 0 AND job = ?", int64(f.Job))
	}
	return w
}

// LogFilter narrows a list of log rows; what is zero doesn't.
type LogFilter struct {
	After    int64 // seq
	Job      id.Job
	From, To int64  // ns: those at [From, To)
	By       string // principal, by whichever token
	Account  id.Account
	Kind     string // or, with a dot at its end, what it begins with
	Row      string // that was put
	Changes  bool   // only those that say what was changed
}

// Log lists log rows by seq, at most limit.
func (s *Store) Log(ctx context.Context, f LogFilter, limit int) ([]world.Entry, error) {
	w := f.where()
	var out []world.Entry
	err := logRows().each(ctx, s.read, w.page("seq", limit), w.args, func(r *logRow) error {
		out = append(out, r.entry())
		return nil
	})
	return out, err
}

func (f LogFilter) where() (w where) {
	if f.After != 0 {
		w.add("seq > ?", f.After)
	}
	if f.Job != 0 {
		w.add("job <> 0 AND job = ?", int64(f.Job))
	}
	if f.From != 0 {
		w.add("at >= ?", f.From)
	}
	if f.To != 0 {
		w.add("at < ?", f.To)
	}
	if f.By != "" {
		w.add(`(principal = ? OR principal LIKE ? ESCAPE '\')`, f.By, like(f.By+" (")+"%)")
	}
	if f.Account != 0 {
		w.add("account = ?", int64(f.Account))
	}
	switch {
	case strings.HasSuffix(f.Kind, "."):
		w.add(`kind LIKE ? ESCAPE '\'`, like(f.Kind)+"%")
	case f.Kind != "":
		w.add("kind = ?", f.Kind)
	}
	if f.Row != "" {
		w.add(`(' ' || touched || ' ') LIKE ? ESCAPE '\'`, "% "+like(f.Row)+" %")
	}
	if f.Changes {
		w.add("changed <> ''")
	}
	return w
}

// like is text as a pattern that matches nothing else.
func like(text string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text)
}

// Sum is what a ledger account's transfers come to.
type Sum struct {
	Account ledger.Account
	Sum     money.Micros
}

// SumByAccount adds up all transfers by ledger account, in order of name, without
// those that come to zero.
func (s *Store) SumByAccount(ctx context.Context) ([]Sum, error) {
	var out []Sum
	err := sums(ctx, s.read, func(a ledger.Account, sum money.Micros) { out = append(out, Sum{a, sum}) })
	return out, err
}

// VerifyChain reads the whole log and checks every row's hash and its place. It
// returns how many rows are right; the error of the first that isn't is a
// *chain.Break. Rows that were cut off the end show only against a Seq and hash
// that are known from elsewhere, such as the world's.
func (s *Store) VerifyChain(ctx context.Context) (rows int64, err error) {
	var v chain.Verifier
	err = logRows().each(ctx, s.read, "ORDER BY seq", nil, func(r *logRow) error { return v.Next(r.entry()) })
	return v.Seq(), err
}
