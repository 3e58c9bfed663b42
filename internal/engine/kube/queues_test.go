package kube

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/engine"
)

// The cluster takes every name, and no two queues have the same.
func TestQueueNames(t *testing.T) {
	for want, q := range map[string]engine.QueueName{
		"croft.gpu":                 {Partition: "gpu"},
		"croft.gpu.nlp-lab":         {Partition: "gpu", Account: "nlp-lab"},
		"croft.gpu.a-b--d303e5170a": {Partition: "gpu", Account: "a_b"},
	} {
		if got := (Config{}).queueName(q); got != want {
			t.Errorf("%v: %s, want %s", q, got, want)
		}
	}
	name := rapid.StringMatching(`[a-z_][a-z0-9_.-]{0,62}`)
	rapid.Check(t, func(t *rapid.T) {
		a := engine.QueueName{Partition: name.Draw(t, "partition"), Account: name.Draw(t, "account")}
		b := engine.QueueName{Partition: name.Draw(t, "other partition"), Account: name.Draw(t, "other account")}
		c := Config{}
		x, y := c.queueName(a), c.queueName(b)
		if (x == y) != (a == b) {
			t.Errorf("%v and %v: %s and %s", a, b, x, y)
		}
		if bad := append(validation.IsDNS1123Subdomain(x), validation.IsValidLabelValue(x)...); len(bad) > 0 {
			t.Errorf("%v: %s: %v", a, x, bad)
		}
	})
}

// What the queues of Kueue have as their own adds up to what the partition offers.
func TestQuotasAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawQueues(t, 100)
		tr := newTree(want)
		var sum int64
		for _, q := range tr.queues {
			if b, ok := bound(q, "cpu"); ok {
				sum += tr.own(q, b)
			}
		}
		if sum != 100 {
			t.Errorf("%d of 100: %+v", sum, want)
		}
		if len(tr.queues) != len(want) {
			t.Errorf("%d of %d queues have a place", len(tr.queues), len(want))
		}
	})
}

// drawQueues are a partition's, in any order, of which some have no bound.
func drawQueues(t *rapid.T, offered int64) []engine.Queue {
	part := engine.QueueName{Partition: "main"}
	free := map[engine.QueueName]int64{part: offered} // of the nearest guarantee
	holder := map[engine.QueueName]engine.QueueName{part: part}
	out := []engine.Queue{{QueueName: part, Bounds: []engine.QueueBound{{Resource: "cpu", Guaranteed: offered, Limit: engine.AnyAmount}}}}
	for i := range rapid.IntRange(0, 8).Draw(t, "accounts") {
		above := rapid.SampledFrom(out).Draw(t, "above").QueueName
		q := engine.Queue{QueueName: engine.QueueName{Partition: "main", Account: string(rune('a' + i))}, Parent: above}
		holder[q.QueueName] = holder[above]
		if rapid.Bool().Draw(t, "bounded") {
			g := rapid.Int64Range(0, free[holder[above]]).Draw(t, "guaranteed")
			free[holder[above]] -= g
			free[q.QueueName], holder[q.QueueName] = g, q.QueueName
			q.Bounds = []engine.QueueBound{{Resource: "cpu", Guaranteed: g, Limit: engine.AnyAmount}}
		}
		out = append(out, q)
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
	r.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}
