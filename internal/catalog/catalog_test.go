package catalog_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
)

const hour = int64(3600e9)

// drawBook is a price book of up to five versions within ten hours.
func drawBook(t *rapid.T) catalog.Book {
	var s catalog.State
	for range rapid.IntRange(0, 5).Draw(t, "versions") {
		p := catalog.Price{ID: s.NextPrice(), From: rapid.Int64Range(0, 10*hour).Draw(t, "from"), CPU: rate(t), Memory: rate(t)}
		if rapid.Bool().Draw(t, "same time") {
			p.From = 5 * hour
		}
		for _, m := range []string{"*", "a100"} {
			if rapid.Bool().Draw(t, m) {
				p.Devices = append(p.Devices, catalog.ModelRate{Model: m, Rate: rate(t)})
			}
		}
		s.Fold(catalog.PriceSet{Row: p})
	}
	return s.Book("main", 0)
}

func rate(t *rapid.T) money.Rate { return money.Rate(rapid.Int64Range(0, 3_000_000).Draw(t, "rate")) }

func drawUse(t *rapid.T) catalog.Use {
	u := catalog.Use{CPU: rapid.Int64Range(0, 64_000).Draw(t, "cpu"), Mem: rapid.Int64Range(0, 1<<40).Draw(t, "mem")}
	for _, m := range []string{"a100", "h100"} {
		if n := rapid.Int64Range(0, 8).Draw(t, m); n > 0 {
			u.Devices = append(u.Devices, catalog.ModelCount{Model: m, Count: n})
		}
	}
	return u
}

// Segments tile the span from the first version on, and each has the version that
// is in force all through it.
func TestSegmentsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBook(t)
		from := rapid.Int64Range(-hour, 11*hour).Draw(t, "from")
		to := from + rapid.Int64Range(0, 12*hour).Draw(t, "span")
		at := from
		if len(b) > 0 {
			at = max(from, b[0].From)
		}
		for _, s := range b.Segments(from, to) {
			if s.From != at || s.To <= s.From {
				t.Fatalf("segment %+v, want it to begin at %d", s, at)
			}
			for _, moment := range []int64{s.From, (s.From + s.To) / 2, s.To - 1} {
				if p, ok := b.At(moment); !ok || p.ID != s.Price.ID {
					t.Fatalf("at %d version %d is in force, the segment has %d", moment, p.ID, s.Price.ID)
				}
			}
			at = s.To
		}
		if len(b) > 0 && at < to && to > b[0].From {
			t.Fatalf("nothing from %d to %d", at, to)
		}
	})
}

// What a use costs over a span is the exact sum, rounded down once per line,
// wherever the span is cut; and it never falls as time goes on.
func TestCostOfCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, u := drawBook(t), drawUse(t)
		factor := rapid.Int64Range(0, 3000).Draw(t, "factor")
		from := rapid.Int64Range(0, 9*hour).Draw(t, "from")
		to := from + rapid.Int64Range(0, 9*hour).Draw(t, "span")
		cut := rapid.Int64Range(from, to).Draw(t, "cut")
		whole, first, second := cost(t, b, u, factor, from, to), cost(t, b, u, factor, from, cut), cost(t, b, u, factor, cut, to)
		// each of the two parts is rounded down by itself: less than one micro a line
		if parts := first.Total + second.Total; parts > whole.Total || whole.Total-parts > money.Micros(len(whole.Lines)) {
			t.Fatalf("whole %d, in two %d", whole.Total, parts)
		}
		if first.Total > whole.Total {
			t.Fatalf("%d up to %d, %d up to %d", first.Total, cut, whole.Total, to)
		}
		var sum money.Micros
		for _, l := range whole.Lines {
			sum += l.Micros
		}
		if sum != whole.Total {
			t.Fatalf("lines come to %d, total %d", sum, whole.Total)
		}
		// A version that repeats the one before cuts the span and changes nothing.
		if p, ok := b.At(cut); ok {
			again := catalog.Book{}
			for _, v := range b {
				if v.From <= cut {
					again = append(again, v)
				}
			}
			p.From = cut
			again = append(again, p)
			again = append(again, b[len(again)-1:]...)
			if diff := cmp.Diff(whole, cost(t, again, u, factor, from, to)); diff != "" {
				t.Fatalf("a repeated version (-without +with)\n%s", diff)
			}
		}
	})
}

func cost(t *rapid.T, b catalog.Book, u catalog.Use, factor, from, to int64) catalog.Cost {
	c, err := b.Cost(u, factor, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What is affordable costs no more than the funds, across changes of price too,
// and a little longer is too much.
func TestAffordable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, u := drawBook(t), drawUse(t)
		factor := rapid.Int64Range(0, 3000).Draw(t, "factor")
		from := rapid.Int64Range(0, 11*hour).Draw(t, "from")
		funds := money.Micros(rapid.Int64Range(0, 1e8).Draw(t, "funds"))
		span := b.Affordable(u, factor, from, funds)
		if span == math.MaxInt64 {
			if c := cost(t, b, u, factor, from, from+10_000*hour); c.Total > funds {
				t.Fatalf("forever is affordable, 10,000 hours cost %d of %d", c.Total, funds)
			}
			return
		}
		if c := cost(t, b, u, factor, from, from+span); span < 0 || c.Total > funds {
			t.Fatalf("%d ns cost %d of %d", span, c.Total, funds)
		}
		// a minute more, which is what matters, if it costs anything to speak of
		more := cost(t, b, u, factor, from, from+span+hour/60).Total
		if step := more - cost(t, b, u, factor, from, from+span).Total; step > 50 && more <= funds {
			t.Fatalf("%d ns are affordable, a minute more costs %d of %d too", span, more, funds)
		}
	})
}

// A partition with a version of its own uses only those, and nobody uses what was
// published later than he may know.
func TestBook(t *testing.T) {
	var s catalog.State
	for i, p := range []catalog.Price{
		{From: 10, Published: 1},
		{From: 5, Published: 2, Partition: "gpu"},
		{From: 10, Published: 3},
		{From: 20, Published: 9, Partition: "gpu"},
		{From: 0, Published: 4},
	} {
		p.ID = id.Price(i + 1)
		s.Fold(catalog.PriceSet{Row: p})
	}
	tests := map[string]struct {
		partition string
		published int64
		want      []id.Price
	}{
		"every partition's, by time, then id": {"cpu", 100, []id.Price{5, 1, 3}},
		"its own":                             {"gpu", 100, []id.Price{2, 4}},
		"its own, of that day":                {"gpu", 8, []id.Price{2}},
		"before it had its own":               {"gpu", 1, []id.Price{1}},
		"before there was any":                {"cpu", 0, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []id.Price
			for _, p := range s.Book(tt.partition, tt.published) {
				got = append(got, p.ID)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if p, _ := s.Book("cpu", 100).At(10); p.ID != 3 {
		t.Errorf("of two versions from the same time %d counts, want the later", p.ID)
	}
}

// A request that takes any model is priced by the dearest; a model without a rate
// of its own has that of "*".
func TestDearest(t *testing.T) {
	b := catalog.Book{{ID: 1, Devices: []catalog.ModelRate{{Model: "*", Rate: 5}, {Model: "a100", Rate: 3}, {Model: "h100", Rate: 9}}}}
	tests := map[string]struct {
		ways []catalog.ModelCount
		want string
	}{
		"the dearest":                        {[]catalog.ModelCount{{"a100", 1000}, {"h100", 1000}}, "h100"},
		"by the rate of *":                   {[]catalog.ModelCount{{"a100", 1000}, {"l4", 1000}}, "l4"},
		"the first of equals":                {[]catalog.ModelCount{{"l4", 1000}, {"t4", 1000}}, "l4"},
		"nothing offered":                    {nil, ""},
		"whatever the order":                 {[]catalog.ModelCount{{"h100", 1000}, {"a100", 1000}}, "h100"},
		"more of a cheaper one":              {[]catalog.ModelCount{{"a100", 1000}, {"h100", 250}}, "a100"},
		"a product that an int64 can't have": {[]catalog.ModelCount{{"a100", 1 << 61}, {"h100", 1 << 61}}, "h100"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := b.Dearest(tt.ways, 0); got.Model != tt.want {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}
