package usage_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	loop "croft.dev/croft/internal/loop/usage"
	"croft.dev/croft/internal/usage"
)

func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := looptest.NewFleet(t)
		p := looptest.New(t, fleet)
		e := fleet.Connect()
		l := loop.Loop{Port: p, Engine: e, Book: usage.NewBook(), Instance: looptest.Instance, Log: looptest.Log()}
		look := func() {
			t.Helper()
			<-time.After(10 * time.Second)
			if err := l.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		look() // without a job
		k := p.Submit(t, looptest.Spec("forever", "cpu=0.25", "gpu=40"))
		p.Do(t, command.JobStart{Job: k})
		a := id.Attempt{Job: k, N: 1}
		look()
		if _, ok := l.Book.Last(a); ok {
			t.Error("a sample of a job that hasn't begun")
		}
		alloc := engine.Allocation{
			Attempt: engine.AttemptID(a.Engine(looptest.Instance)), Job: int64(k), N: 1, Node: "gpu1", Instance: looptest.Instance,
			Container: engine.Container{Image: "train:1", Command: p.Job(k).Spec.Command},
		}
		for _, uuid := range p.Job(k).Attempt.Devices {
			alloc.Devices = append(alloc.Devices, engine.Device{UUID: uuid})
		}
		if err := e.Start(t.Context(), alloc); err != nil {
			t.Fatal(err)
		}
		p.Do(t, command.JobObserved{Job: k, N: 1, Running: true, Started: time.Now().UnixNano()})
		look()
		look()
		got, _ := l.Book.Last(a)
		d := usage.Device{UUID: alloc.Devices[0].UUID, Known: true, Busy: 400}
		want := usage.Sample{At: time.Now().UnixNano(), CPU: 250, Known: true, Memory: 1 << 20, Device: d, Devices: []usage.Device{d}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := fleet.LoseNode("gpu1"); err != nil {
			t.Fatal(err)
		}
		look()
		if after, _ := l.Book.Last(a); after.At != got.At {
			t.Errorf("a sample without contact: %+v", after)
		}
		fleet.SetDown(true)
		if err := l.Once(t.Context()); err == nil {
			t.Error("an engine that can't be asked is no error")
		}
		fleet.SetDown(false)
		p.Do(t, command.JobObserved{Job: k, N: 1, Gone: true})
		look()
		if _, ok := l.Book.Last(a); ok {
			t.Error("a sample of a job that has ended")
		}
	})
}
