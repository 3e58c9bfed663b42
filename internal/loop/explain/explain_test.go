package explain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/explain"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/workload"
)

// Why a job waits is kept when it becomes something else, once, and again where that
// couldn't be written; while the clock has jumped nothing is concluded, and a server that
// begins keeps it anew.
func TestKeepsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := looptest.New(t, looptest.NewFleet(t))
		p.Do(t, command.AccountPut{Name: "nlp"})
		ada, _ := p.World().Tenancy.User("ada")
		submit := func(array string) id.Job {
			t.Helper()
			spec := workload.Spec{Name: "x", Account: "nlp", Kind: workload.KindContainer, Image: "train:1", CPU: 1000, Mem: 1 << 30, Time: int64(time.Hour)}
			if array != "" {
				var err error
				if spec.Array, err = workload.ParseArray(array); err != nil {
					t.Fatal(err)
				}
			}
			got, err := p.As(p.World().Principal(ada.ID, 0, p.World().Now), command.Submit{Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			return got.(admission.Accepted).Job.ID
		}
		first := submit("")
		var rows []workload.Wait
		var fail error
		l := &explain.Loop{Port: p, Log: looptest.Log(), Keep: func(_ context.Context, r []workload.Wait) error {
			if fail == nil {
				rows = append(rows, r...)
			}
			return fail
		}}
		once := func(want int) []workload.Wait {
			t.Helper()
			rows = nil
			<-time.After(explain.Period)
			_ = l.Once(t.Context())
			if len(rows) != want {
				t.Fatalf("%d rows were kept, want %d: %+v", len(rows), want, rows)
			}
			return rows
		}
		if got := once(1)[0]; got.Job != first || got.Position != 1 || got.Queue != 1 || len(got.Reasons) != 0 {
			t.Errorf("%+v", got)
		}
		once(0)
		second := submit("1-500")
		if got := once(1)[0]; got.Job != second || got.Position != 2 || got.Queue != 501 {
			t.Errorf("of an array: %+v", got)
		}
		var node string
		for node = range p.World().Placement.Nodes.All() {
			break
		}
		p.Do(t, command.NodeDrain{Node: node, Reason: "new cables"})
		p.Jump(true)
		once(0)
		p.Jump(false)
		fail = errors.New("disk full")
		once(0)
		fail = nil
		if got := once(2); got[0].Reasons[0].Code != codes.NodeDrained || got[0].At < p.World().Now-int64(time.Minute) {
			t.Errorf("%+v", got[0])
		}
		l = &explain.Loop{Port: p, Keep: l.Keep, Log: l.Log}
		once(2)
	})
}
