package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sort"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Period is the time that a statement is about: [From, To), ns since the epoch, whole
// days. What is open counts up to Now, if that is earlier.
type Period struct{ From, To, Now int64 }

// Until is where what is still open ends in the period.
func (p Period) Until() int64 { return max(p.From, min(p.To, p.Now)) }

// Days are the period's days: [first, end).
func (p Period) Days() (first, end int64) { return p.From / Day, (p.To + Day - 1) / Day }

// Books reads what was recorded, all of it as of one row of the log.
type Books struct {
	q   querier
	ctx context.Context
}

// Books calls read with the books as they are, whatever is written meanwhile.
func (s *Store) Books(ctx context.Context, read func(*Books) error) error {
	tx, err := s.read.BeginTx(ctx, &s.dialect.snapshot)
	if err != nil {
		return wrap("opening the books", err)
	}
	defer tx.Rollback() // it has only read
	return read(&Books{q: tx, ctx: ctx})
}

// Seq is the row of the log that the books are of.
func (b *Books) Seq() (seq int64, err error) {
	err = b.q.QueryRowContext(b.ctx, "SELECT COALESCE(MAX(seq), 0) FROM log").Scan(&seq)
	return seq, wrap("reading the log's end", err)
}

// Money calls each for every day of the accounts' money and of their grants', whoever
// spent them.
func (b *Books) Money(accounts []id.Account, grants []id.Grant, each func(*MoneyDay)) error {
	var w where
	in(&w, "account", accounts)
	if len(grants) > 0 {
		var g where
		g.args = w.args
		in(&g, "grant_id", grants)
		w.text, w.args = []string{"(" + w.text[0] + " OR grant_id <> 0 AND " + g.text[0] + ")"}, g.args
	}
	return moneyDays().each(b.ctx, b.q, w.page("day, account, grant_id", 0), w.args, func(r *MoneyDay) error {
		each(r)
		return nil
	})
}

// Spent calls each for what the accounts were charged in a period, an attempt's days one
// after another.
func (b *Books) Spent(accounts []id.Account, p Period, each func(*SpentDay)) error {
	first, end := p.Days()
	var w where
	in(&w, "account", accounts)
	w.add("day >= ?", first)
	w.add("day < ?", end)
	return spentDays().each(b.ctx, b.q, w.page("account, day, person, job, attempt, grant_id", 0), w.args, func(r *SpentDay) error {
		each(r)
		return nil
	})
}

// SpentOf is what was spent of grants since a day, by whomever.
func (b *Books) SpentOf(all []id.Grant, since int64) (map[id.Grant]money.Micros, error) {
	out := map[id.Grant]money.Micros{}
	for some := range slices.Chunk(all, many) {
		var w where
		in(&w, "grant_id", some)
		w.add("grant_id <> 0") // which has an index
		w.add("day >= ?", since)
		err := moneyDays().each(b.ctx, b.q, w.page("grant_id, day", 0), w.args, func(d *MoneyDay) error {
			out[d.Grant] += d.Spent
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Tiles calls each for the device time that the accounts paid for in a period, as it is
// recorded: it may begin before and end after.
func (b *Books) Tiles(accounts []id.Account, p Period, each func(*ledger.Tile)) error {
	var w where
	in(&w, "account", accounts)
	w.overlap(p)
	return b.tiles(w, each)
}

// DeviceTiles calls each for all device time in a period, or for that of the devices that
// were on some nodes in it.
func (b *Books) DeviceTiles(nodes []string, p Period, each func(*ledger.Tile)) error {
	var w where
	w.overlap(p)
	if len(nodes) > 0 {
		there := where{args: w.args}
		in(&there, "node", nodes)
		there.overlap(p)
		w.text, w.args = append(w.text, "device IN (SELECT device FROM tile WHERE "+strings.Join(there.text, " AND ")+")"), there.args
	}
	return b.tiles(w, each)
}

func (b *Books) tiles(w where, each func(*ledger.Tile)) error {
	return tiles().each(b.ctx, b.q, w.page("device, starts, job", 0), w.args, func(t *ledger.Tile) error {
		each(t)
		return nil
	})
}

// overlap narrows to tiles that have time in the period.
func (w *where) overlap(p Period) {
	w.add("(ends = 0 OR ends > ?)", p.From)
	w.add("starts < ?", p.Until())
}

// Seen is the end of a device's last tile before a time; 0: there is none.
func (b *Books) Seen(device string, before int64) (ends int64, err error) {
	err = b.q.QueryRowContext(b.ctx, "SELECT COALESCE(MAX(ends), 0) FROM tile WHERE device = $1 AND starts < $2", device, before).Scan(&ends)
	return ends, wrap("reading tiles", err)
}

// Withdrawn reports whether the inventory of moment t was about a device. Time in the log
// never goes back, so the row is found by halving.
func (b *Books) Withdrawn(device string, t int64) (bool, error) {
	seq, err := b.Seq()
	if err != nil {
		return false, err
	}
	from := sort.Search(int(seq), func(i int) bool {
		var at int64
		if scan := b.q.QueryRowContext(b.ctx, "SELECT at FROM log WHERE seq > $1 ORDER BY seq LIMIT 1", i).Scan(&at); scan != nil {
			err = scan
		}
		return at >= t
	})
	if err != nil {
		return false, wrap("reading the log", err)
	}
	found, past := false, errors.New("past that moment")
	err = logRows().each(b.ctx, b.q, "WHERE seq > $1 ORDER BY seq", []any{from}, func(r *logRow) error {
		if r.At != t {
			return past
		}
		found = found || r.Kind == "node.observed" && slices.Contains(strings.Fields(r.Touched), "device:"+device)
		return nil
	})
	if err != nil && !errors.Is(err, past) {
		return false, err
	}
	return found, nil
}

// Posted is what the postings of a period charged the accounts, net: every posting is
// read, none of the daily sums.
func (b *Books) Posted(accounts []id.Account, p Period) (money.Micros, error) {
	first, end := p.Days()
	var w where
	in(&w, "account", accounts)
	w.add("account <> 0")
	w.add("at >= ?", first*Day)
	w.add("at < ?", end*Day)
	w.add("kind IN (?, ?, ?)", string(ledger.KindCharge), string(ledger.KindCorrect), string(ledger.KindRefund))
	var charged, back sql.NullInt64
	err := b.q.QueryRowContext(b.ctx, `SELECT CAST(SUM(CASE WHEN kind = 'charge' THEN amount END) AS BIGINT),
		CAST(SUM(CASE WHEN kind <> 'charge' THEN amount END) AS BIGINT)
		FROM transfer WHERE `+strings.Join(w.text, " AND "), w.args...).Scan(&charged, &back)
	return money.Micros(charged.Int64 - back.Int64), wrap("summing transfers", err)
}

// Unused is what the accounts were ever charged for reservations that nobody used, by
// their postings and by the device time.
func (b *Books) Unused(accounts []id.Account) (posted, metered money.Micros, err error) {
	var w where
	in(&w, "account", accounts)
	mine := strings.Join(w.text, " AND ")
	err = b.q.QueryRowContext(b.ctx, `SELECT
		(SELECT CAST(COALESCE(SUM(spent), 0) AS BIGINT) FROM spent_day WHERE job = 0 AND `+mine+`),
		(SELECT CAST(COALESCE(SUM(posted), 0) AS BIGINT) FROM tile WHERE cause = 'reserved' AND `+mine+`)`, w.args...).Scan(&posted, &metered)
	return posted, metered, wrap("summing what was reserved", err)
}

// Over calls each for the accounts' jobs that ended in a period.
func (b *Books) Over(accounts []id.Account, p Period, each func(*workload.Job) error) error {
	var w where
	in(&w, "account", accounts)
	w.add("ended <> 0")
	w.add("ended >= ?", p.From)
	w.add("ended < ?", p.To)
	return jobs().each(b.ctx, b.q, w.page("id", 0), w.args, each)
}

// many is how many ids one question is asked about.
const many = 500

// Jobs calls each for the jobs with these ids, ended or not.
func (b *Books) Jobs(ids []id.Job, each func(*workload.Job) error) error {
	return chunks(ids, func(ids []id.Job) error {
		var w where
		in(&w, "id", ids)
		return jobs().each(b.ctx, b.q, w.page("id", 0), w.args, each)
	})
}

// Steps calls each for the further steps of these jobs.
func (b *Books) Steps(ids []id.Job, each func(*workload.Step) error) error {
	return chunks(ids, func(ids []id.Job) error {
		var w where
		in(&w, "job", ids)
		return steps().each(b.ctx, b.q, w.page("job, n", 0), w.args, each)
	})
}

// TokensOf finds the tokens by which jobs were submitted, of those that were by one.
func (b *Books) TokensOf(ids []id.Job) (map[id.Job]tenancy.ByToken, error) {
	out := map[id.Job]tenancy.ByToken{}
	return out, chunks(ids, func(ids []id.Job) error {
		var w where
		in(&w, "job.id", ids)
		w.add("job.token <> 0")
		rows, err := b.q.QueryContext(b.ctx, "SELECT job.id, token.id, token.name FROM job JOIN token ON token.id = job.token WHERE "+strings.Join(w.text, " AND "), w.args...)
		if err != nil {
			return wrap("reading tokens", err)
		}
		defer rows.Close()
		for rows.Next() {
			var j id.Job
			var t tenancy.ByToken
			if err := rows.Scan(&j, &t.ID, &t.Name); err != nil {
				return wrap("reading tokens", err)
			}
			out[j] = t
		}
		return wrap("reading tokens", rows.Err())
	})
}

// Transfers lists every posting of a job.
func (b *Books) Transfers(job id.Job) ([]ledger.Transfer, error) {
	w := TransferFilter{Job: job}.where()
	return transfers().all(b.ctx, b.q, w.page("id", 0), w.args...)
}

func chunks(ids []id.Job, ask func([]id.Job) error) error {
	for len(ids) > 0 {
		n := min(many, len(ids))
		if err := ask(ids[:n]); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// DailyDiffers compares the daily sums with the postings that they are of: what is the
// first difference, "" if there is none, and how many sums there are.
func (s *Store) DailyDiffers(ctx context.Context) (rows int64, first string, err error) {
	const day = " / 86400000000000"
	for _, text := range []string{`SELECT 'account ' || account || ' on day ' || day || ', grant ' || grant_id, CAST(SUM(a) AS BIGINT), CAST(SUM(b) AS BIGINT), CAST(SUM(c) AS BIGINT), CAST(SUM(d) AS BIGINT) FROM (
			SELECT account, day, grant_id, given AS a, aside AS b, spent AS c, expired AS d FROM money_day
			UNION ALL SELECT account, at` + day + `, grant_id,
				-(CASE WHEN kind IN ('grant', 'carry') THEN amount WHEN kind = 'give_up' THEN -amount ELSE 0 END),
				-(CASE WHEN kind = 'correct' OR kind = 'deposit' AND source NOT LIKE 'deposit:%' THEN amount WHEN kind IN ('charge', 'return') THEN -amount ELSE 0 END),
				-(CASE WHEN kind IN ('charge', 'repay') THEN amount WHEN kind IN ('correct', 'refund', 'unpay') THEN -amount ELSE 0 END),
				-(CASE WHEN kind = 'expire' OR kind IN ('return', 'refund', 'unpay') AND target = 'expired' THEN amount ELSE 0 END)
			FROM transfer WHERE account <> 0 AND kind <> 'waste'
			UNION ALL SELECT account, at` + day + `, CAST(SUBSTR(source, 7) AS BIGINT), amount, 0, 0, 0 FROM transfer WHERE kind = 'carry'
			UNION ALL SELECT account, at` + day + `, 0, 0, 0, CASE WHEN kind = 'repay' THEN amount ELSE -amount END, 0 FROM transfer WHERE kind IN ('repay', 'unpay')) AS both_sides
		GROUP BY account, day, grant_id HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0 ORDER BY 1 LIMIT 1`,
		`SELECT 'job ' || job || ', attempt ' || attempt || ', account ' || account || ' on day ' || day || ', grant ' || grant_id, 0, 0, CAST(SUM(a) AS BIGINT), CAST(SUM(b) AS BIGINT) FROM (
			SELECT account, day, person, job, attempt, grant_id, spent AS a, lost AS b FROM spent_day
			UNION ALL SELECT account, at` + day + `, person, job, attempt, grant_id,
				-(CASE WHEN kind = 'charge' THEN amount WHEN kind IN ('correct', 'refund') THEN -amount ELSE 0 END),
				-(CASE WHEN kind = 'waste' AND target = 'waste:ending' AND job <> 0 THEN amount ELSE 0 END)
			FROM transfer WHERE account <> 0) AS both_sides
		GROUP BY account, day, person, job, attempt, grant_id HAVING SUM(a) <> 0 OR SUM(b) <> 0 ORDER BY 1 LIMIT 1`} {
		var a, b, c, d money.Micros
		switch err := s.read.QueryRowContext(ctx, text).Scan(&first, &a, &b, &c, &d); err {
		case nil:
			return 0, first + ": the daily sums and the postings differ by " + strings.Join([]string{a.String(), b.String(), c.String(), d.String()}, ", ") +
				" (given, set aside, spent, expired or lost)", nil
		case sql.ErrNoRows:
		default:
			return 0, "", wrap("comparing daily sums", err)
		}
	}
	err = s.read.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM money_day) + (SELECT COUNT(*) FROM spent_day)").Scan(&rows)
	return rows, "", wrap("counting daily sums", err)
}
