package kube

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"croft.dev/croft/internal/engine"
)

// queuePrefix is what the names of queues begin with.
func (c Config) queuePrefix() string { return cmp.Or(c.QueuePrefix, "croft") }

// queueName is what a queue is called in the cluster: PREFIX.PARTITION.ACCOUNT.
func (c Config) queueName(q engine.QueueName) string {
	if q.Account == "" {
		return objectName(c.queuePrefix(), q.Partition)
	}
	return objectName(c.queuePrefix(), q.Partition, q.Account)
}

// plain is a part of a name that the cluster takes as it is.
var plain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// longest is a name's greatest length: it is also the value of a label.
const longest = 63

// objectName joins parts to a name that no other parts have. Where the cluster doesn't take
// them as they are, a digest tells them apart.
func objectName(prefix string, parts ...string) string {
	name := prefix + "." + strings.Join(parts, ".")
	ok := len(name) <= longest
	for _, p := range parts {
		ok = ok && plain.MatchString(p)
	}
	if ok {
		return name
	}
	for i, p := range parts {
		parts[i] = cmp.Or(strings.Trim(odd.ReplaceAllString(p, "-"), "-"), "x")
	}
	sum := sha256.Sum256([]byte(name))
	// Two dashes are in no name that is taken as it is at this place, but in a digest's.
	tail := "--" + hex.EncodeToString(sum[:5])
	name = prefix + "." + strings.Join(parts, ".")
	return strings.TrimRight(name[:min(len(name), longest-len(tail))], ".-") + tail
}

var odd = regexp.MustCompile(`[^a-z0-9-]`)

// tree is queues by their place.
type tree struct {
	queues []engine.Queue // each after the one above
	below  map[engine.QueueName][]engine.Queue
}

// newTree puts queues in order. One whose parent isn't there is its partition's.
func newTree(want []engine.Queue) tree {
	t := tree{below: map[engine.QueueName][]engine.Queue{}}
	known := map[engine.QueueName]bool{}
	for _, q := range want {
		known[q.QueueName] = true
	}
	for _, q := range want {
		if q.Account != "" && !known[q.Parent] {
			q.Parent = engine.QueueName{Partition: q.Partition}
		}
		t.below[q.Parent] = append(t.below[q.Parent], q)
	}
	var walk func(above engine.QueueName)
	walk = func(above engine.QueueName) {
		slices.SortFunc(t.below[above], func(a, b engine.Queue) int {
			return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.Account, b.Account))
		})
		for _, q := range t.below[above] {
			t.queues = append(t.queues, q)
			walk(q.QueueName)
		}
	}
	walk(engine.QueueName{})
	return t
}

// inner reports whether a queue has others below it.
func (t tree) inner(q engine.Queue) bool { return len(t.below[q.QueueName]) > 0 }

// own is what is guaranteed to a queue and to none of those below it.
func (t tree) own(q engine.Queue, b engine.QueueBound) int64 {
	return max(0, b.Guaranteed-t.given(q.QueueName, b.Resource))
}

// given is what is guaranteed to queues below one, each time to the nearest that has a bound.
func (t tree) given(q engine.QueueName, resource string) int64 {
	var sum int64
	for _, c := range t.below[q] {
		if b, ok := bound(c, resource); ok {
			sum += b.Guaranteed
		} else {
			sum += t.given(c.QueueName, resource)
		}
	}
	return sum
}

func bound(q engine.Queue, resource string) (engine.QueueBound, bool) {
	for _, b := range q.Bounds {
		if b.Resource == resource {
			return b, true
		}
	}
	return engine.QueueBound{}, false
}

// amount is an amount as the cluster writes it.
func amount(of string, n int64) string {
	switch of {
	case "cpu":
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case "memory":
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}

// unsaid says that a queue's bound of a resource is Croft's alone.
func unsaid(q engine.Queue, resource string) string {
	of := "partition " + q.Partition
	if q.Account != "" {
		of = "account " + q.Account + " in " + of
	}
	return fmt.Sprintf("%s: the bounds of %s are kept by Croft alone", of, resource)
}
