package store

import (
	"context"
	"database/sql"
	"fmt"

	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// batchRows is what a commit puts, table by table.
type batchRows struct {
	accounts     *pending[tenancy.Account]
	persons      *pending[tenancy.User]
	members      *pending[tenancy.Member]
	tokens       *pending[tenancy.Token]
	passwords    *pending[tenancy.Password]
	credentials  *pending[tenancy.Credential]
	sshKeys      *pending[tenancy.SSHKey]
	contacts     *pending[notice.Contact]
	levels       *pending[notice.Level]
	hooks        *pending[notice.Hook]
	partitions   *pending[catalog.Partition]
	repositories *pending[catalog.Repository]
	images       *pending[asset.Image]
	folders      *pending[asset.Folder]
	templates    *pending[asset.Template]
	qualities    *pending[catalog.QoS]
	prices       *pending[catalog.Price]
	bounds       *pending[limits.Limit]
	queues       *pending[share.Share]
	shares       *pending[fairshare.Use]
	periods      *pending[limits.Period]
	grants       *pending[ledger.Grant]
	allowances   *pending[allowance.Allowance]
	requests     *pending[approval.Request]
	transfers    *pending[ledger.Transfer]
	moneyDays    *pending[MoneyDay]
	spentDays    *pending[SpentDay]
	tiles        *pending[ledger.Tile]
	closed       *pending[ledger.Period]
	jobs         *pending[workload.Job]
	steps        *pending[workload.Step]
	refusals     *pending[workload.Refusal]
	nodes        *pending[placement.Node]
	devices      *pending[placement.Device]
	windows      *pending[placement.Maintenance]
	reserved     *pending[placement.Reservation]
	bookings     *pending[placement.Booking]
	settings     *pending[setting]
	log          *pending[logRow]

	daily   daily
	inOrder []putter
}

func newBatchRows() *batchRows {
	b := &batchRows{daily: daily{map[MoneyDay]*MoneyDay{}, map[SpentDay]*SpentDay{}}}
	b.accounts = gather(b, accounts())
	b.persons = gather(b, persons())
	b.members = gather(b, members())
	b.tokens = gather(b, tokens())
	b.passwords = gather(b, passwords())
	b.credentials = gather(b, credentials())
	b.sshKeys = gather(b, sshKeys())
	b.contacts = gather(b, contacts())
	b.levels = gather(b, creditLevels())
	b.hooks = gather(b, hooks())
	b.partitions = gather(b, partitions())
	b.repositories = gather(b, repositories())
	b.images = gather(b, savedImages())
	b.folders = gather(b, folders())
	b.templates = gather(b, templates())
	b.qualities = gather(b, qualities())
	b.prices = gather(b, prices())
	b.bounds = gather(b, bounds())
	b.queues = gather(b, queueShares())
	b.shares = gather(b, shares())
	b.periods = gather(b, periods())
	b.grants = gather(b, grants())
	b.allowances = gather(b, allowances())
	b.requests = gather(b, requests())
	b.transfers = gather(b, transfers())
	b.moneyDays = gather(b, moneyDays())
	b.spentDays = gather(b, spentDays())
	b.tiles = gather(b, tiles())
	b.closed = gather(b, closedPeriods())
	b.jobs = gather(b, jobs())
	b.steps = gather(b, steps())
	b.refusals = gather(b, refusals())
	b.nodes = gather(b, nodes())
	b.devices = gather(b, devices())
	b.windows = gather(b, windows())
	b.reserved = gather(b, reservations())
	b.bookings = gather(b, bookings())
	b.settings = gather(b, settings())
	b.log = gather(b, logRows())
	return b
}

func gather[R any](b *batchRows, rel *relation[R]) *pending[R] {
	p := &pending[R]{rel: rel, at: map[[3]any]int{}}
	b.inOrder = append(b.inOrder, p)
	return p
}

// reset forgets all rows and keeps the room.
func (b *batchRows) reset() {
	for _, p := range b.inOrder {
		p.reset()
	}
	clear(b.daily.money)
	clear(b.daily.spent)
}

// puts makes the statements that write all rows. It needs the writing connection:
// call it before a transaction has that.
func (b *batchRows) puts(ctx context.Context, s *statements) ([]put, error) {
	var all []put
	for _, p := range b.inOrder {
		var err error
		if all, err = p.puts(ctx, s, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// put is a statement with its arguments.
type put struct {
	statement
	prepared *sql.Stmt
	args     []any
}

func (p put) do(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.StmtContext(ctx, p.prepared).ExecContext(ctx, p.args...); err != nil {
		return fmt.Errorf("writing %d of %s: %w", p.rows, p.table, err)
	}
	return nil
}

type putter interface {
	puts(ctx context.Context, s *statements, dst []put) ([]put, error)
	reset()
}

// pending is the rows of one table that a commit puts.
type pending[R any] struct {
	rel  *relation[R]
	rows []*R
	at   map[[3]any]int // place in rows by key
}

func (p *pending[R]) reset() {
	clear(p.rows)
	clear(p.at)
	p.rows = p.rows[:0]
}

// put adds a row. A row with the same key is replaced, unless the table is
// append-only, when the database refuses both, or adds, when its caller adds them up.
func (p *pending[R]) put(row *R) error {
	if p.rel.append || p.rel.adds {
		p.rows = append(p.rows, row)
		return nil
	}
	var key [3]any
	for i, c := range p.rel.columns[:p.rel.keys] {
		v, err := c.get(row)
		if err != nil {
			return err
		}
		key[i] = v
	}
	if i, ok := p.at[key]; ok {
		p.rows[i] = row
		return nil
	}
	p.at[key] = len(p.rows)
	p.rows = append(p.rows, row)
	return nil
}

func (p *pending[R]) puts(ctx context.Context, s *statements, dst []put) ([]put, error) {
	for rows := p.rows; len(rows) > 0; {
		n := chunk(len(rows), s.params/len(p.rel.columns))
		next := put{statement: statement{p.rel.name, n}, args: make([]any, 0, n*len(p.rel.columns))}
		var err error
		for _, row := range rows[:n] {
			if next.args, err = p.rel.args(next.args, row); err != nil {
				return nil, err
			}
		}
		if next.prepared, err = s.get(ctx, next.statement, p.rel.insertSQL); err != nil {
			return nil, err
		}
		dst, rows = append(dst, next), rows[n:]
	}
	return dst, nil
}

// maxChunk is the most rows that one statement puts: beyond it the cost of a
// statement is small against that of its rows.
const maxChunk = 128

// chunk is how many of n rows the next statement takes: a power of two, so that a
// handful of prepared statements serves every number.
func chunk(n, most int) int {
	size := 1
	for size*2 <= min(n, most, maxChunk) {
		size *= 2
	}
	return size
}

// statements keeps prepared statements of the writing connection.
type statements struct {
	db       *sql.DB
	params   int  // of one statement, at most
	numbered bool // parameters
	ready    map[statement]*sql.Stmt
}

type statement struct {
	table string
	rows  int
}

func (s *statements) get(ctx context.Context, k statement, text func(n int, numbered bool) string) (*sql.Stmt, error) {
	if st, ok := s.ready[k]; ok {
		return st, nil
	}
	st, err := s.db.PrepareContext(ctx, text(k.rows, s.numbered))
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", k.table, err)
	}
	s.ready[k] = st
	return st, nil
}

func (s *statements) close() {
	for _, st := range s.ready {
		_ = st.Close() // the connection is closed next
	}
	clear(s.ready)
}
