package store

import (
	"context"
	"encoding/json"

	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Load streams everything that lives as changes, from one snapshot of the
// database: folded into an empty world they make the world that wrote them, but
// for its Seq and Now, which are the Head's. Where the greatest id handed out
// matters, its row is among them though it is over.
func (s *Store) Load(ctx context.Context, fold func(world.Change)) (Head, error) {
	tx, err := s.read.BeginTx(ctx, &s.dialect.snapshot)
	if err != nil {
		return Head{}, wrap("loading", err)
	}
	defer tx.Rollback() // it has only read
	head, err := readHead(ctx, tx)
	if err != nil {
		return Head{}, err
	}
	l := loader{ctx, tx, fold}
	err = inOrder(l.site, l.tenancy, l.catalog, l.ledger, l.placement, l.workload,
		func() error { return l.keys(head.At - world.KeyLife) })
	return head, err
}

func inOrder(parts ...func() error) error {
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

type loader struct {
	ctx  context.Context
	q    querier
	fold func(world.Change)
}

// load returns what streams the rows of one relation as the changes that as makes of them.
func load[R any](l loader, rel *relation[R], rest string, as func(*R) world.Change) func() error {
	return func() error {
		return rel.each(l.ctx, l.q, rest, nil, func(r *R) error {
			l.fold(as(r))
			return nil
		})
	}
}

func (l loader) site() error {
	return settings().each(l.ctx, l.q, "WHERE name = $1", []any{settingSite}, func(r *setting) error {
		var row world.Site
		if err := json.Unmarshal([]byte(r.value), &row); err != nil {
			return err
		}
		l.fold(world.SiteSet{Row: row})
		return nil
	})
}

func (l loader) tenancy() error {
	return inOrder(
		load(l, accounts(), "ORDER BY id", func(r *tenancy.Account) world.Change { return tenancy.AccountSet{Row: *r} }),
		load(l, persons(), "ORDER BY id", func(r *tenancy.User) world.Change { return tenancy.UserSet{Row: *r} }),
		load(l, members(), "WHERE role <> '' ORDER BY account, person",
			func(r *tenancy.Member) world.Change { return tenancy.MemberSet{Row: *r} }),
		load(l, tokens(), "WHERE NOT revoked ORDER BY id", func(r *tenancy.Token) world.Change { return tenancy.TokenSet{Row: *r} }),
		load(l, passwords(), "WHERE hash <> '' ORDER BY person", func(r *tenancy.Password) world.Change { return tenancy.PasswordSet{Row: *r} }),
		load(l, credentials(), "WHERE sealed <> '' ORDER BY person, registry", func(r *tenancy.Credential) world.Change { return tenancy.CredentialSet{Row: *r} }),
		load(l, sshKeys(), "WHERE blob <> '' ORDER BY fingerprint", func(r *tenancy.SSHKey) world.Change { return tenancy.SSHKeySet{Row: *r} }),
		load(l, contacts(), "WHERE address <> '' OR wants <> '' ORDER BY person", func(r *notice.Contact) world.Change { return notice.ContactSet{Row: *r} }),
		load(l, creditLevels(), "WHERE percent <> 0 OR overdrawn ORDER BY account", func(r *notice.Level) world.Change { return notice.LevelSet{Row: *r} }),
		load(l, hooks(), "WHERE sealed <> '' ORDER BY person, name", func(r *notice.Hook) world.Change { return notice.HookSet{Row: *r} }),
		l.greatest("SELECT COALESCE(MAX(id), 0), 0 FROM token", func(n, _ int64) world.Change {
			return tenancy.Counted{Token: id.Token(n)}
		}),
	)
}

func (l loader) catalog() error {
	return inOrder(
		load(l, partitions(), "WHERE NOT retired ORDER BY name", func(r *catalog.Partition) world.Change { return catalog.PartitionSet{Row: *r} }),
		load(l, qualities(), "WHERE NOT retired ORDER BY name", func(r *catalog.QoS) world.Change { return catalog.QoSSet{Row: *r} }),
		load(l, repositories(), "ORDER BY name", func(r *catalog.Repository) world.Change { return catalog.RepositorySet{Row: *r} }),
		load(l, savedImages(), "WHERE NOT removed ORDER BY ref", func(r *asset.Image) world.Change { return asset.ImageSet{Row: *r} }),
		load(l, folders(), "WHERE NOT removed ORDER BY account, name", func(r *asset.Folder) world.Change { return asset.FolderSet{Row: *r} }),
		load(l, templates(), "WHERE NOT removed ORDER BY person, name", func(r *asset.Template) world.Change { return asset.TemplateSet{Row: *r} }),
		load(l, prices(), "ORDER BY id", func(r *catalog.Price) world.Change { return catalog.PriceSet{Row: *r} }),
		load(l, bounds(), "WHERE NOT removed OR id = (SELECT MAX(id) FROM limits) ORDER BY id",
			func(r *limits.Limit) world.Change { return limits.LimitSet{Row: *r} }),
		load(l, queueShares(), "WHERE NOT removed OR id = (SELECT MAX(id) FROM queue_share) ORDER BY id",
			func(r *share.Share) world.Change { return share.Set{Row: *r} }),
		load(l, shares(), "ORDER BY account, person", func(r *fairshare.Use) world.Change { return fairshare.UseSet{Row: *r} }),
		load(l, periods(), "WHERE NOT over ORDER BY limit_id, starts", func(r *limits.Period) world.Change { return limits.PeriodSet{Row: *r} }),
	)
}

func (l loader) ledger() error {
	return inOrder(
		load(l, grants(), "ORDER BY id", func(r *ledger.Grant) world.Change { return ledger.GrantSet{Row: *r} }),
		load(l, allowances(), "ORDER BY id", func(r *allowance.Allowance) world.Change { return allowance.Set{Row: *r} }),
		load(l, requests(), "ORDER BY id", func(r *approval.Request) world.Change { return approval.RequestSet{Row: *r} }),
		load(l, tiles(), "WHERE ends = 0 ORDER BY device, starts, job", func(r *ledger.Tile) world.Change { return ledger.TileSet{Row: *r} }),
		load(l, closedPeriods(), "ORDER BY starts", func(r *ledger.Period) world.Change { return ledger.PeriodSet{Row: *r} }),
		func() error {
			return sums(l.ctx, l.q, func(a ledger.Account, sum money.Micros) {
				l.fold(ledger.BalanceSet{Account: a, Sum: sum})
			})
		},
		l.spending,
		l.tokenSpending,
		l.greatest("SELECT COALESCE(MAX(id), 0), 0 FROM transfer", func(n, _ int64) world.Change {
			return ledger.Counted{Transfer: id.Transfer(n)}
		}),
	)
}

func (l loader) placement() error {
	return inOrder(
		load(l, nodes(), "ORDER BY name", func(r *placement.Node) world.Change { return placement.NodeSet{Row: *r} }),
		load(l, devices(), "ORDER BY uuid", func(r *placement.Device) world.Change { return placement.DeviceSet{Row: *r} }),
		load(l, windows(), "WHERE NOT closed OR id = (SELECT MAX(id) FROM maintenance) ORDER BY id",
			func(r *placement.Maintenance) world.Change { return placement.MaintenanceSet{Row: *r} }),
		load(l, reservations(), "WHERE NOT closed OR id = (SELECT MAX(id) FROM reservation) ORDER BY id",
			func(r *placement.Reservation) world.Change { return placement.ReservationSet{Row: *r} }),
		load(l, bookings(), "WHERE NOT closed OR id = (SELECT MAX(id) FROM booking) ORDER BY id",
			func(r *placement.Booking) world.Change { return placement.BookingSet{Row: *r} }),
	)
}

func (l loader) workload() error {
	return inOrder(
		load(l, jobs(), "WHERE state <> 'ended' ORDER BY id", func(r *workload.Job) world.Change { return workload.JobSet{Row: r} }),
		load(l, steps(), "WHERE state <> 'ended' ORDER BY job, n", func(r *workload.Step) world.Change { return workload.StepSet{Row: r} }),
		l.greatest("SELECT (SELECT COALESCE(MAX(id), 0) FROM job), (SELECT COALESCE(MAX(id), 0) FROM refusal)",
			func(job, refusal int64) world.Change {
				return workload.Counted{Job: id.Job(job), Refusal: id.Refusal(refusal)}
			}),
	)
}

func (l loader) keys(since int64) error {
	return logRows().each(l.ctx, l.q, "WHERE key_name <> '' AND at >= $1 ORDER BY seq", []any{since}, func(r *logRow) error {
		l.fold(world.KeySet{Row: *r.entry().Key})
		return nil
	})
}

func (l loader) greatest(query string, as func(a, b int64) world.Change) func() error {
	return func() error {
		var a, b int64
		if err := l.q.QueryRowContext(l.ctx, query).Scan(&a, &b); err != nil {
			return wrap("reading the greatest ids", err)
		}
		l.fold(as(a, b))
		return nil
	}
}

// spending adds up what each user was charged in each account on each day.
func (l loader) spending() error {
	rows, err := l.q.QueryContext(l.ctx, `SELECT account, day, person, CAST(SUM(spent) AS BIGINT) FROM spent_day
		WHERE person <> 0 GROUP BY account, day, person HAVING SUM(spent) <> 0`)
	if err != nil {
		return wrap("summing what users spent", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r ledger.Spending
		if err := rows.Scan(&r.Account, &r.Day, &r.User, &r.Amount); err != nil {
			return wrap("summing what users spent", err)
		}
		l.fold(ledger.SpendingSet{Row: r})
	}
	return wrap("summing what users spent", rows.Err())
}

// tokenSpending adds up what the jobs of each token were charged on each day.
func (l loader) tokenSpending() error {
	rows, err := l.q.QueryContext(l.ctx, `SELECT job.token, s.day, CAST(SUM(s.spent) AS BIGINT) FROM job JOIN spent_day s ON s.job = job.id
		WHERE job.token <> 0 AND s.person <> 0 GROUP BY job.token, s.day HAVING SUM(s.spent) <> 0`)
	if err != nil {
		return wrap("summing what tokens spent", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r ledger.TokenSpending
		if err := rows.Scan(&r.Token, &r.Day, &r.Amount); err != nil {
			return wrap("summing what tokens spent", err)
		}
		l.fold(ledger.TokenSpendingSet{Row: r})
	}
	return wrap("summing what tokens spent", rows.Err())
}

// sums adds the transfers up by ledger account, without those that come to zero.
func sums(ctx context.Context, q querier, each func(ledger.Account, money.Micros)) error {
	rows, err := q.QueryContext(ctx, `SELECT account, CAST(SUM(amount) AS BIGINT) FROM (
			SELECT target AS account, amount FROM transfer
			UNION ALL SELECT source, -amount FROM transfer) AS moves
		GROUP BY account HAVING SUM(amount) <> 0 ORDER BY account`)
	if err != nil {
		return wrap("summing transfers", err)
	}
	defer rows.Close()
	for rows.Next() {
		var a ledger.Account
		var sum money.Micros
		if err := rows.Scan(&a, &sum); err != nil {
			return wrap("summing transfers", err)
		}
		each(a, sum)
	}
	return wrap("summing transfers", rows.Err())
}
