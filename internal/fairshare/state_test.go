package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/table"
)

// useAt is what account 1 has used at a time.
func useAt(s *State, half, now int64) money.Micros {
	var sum money.Micros
	for _, u := range s.uses.All() {
		sum = plus(sum, faded(u.Left, now-u.At, half))
	}
	for _, r := range s.runs.All() {
		sum = plus(sum, priced(r.Rate, lasting(r.From, r.Until, now, half)))
	}
	return sum
}

// An attempt counts the same before and after its end is settled, whenever that is
// learned, and never less for being cut into pieces: not even into pieces that cost
// less than can be counted.
func TestCuttingGainsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		half := rapid.OneOf(rapid.Just(7*day), rapid.Int64Range(int64(time.Hour), 100*day), rapid.Just(int64(0))).Draw(t, "half")
		rate := money.Rate(rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 1e9)).Draw(t, "rate"))
		var whole, cut State
		now, from := int64(0), int64(0)
		pieces := rapid.IntRange(1, 50).Draw(t, "pieces")
		for range pieces {
			now += rapid.OneOf(rapid.Int64Range(1, 1e9), rapid.Int64Range(1, day)).Draw(t, "piece")
			set, ok := cut.Settle(1, 1, Run{rate, from, now}, now, half)
			if !ok {
				t.Fatalf("%d ns were free", now-from)
			}
			cut.Fold(set)
			from = now
		}
		whole.Track(1, 1, 1, Run{rate, 0, 1 << 62})
		running := useAt(&whole, half, now)
		late := now + rapid.Int64Range(0, 20*day).Draw(t, "late")
		whole.Untrack(1, 1, 1)
		if set, ok := whole.Settle(1, 1, Run{rate, 0, now}, late, half); ok {
			whole.Fold(set)
		}
		one, many := useAt(&whole, half, late), useAt(&cut, half, late)
		// Settled and then faded each is rounded.
		if many < one-2-one>>40 || many > one+money.Micros(2*pieces)+one>>40 {
			t.Fatalf("%d in one, %d in %d pieces", one, many, pieces)
		}
		if then := faded(running, late-now, half); one < then-2-then>>40 || one > then+2+then>>40 {
			t.Fatalf("%d while it ran, which would have faded to %d; %d once it was settled", running, then, one)
		}
	})
}

// Whatever the numbers, nothing becomes negative.
func TestNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		half := drawHalf(t)
		for range rapid.IntRange(1, 10).Draw(t, "ends") {
			r := Run{money.Rate(rapid.Int64Range(0, 1<<62).Draw(t, "rate")), rapid.Int64Range(0, 1<<62).Draw(t, "from"), rapid.Int64Range(0, 1<<62).Draw(t, "until")}
			if set, ok := s.Settle(1, 1, r, rapid.Int64Range(0, 1<<62).Draw(t, "now"), half); ok {
				s.Fold(set)
			}
			row, _ := s.uses.Get(table.Pair(1, 1))
			if row.Left < 0 || row.Left > Most || useAt(&s, half, rapid.Int64Range(0, 1<<62).Draw(t, "at")) < 0 {
				t.Fatalf("%+v", row)
			}
		}
	})
}

// A copy stays what it was.
func TestCopy(t *testing.T) {
	var s State
	s.Track(1, 1, 1, Run{Rate: 3_600_000, Until: 1 << 60})
	c := s.Copy()
	s.Untrack(1, 1, 1)
	s.Track(id.Account(2), 1, 1, Run{Rate: 1})
	if got := useAt(&c, 0, int64(time.Hour)); got != 3_600_000 {
		t.Errorf("%d", got)
	}
}

func TestRateOf(t *testing.T) {
	a100 := []catalog.ModelCount{{Model: "a100", Count: 2000}}
	book := catalog.Book{{From: 10, CPU: 20_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: 3_000_000}}}}
	tests := map[string]struct {
		book catalog.Book
		use  catalog.Use
		want money.Rate
	}{
		"listed":         {book, catalog.Use{CPU: 1500, Mem: 1 << 40, Devices: a100}, 30_000 + 6_000_000},
		"another model":  {book, catalog.Use{Devices: []catalog.ModelCount{{Model: "h100", Count: 1000}}}, 1_000_000},
		"no book":        {nil, catalog.Use{CPU: 8000, Mem: 64 << 30, Devices: a100}, 80_000 + 64_000 + 2_000_000},
		"not yet":        {catalog.Book{{From: 21, CPU: 5}}, catalog.Use{CPU: 1000}, 10_000},
		"rounded up":     {book, catalog.Use{CPU: 1, Mem: 1}, 20},
		"as large as is": {catalog.Book{{CPU: catalog.MaxRate}}, catalog.Use{CPU: 1 << 62}, money.Rate(Most)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := RateOf(tt.book, tt.use, 20); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}
