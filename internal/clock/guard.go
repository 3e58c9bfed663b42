package clock

import "time"

// Reading is one look at both clocks of a machine, in nanoseconds: Wall since
// the Unix epoch, Mono since some fixed instant of this boot. Sums and differences
// of readings up to the year 2100 stay far inside int64.
type Reading struct{ Wall, Mono int64 }

// Instant is what a Guard makes of a Reading.
type Instant struct {
	// Now is the time of the world in nanoseconds since the Unix epoch. It is
	// never less than that of an earlier Instant.
	Now int64
	// Jumped says that the wall clock has outrun the monotonic one by the limit
	// or more and nobody has confirmed that it is right: nothing may expire.
	Jumped bool
	// Ahead is by how much the wall clock shows more than the world, in
	// nanoseconds; negative when it shows less.
	Ahead int64
}

// Guard keeps the time of the world from the moods of a machine's wall clock:
//
//   - small steps forward are followed;
//   - after steps forward of together limit or more (a wrong date, a machine that
//     was suspended) the world goes on at the pace of the monotonic clock, and
//     Jumped is set, until Confirm or until the wall clock comes back;
//   - after a step back the world neither goes back nor stands still: it goes on at
//     half pace until the wall clock has caught up, so that a time limit is never
//     cut short and no meter stops.
//
// A Guard is not safe for concurrent use: the one writer of the world owns it.
type Guard struct {
	limit   int64
	now     int64 // the newest time given out, or the newest in the world
	mono    int64 // the newest monotonic reading
	base    int64 // the least now−mono since the start or the last Confirm
	started bool
}

// NewGuard returns a guard for a world whose newest time is newest (nanoseconds
// since the Unix epoch, 0 for a new world). How long the server was down can't be
// known, so the first reading is trusted; but time never goes back behind newest.
func NewGuard(newest int64, limit time.Duration) *Guard {
	return &Guard{limit: int64(limit), now: newest}
}

// Observe takes a reading and returns the time of the world.
func (g *Guard) Observe(r Reading) Instant {
	if !g.started {
		g.started = true
		g.mono = r.Mono
		g.now = max(g.now, r.Wall)
		g.base = g.now - g.mono
		return g.instant(r, false)
	}
	passed := max(r.Mono-g.mono, 0)
	g.mono = max(g.mono, r.Mono)
	// Against the base and not against the last reading: many small steps count
	// like one large.
	jumped := r.Wall-g.mono-g.base >= g.limit
	switch {
	case jumped:
		g.now += passed
	case r.Wall >= g.now+passed:
		g.now = r.Wall
	default:
		g.now = max(r.Wall, g.now+passed/2)
	}
	g.base = min(g.base, g.now-g.mono)
	return g.instant(r, jumped)
}

// Confirm takes a reading whose wall clock somebody has declared right, and
// returns the time of the world: the wall clock's, if that isn't behind.
func (g *Guard) Confirm(r Reading) Instant {
	g.started = true
	g.mono = max(g.mono, r.Mono)
	g.now = max(g.now, r.Wall)
	g.base = g.now - g.mono
	return g.instant(r, false)
}

func (g *Guard) instant(r Reading, jumped bool) Instant {
	return Instant{Now: g.now, Jumped: jumped, Ahead: r.Wall - g.now}
}

// Readings returns a function that reads the machine's clocks.
func Readings() func() Reading {
	start := time.Now()
	return func() Reading {
		now := time.Now()
		return Reading{Wall: now.UnixNano(), Mono: int64(now.Sub(start))}
	}
}
