package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/store/storetest"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

var postgres storetest.Server

// TestMain is a restore, too, which another test kills.
func TestMain(m *testing.M) {
	if os.Getenv("CROFT_TEST_RESTORE") != "" {
		os.Exit(restoreOrBackUp())
	}
	code := m.Run()
	postgres.Stop()
	os.Exit(code)
}

// backends are the databases that every test runs on.
var backends = map[string]func(testing.TB) store.Config{
	"sqlite":   func(tb testing.TB) store.Config { return store.Config{Path: filepath.Join(tb.TempDir(), "croft.db")} },
	"postgres": func(tb testing.TB) store.Config { return store.Config{DSN: postgres.DSN(tb)} },
}

// onEach runs a test on every database.
func onEach(t *testing.T, test func(t *testing.T, f *fixture)) {
	for name, config := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, cfg: config(t), world: world.New()}
			f.open()
			test(t, f)
		})
	}
}

// fixture is an open store and the world that its rows should make.
type fixture struct {
	t     *testing.T
	cfg   store.Config
	store *store.Store
	world *world.World
	head  store.Head
}

func (f *fixture) open() {
	f.t.Helper()
	s, err := store.Open(f.t.Context(), f.cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.store = s
	f.t.Cleanup(func() { _ = s.Close() })
	if f.head, err = s.Head(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// raw is a connection past the store.
func (f *fixture) raw() *sql.DB {
	f.t.Helper()
	driver, dsn := "sqlite", "file:"+f.cfg.Path+"?_pragma=busy_timeout(5000)"
	if f.cfg.DSN != "" {
		driver, dsn = "pgx", f.cfg.DSN
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = db.Close() })
	return db
}

func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.raw().Exec(query, args...); err != nil {
		f.t.Fatal(err)
	}
}

// batch makes the next log row out of changes, without committing it.
func (f *fixture) batch(after store.Head, changes ...world.Change) store.Batch {
	f.t.Helper()
	b := store.Batch{Changes: changes, Entry: world.Entry{
		Seq: after.Seq + 1, At: after.At + 1000, User: 3, Principal: "ada", Kind: "test", Command: []byte(`{"n":1}`),
		Touched: store.Touched(changes), Prev: after.Hash,
	}}
	f.hash(&b.Entry)
	return b
}

func (f *fixture) hash(e *world.Entry) {
	f.t.Helper()
	var err error
	if e.Hash, err = chain.Hash(*e); err != nil {
		f.t.Fatal(err)
	}
}

func headOf(b store.Batch, instance string) store.Head {
	return store.Head{Seq: b.Entry.Seq, At: b.Entry.At, Hash: b.Entry.Hash, Instance: instance}
}

// commit commits one row and folds it into the world.
func (f *fixture) commit(changes ...world.Change) {
	f.t.Helper()
	b := f.batch(f.head, changes...)
	if err := f.store.Commit(f.t.Context(), []store.Batch{b}); err != nil {
		f.t.Fatal(err)
	}
	f.fold(b)
}

func (f *fixture) fold(b store.Batch) {
	f.head = headOf(b, f.head.Instance)
	f.world.Seq, f.world.Now = f.head.Seq, f.head.At
	f.world.Fold(b.Changes)
}

// checkLoad compares the world with what is loaded.
func (f *fixture) checkLoad() {
	f.t.Helper()
	loaded, head := load(f.t, f.store)
	if diff := cmp.Diff(f.head, head); diff != "" {
		f.t.Errorf("head (-world +loaded):\n%s", diff)
	}
	if diff := cmp.Diff(storetest.Dump(f.world), storetest.Dump(loaded)); diff != "" {
		f.t.Errorf("(-world +loaded):\n%s", diff)
	}
}

func load(tb testing.TB, s *store.Store) (*world.World, store.Head) {
	tb.Helper()
	w := world.New()
	head, err := s.Load(tb.Context(), func(c world.Change) { w.Fold([]world.Change{c}) })
	if err != nil {
		tb.Fatal(err)
	}
	w.Seq, w.Now = head.Seq, head.At
	return w, head
}

// filled returns a T in which every field is set, each to something else.
func filled[T any](n *int64) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), n)
	return v
}

func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8, reflect.Int:
		v.SetInt(*n % 120)
		if v.Kind() == reflect.Int64 {
			v.SetInt(math.MaxInt64 - *n)
		}
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(33 + *n%90))
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d \" ' \\ é 日\n", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(k, n)
			fill(e, n)
			v.SetMapIndex(k, e)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic("fill: " + v.Kind().String())
	}
}

func TestEveryFieldIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		n := int64(0)
		account, user, member, token := filled[tenancy.Account](&n), filled[tenancy.User](&n), filled[tenancy.Member](&n), filled[tenancy.Token](&n)
		member.Role, token.Revoked = access.Manager, false
		partition, qos, price := filled[catalog.Partition](&n), filled[catalog.QoS](&n), filled[catalog.Price](&n)
		partition.Retired, qos.Retired = false, false
		image, folder, template := filled[asset.Image](&n), filled[asset.Folder](&n), filled[asset.Template](&n)
		image.Removed, folder.Removed, template.Removed = false, false, false
		limit := filled[limits.Limit](&n)
		limit.Removed = false
		period := filled[limits.Period](&n)
		period.Limit, period.Over = limit.ID, false
		grant, tile := filled[ledger.Grant](&n), filled[ledger.Tile](&n)
		tile.To = 0
		node, device, window := filled[placement.Node](&n), filled[placement.Device](&n), filled[placement.Maintenance](&n)
		window.Over = false
		reservation, booking := filled[placement.Reservation](&n), filled[placement.Booking](&n)
		reservation.Over, booking.Over = false, false
		job := filled[workload.Job](&n)
		job.State, job.Attempt.Until, job.Spec.Grace = workload.Running, 5, 6
		step := filled[workload.Step](&n)
		step.State = workload.Running
		f.commit(
			world.SiteSet{Row: filled[world.Site](&n)},
			tenancy.AccountSet{Row: account}, tenancy.UserSet{Row: user}, tenancy.MemberSet{Row: member}, tenancy.TokenSet{Row: token},
			tenancy.PasswordSet{Row: filled[tenancy.Password](&n)}, tenancy.CredentialSet{Row: filled[tenancy.Credential](&n)}, tenancy.SSHKeySet{Row: filled[tenancy.SSHKey](&n)},
			catalog.RepositorySet{Row: filled[catalog.Repository](&n)}, asset.ImageSet{Row: image}, asset.FolderSet{Row: folder}, asset.TemplateSet{Row: template},
			catalog.PartitionSet{Row: partition}, catalog.QoSSet{Row: qos}, catalog.PriceSet{Row: price},
			limits.LimitSet{Row: limit}, share.Set{Row: filled[share.Share](&n)}, limits.PeriodSet{Row: period}, fairshare.UseSet{Row: filled[fairshare.Use](&n)}, ledger.GrantSet{Row: grant}, allowance.Set{Row: filled[allowance.Allowance](&n)}, approval.RequestSet{Row: filled[approval.Request](&n)}, ledger.TileSet{Row: tile}, ledger.PeriodSet{Row: filled[ledger.Period](&n)},
			placement.NodeSet{Row: node}, placement.DeviceSet{Row: device}, placement.MaintenanceSet{Row: window},
			placement.ReservationSet{Row: reservation}, placement.BookingSet{Row: booking},
			workload.JobSet{Row: &job}, workload.StepSet{Row: &step},
		)
		f.checkLoad()
	})
}

func TestHistoryKeepsEveryField(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		n := int64(0)
		job, refusal, tile := filled[workload.Job](&n), filled[workload.Refusal](&n), filled[ledger.Tile](&n)
		job.State = workload.Ended
		transfer := filled[ledger.Transfer](&n)
		step := filled[workload.Step](&n)
		step.State = workload.Ended
		f.commit(workload.JobSet{Row: &job}, workload.StepSet{Row: &step}, workload.RefusalSet{Row: &refusal}, ledger.TileSet{Row: tile}, ledger.Posted{Row: transfer})

		gotJob, err := f.store.Job(ctx, job.ID)
		check(t, "job", gotJob, &job, err)
		for _, f2 := range []store.StepFilter{{}, {N: step.N}, {Added: step.Added}, {After: step.N - 1}} {
			steps, err := f.store.Steps(ctx, step.Job, f2, 0)
			check(t, "step", steps, []workload.Step{step}, err)
		}
		for _, f2 := range []store.StepFilter{{Live: true}, {N: step.N + 1}, {Added: step.Added + 1}, {After: step.N}} {
			steps, err := f.store.Steps(ctx, step.Job, f2, 0)
			check(t, "no step", steps, []workload.Step(nil), err)
		}
		gotRefusal, err := f.store.Refusal(ctx, refusal.ID)
		check(t, "refusal", gotRefusal, &refusal, err)
		gotTiles, err := f.store.Tiles(ctx, store.TileFilter{Job: tile.Job}, 0)
		check(t, "tiles", gotTiles, []ledger.Tile{tile}, err)
		gotTransfers, err := f.store.Transfers(ctx, store.TransferFilter{Ledger: transfer.To}, 0)
		check(t, "transfers", gotTransfers, []ledger.Transfer{transfer}, err)
	})
}

func check(t *testing.T, what string, got, want any, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLogKeepsEveryField(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		n := int64(0)
		b := f.batch(f.head)
		b.Entry.Event = world.Event{
			Job: 7, Refusal: 8, Account: 9, State: "queued", Message: "line\nline", Reasons: []fault.Reason{filled[fault.Reason](&n)},
		}
		b.Entry.Key = &world.Key{Name: "3 test k", Digest: "d", Seq: b.Entry.Seq, At: b.Entry.At, Job: 7, Refusal: 8}
		b.Changes = append(b.Changes, world.KeySet{Row: *b.Entry.Key})
		f.hash(&b.Entry)
		if err := f.store.Commit(t.Context(), []store.Batch{b}); err != nil {
			t.Fatal(err)
		}
		f.fold(b)
		f.checkLoad()
		got, err := f.store.Log(t.Context(), store.LogFilter{Job: 7}, 10)
		check(t, "log", got, []world.Entry{b.Entry}, err)
		if rows, err := f.store.VerifyChain(t.Context()); rows != 1 || err != nil {
			t.Errorf("VerifyChain = %d, %v", rows, err)
		}
	})
}

func TestWhatIsOverStaysOver(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.commit(
			tenancy.TokenSet{Row: tenancy.Token{ID: 1, Hash: "a"}}, tenancy.TokenSet{Row: tenancy.Token{ID: 2, Hash: "b"}},
			tenancy.PasswordSet{Row: tenancy.Password{User: 1, Hash: "h"}},
			tenancy.CredentialSet{Row: tenancy.Credential{User: 1, Registry: "a", Sealed: "s"}}, tenancy.CredentialSet{Row: tenancy.Credential{User: 1, Registry: "b", Sealed: "s"}},
			tenancy.SSHKeySet{Row: tenancy.SSHKey{Fingerprint: "a", User: 1, Blob: "k"}}, tenancy.SSHKeySet{Row: tenancy.SSHKey{Fingerprint: "b", User: 1, Blob: "k"}},
			tenancy.UserSet{Row: tenancy.User{ID: 1, Name: "ada", UID: 1001}}, tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: "nlp"}},
			tenancy.MemberSet{Row: tenancy.Member{Account: 1, User: 1, Role: access.Owner}},
			share.Set{Row: share.Share{ID: 4, Account: 1, Resource: limits.CPU}}, share.Set{Row: share.Share{ID: 3, Account: 1, Resource: limits.GPU}},
			limits.LimitSet{Row: limits.Limit{ID: 4, Resource: limits.CPU}}, limits.PeriodSet{Row: limits.Period{Limit: 4, From: 1, To: 2}},
			limits.LimitSet{Row: limits.Limit{ID: 3, Resource: limits.GPU}}, limits.PeriodSet{Row: limits.Period{Limit: 3, From: 1, To: 2}},
			placement.MaintenanceSet{Row: placement.Maintenance{ID: 5, Node: "*"}},
			placement.ReservationSet{Row: placement.Reservation{ID: 5, Name: "a"}}, placement.BookingSet{Row: placement.Booking{ID: 8, Reservation: 5}},
			placement.ReservationSet{Row: placement.Reservation{ID: 6, Name: "b"}}, placement.BookingSet{Row: placement.Booking{ID: 9, Reservation: 6}},
			ledger.TileSet{Row: ledger.Tile{Device: "d", From: 10}},
			workload.JobSet{Row: &workload.Job{ID: 6, State: workload.Queued, Path: []id.Account{1}}},
			workload.JobSet{Row: &workload.Job{ID: 7, State: workload.Queued, Path: []id.Account{1}}},
			workload.StepSet{Row: &workload.Step{Job: 7, N: 2, State: workload.Queued}}, workload.StepSet{Row: &workload.Step{Job: 7, N: 3, State: workload.Queued}},
		)
		f.checkLoad()
		f.commit(
			tenancy.TokenSet{Row: tenancy.Token{ID: 2, Hash: "b", Revoked: true}},
			tenancy.PasswordSet{Row: tenancy.Password{User: 1}}, tenancy.CredentialSet{Row: tenancy.Credential{User: 1, Registry: "a"}},
			tenancy.SSHKeySet{Row: tenancy.SSHKey{Fingerprint: "a", User: 1}}, tenancy.SSHKeySet{Row: tenancy.SSHKey{Fingerprint: "b", User: 2, Blob: "k"}},
			tenancy.UserSet{Row: tenancy.User{ID: 1, Name: "ada", UID: 1001, Retired: 5}}, tenancy.UserSet{Row: tenancy.User{ID: 2, Name: "ada", UID: 1001}},
			tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: "nlp", Retired: 5}}, tenancy.AccountSet{Row: tenancy.Account{ID: 2, Name: "nlp"}},
			tenancy.MemberSet{Row: tenancy.Member{Account: 1, User: 1}},
			limits.LimitSet{Row: limits.Limit{ID: 4, Resource: limits.CPU, Removed: true}}, share.Set{Row: share.Share{ID: 4, Account: 1, Resource: limits.CPU, Removed: true}},
			limits.PeriodSet{Row: limits.Period{Limit: 4, From: 1, To: 2, Over: true}},
			limits.PeriodSet{Row: limits.Period{Limit: 3, From: 1, To: 2, Over: true}},
			placement.MaintenanceSet{Row: placement.Maintenance{ID: 5, Node: "*", Over: true}},
			placement.ReservationSet{Row: placement.Reservation{ID: 5, Name: "a", Over: true}}, placement.BookingSet{Row: placement.Booking{ID: 8, Reservation: 5, Over: true}},
			placement.ReservationSet{Row: placement.Reservation{ID: 6, Name: "b", Over: true}}, placement.BookingSet{Row: placement.Booking{ID: 9, Reservation: 6, Over: true}},
			ledger.TileSet{Row: ledger.Tile{Device: "d", From: 10, To: 20}},
			workload.JobSet{Row: &workload.Job{ID: 6, State: workload.Ended, Path: []id.Account{1}}},
			workload.JobSet{Row: &workload.Job{ID: 7, State: workload.Ended, Path: []id.Account{1}}},
			workload.StepSet{Row: &workload.Step{Job: 7, N: 2, State: workload.Ended}},
			workload.RefusalSet{Row: &workload.Refusal{ID: 9}},
		)
		f.checkLoad()
	})
}

func TestLastRowOfABatchCounts(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		account := func(name string) world.Change {
			return tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: name}}
		}
		first := f.batch(f.head, account("a"), account("b"))
		second := f.batch(headOf(first, f.head.Instance), account("c"), ledger.TileSet{Row: ledger.Tile{Device: "d", From: 1}},
			ledger.TileSet{Row: ledger.Tile{Device: "d", From: 1, To: 5}}, ledger.TileSet{Row: ledger.Tile{Device: "d", From: 5}})
		if err := f.store.Commit(t.Context(), []store.Batch{first, second}); err != nil {
			t.Fatal(err)
		}
		f.fold(first)
		f.fold(second)
		f.checkLoad()
	})
}

func TestLargeBatch(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		var batches []store.Batch
		head := f.head
		for i := range int64(301) {
			b := f.batch(head,
				workload.JobSet{Row: &workload.Job{ID: id.Job(i + 1), State: workload.Queued, Path: []id.Account{1}, Spec: workload.Spec{Partition: "p"}}},
				ledger.Posted{Row: ledger.Transfer{ID: id.Transfer(2*i + 1), From: "funding:x", To: ledger.OfGrant(1), Amount: 3}},
				ledger.Posted{Row: ledger.Transfer{ID: id.Transfer(2*i + 2), From: ledger.OfGrant(1), To: ledger.Spent(1), Amount: 2}})
			batches, head = append(batches, b), headOf(b, head.Instance)
		}
		if err := f.store.Commit(t.Context(), batches); err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			f.fold(b)
		}
		f.checkLoad()
		if got := f.world.Ledger.Balance(ledger.OfGrant(1)); got != 301 {
			t.Errorf("balance %d", got)
		}
	})
}

func TestCommitIsAllOrNothing(t *testing.T) {
	posted := func(n id.Transfer, amount money.Micros) world.Change {
		return ledger.Posted{Row: ledger.Transfer{ID: n, From: "funding:x", To: "grant:1", Amount: amount}}
	}
	tests := map[string]struct {
		spoil func(f *fixture, b *store.Batch)
		want  error // nil: any that isn't one of the store's
	}{
		"transfer posted twice":  {func(_ *fixture, b *store.Batch) { b.Changes = append(b.Changes, posted(1, 5)) }, nil},
		"transfer of nothing":    {func(_ *fixture, b *store.Batch) { b.Changes = append(b.Changes, posted(9, 0)) }, nil},
		"unknown change":         {func(_ *fixture, b *store.Batch) { b.Changes = append(b.Changes, "?") }, nil},
		"gap in the log":         {func(_ *fixture, b *store.Batch) { b.Entry.Seq++ }, store.ErrStale},
		"other row before":       {func(_ *fixture, b *store.Batch) { b.Entry.Prev = "f00d" }, store.ErrStale},
		"another server has led": {func(f *fixture, _ *store.Batch) { f.exec("UPDATE leader SET epoch = epoch + 1") }, store.ErrDeposed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, f *fixture) {
				f.commit(posted(1, 5))
				b := f.batch(f.head, posted(2, 7))
				tt.spoil(f, &b)
				err := f.store.Commit(t.Context(), []store.Batch{b})
				if err == nil || errors.Is(err, store.ErrUnavailable) || tt.want != nil && !errors.Is(err, tt.want) {
					t.Fatalf("err = %v, want %v", err, tt.want)
				}
				f.checkLoad()
			})
		})
	}
}

func TestDeposedHead(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.exec("UPDATE leader SET epoch = epoch + 1")
		if _, err := f.store.Head(t.Context()); !errors.Is(err, store.ErrDeposed) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestOneServerAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		_, err := store.Open(t.Context(), f.cfg)
		if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf(":%d", os.Getpid())) {
			t.Fatalf("second server: %v", err)
		}
		f.commit(tenancy.AccountSet{Row: tenancy.Account{ID: 1}}) // the first goes on
		if err := f.store.Close(); err != nil {
			t.Fatal(err)
		}
		instance := f.head.Instance
		f.open()
		if f.head.Instance != instance || instance == "" {
			t.Errorf("instance %q became %q", instance, f.head.Instance)
		}
		f.checkLoad()
	})
}

// Whoever has given the database up may keep its lock for a moment, in which it isn't
// noticed that the connection is closed: the next server waits for that.
func TestALockThatIsBeingGivenUp(t *testing.T) {
	f := &fixture{t: t, cfg: backends["postgres"](t), world: world.New()}
	f.open()
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	db := f.raw()
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", 0x63726f6674)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _, _ = conn.Close(), db.Close() })
	f.open()
	f.checkLoad()
}

func TestNewerSchemaIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
		if err := f.store.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(t.Context(), f.cfg)
		if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "9999") {
			t.Errorf("err = %v", err)
		}
	})
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]store.Config{
		"neither":      {},
		"both":         {Path: "x", DSN: "y"},
		"no directory": {Path: filepath.Join(t.TempDir(), "none", "croft.db")},
		"not a DSN":    {DSN: "postgres://user:secret@[::1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(context.Background(), cfg)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		if _, err := f.store.Job(t.Context(), 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("job: %v", err)
		}
		if _, err := f.store.Refusal(t.Context(), 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("refusal: %v", err)
		}
	})
}
