package catalog

import (
	"cmp"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ catalog() }

// The changes.
type (
	PartitionSet struct{ Row Partition }
	QoSSet       struct{ Row QoS }
	PriceSet     struct{ Row Price }
	// RepositorySet makes a repository private, for good.
	RepositorySet struct{ Row Repository }
)

func (PartitionSet) catalog()  {}
func (QoSSet) catalog()        {}
func (PriceSet) catalog()      {}
func (RepositorySet) catalog() {}

// State is the catalogue.
type State struct {
	Partitions   table.Table[string, Partition]
	QoS          table.Table[string, QoS]
	Prices       table.Table[id.Price, Price]
	Repositories table.Table[string, Repository] // private ones, by name
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{Partitions: s.Partitions.Copy(), QoS: s.QoS.Copy(), Prices: s.Prices.Copy(), Repositories: s.Repositories.Copy()}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	switch c := c.(type) {
	case PartitionSet:
		put(&s.Partitions, c.Row.Name, c.Row, c.Row.Retired)
	case QoSSet:
		put(&s.QoS, c.Row.Name, c.Row, c.Row.Retired)
	case PriceSet:
		s.Prices.Set(c.Row.ID, c.Row)
	case RepositorySet:
		s.Repositories.Set(c.Row.Name, c.Row)
	}
}

// put keeps a row by its name, until it is retired.
func put[R any](t *table.Table[string, R], name string, row R, retired bool) {
	if retired {
		t.Delete(name)
	} else {
		t.Set(name, row)
	}
}

// Partition finds a partition; "" is the default one.
func (s *State) Partition(name string) (Partition, bool) {
	if name != "" {
		return s.Partitions.Get(name)
	}
	for _, p := range s.Partitions.All() {
		if p.Default {
			return p, true
		}
	}
	return Partition{}, false
}

// QoSNamed finds a QoS; "" is the default one.
func (s *State) QoSNamed(name string) (QoS, bool) {
	if name != "" {
		return s.QoS.Get(name)
	}
	for _, q := range s.QoS.All() {
		if q.Default {
			return q, true
		}
	}
	return QoS{}, false
}

// Book is the sequence of price versions that apply to a partition, by time.
type Book []Price

// Book returns the versions for a partition that were published by then, in the
// order in which they apply. A partition with any version of its own uses only
// those.
func (s *State) Book(partition string, published int64) Book {
	var own, base Book
	for _, p := range s.Prices.All() {
		switch {
		case p.Published > published:
		case p.Partition == partition:
			own = append(own, p)
		case p.Partition == "":
			base = append(base, p)
		}
	}
	book := own
	if len(own) == 0 {
		book = base
	}
	slices.SortStableFunc(book, func(a, b Price) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.ID, b.ID))
	})
	return book
}

// At returns the version in force at t.
func (b Book) At(t int64) (Price, bool) {
	var at Price
	ok := false
	for _, p := range b {
		if p.From <= t {
			at, ok = p, true
		}
	}
	return at, ok
}

// Segment is a span over which one price version is in force.
type Segment struct {
	Price    Price
	From, To int64
}

// Segments cuts [from, to) where the price changes. Time before the first version
// is free and is not returned.
func (b Book) Segments(from, to int64) []Segment {
	var out []Segment
	for i, p := range b {
		start, end := max(p.From, from), to
		if i+1 < len(b) {
			end = min(end, b[i+1].From)
		}
		if start < end {
			out = append(out, Segment{p, start, end})
		}
	}
	return out
}

// NextPrice is the id of the next price version.
func (s *State) NextPrice() id.Price { k, _, _ := s.Prices.Last(); return k + 1 }
