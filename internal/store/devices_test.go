package store_test

import (
	"math"
	"testing"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// beforeParts is rows as they were written when devices were counted whole.
var beforeParts = []string{
	`INSERT INTO job (id, person, account, state, partition, submitted, ended, seq, outcome, deposit, charged, returned, spec, body) VALUES
		(1, 3, 2, 'running', 'main', 5, 0, 1, '', 0, 0, 0,
		 '{"image":"a:1","env":{"gpu":"9"},"gpu":2,"model":"a|b","mixed":true,"cpu":1000,"mem":9,"time":7}',
		 '{"path":[2,1],"attempt":{"N":2,"Node":"n1","Devices":["u1","u2"],"Models":[{"Model":"a","Count":1},{"Model":"b","Count":1}],"Until":9,"Rate":5},"past":[{"N":1,"Models":[{"Model":"a","Count":2}]},{"N":0,"Models":null}]}'),
		(2, 3, 2, 'queued', 'main', 5, 0, 1, '', 0, 0, 0, '{"image":"a:1","cpu":1000,"mem":9,"time":7}', '{"path":[2,1]}')`,
	`INSERT INTO refusal (id, person, account, at, seq, spec, verdict) VALUES (1, 3, 2, 5, 1, '{"image":"a:1","gpu":9,"cpu":1000,"mem":9,"time":7}', '')`,
	`INSERT INTO limits (id, account, person, partition, resource, bound, author, removed, body) VALUES
		(1, 2, 0, '', 'gpu', 4, 3, FALSE, '{}'),
		(2, 2, 0, '', 'job.gpu:a', 1, 3, FALSE, '{}'),
		(3, 2, 0, '', 'gpu-hours', 3600, 3, FALSE, '{"per":{"unit":"day"},"carry":{"amount":7200}}'),
		(4, 2, 0, '', 'cpu-hours', 3600, 3, FALSE, '{"per":{"unit":"day"},"carry":{"amount":7200}}'),
		(5, 2, 0, '', 'gpu:b', 9223372036854775807, 3, FALSE, '{}'),
		(6, 2, 0, '', 'running', 3, 3, FALSE, '{}')`,
	`INSERT INTO limit_period (limit_id, starts, ends, bound, carried, used, over) VALUES (3, 0, 86400, 3600, 60, 10, FALSE), (4, 0, 86400, 3600, 60, 10, FALSE)`,
}

func TestDevicesBecomeMilliDevices(t *testing.T) {
	for name, config := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, cfg: config(t), world: world.New()}
			db := f.raw()
			store.MigrateTo(t, f.cfg, db, 11)
			for _, rows := range beforeParts {
				if _, err := db.Exec(rows); err != nil {
					t.Fatal(err)
				}
			}
			f.open()
			if _, err := f.store.Load(t.Context(), func(c world.Change) { f.world.Fold([]world.Change{c}) }); err != nil {
				t.Fatal(err)
			}
			j, _ := f.world.Workload.Jobs.Get(1)
			if j == nil {
				t.Fatal("job 1 is gone")
			}
			check(t, "job 1's spec", j.Spec, workload.Spec{
				Image: "a:1", Env: map[string]string{"gpu": "9"}, GPU: 2000, Model: "a|b", Mixed: true, Partition: "main", CPU: 1000, Mem: 9, Time: 7,
			}, nil)
			check(t, "job 1's devices", j.Attempt.Models, []catalog.ModelCount{{Model: "a", Count: 1000}, {Model: "b", Count: 1000}}, nil)
			check(t, "job 1's attempt", []any{j.Attempt.N, j.Attempt.Rate, j.Attempt.Devices}, []any{int32(2), money.Rate(5), []string{"u1", "u2"}}, nil)
			check(t, "job 1's past", j.Past, []workload.Attempt{{N: 1, Models: []catalog.ModelCount{{Model: "a", Count: 2000}}}, {}}, nil)
			if j, _ := f.world.Workload.Jobs.Get(2); j == nil || j.Spec.GPU != 0 {
				t.Errorf("job 2: %+v", j)
			}
			refused, err := f.store.Refusal(t.Context(), 1)
			if err != nil || refused.Spec.GPU != 9000 {
				t.Errorf("the refusal: %+v, %v", refused, err)
			}
			for id, want := range map[int64]limits.Limit{1: {Max: 4000}, 2: {Max: 1000}, 3: {Max: 3_600_000, Carry: limits.Carry{Amount: 7_200_000}}, 4: {Max: 3600, Carry: limits.Carry{Amount: 7200}}, 5: {Max: math.MaxInt64}, 6: {Max: 3}} {
				for _, l := range f.world.Limits.Limits.All() {
					if int64(l.ID) == id && (l.Max != want.Max || l.Carry != want.Carry) {
						t.Errorf("limit %d: %+v, want %+v", id, l, want)
					}
				}
			}
			gpu, _ := f.world.Limits.Limits.Get(3)
			cpu, _ := f.world.Limits.Limits.Get(4)
			if b := f.world.Limits.BoundOf(gpu, 100); b.Used != 10_000 || b.Max != 3_660_000 {
				t.Errorf("device-hours: %+v", b)
			}
			if b := f.world.Limits.BoundOf(cpu, 100); b.Used != 10 || b.Max != 3660 {
				t.Errorf("core-hours: %+v", b)
			}
		})
	}
}
