package placement

import (
	"math"
	"slices"
	"strings"
	"time"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
)

// Reservation is resources held for accounts and users over a window, or over one
// that comes again. Each window is a Booking once it is near enough.
type Reservation struct {
	ID        id.Reservation
	Name      string // unique among those that aren't over
	Partition string
	Accounts  []id.Account // with all below them
	Users     []id.User
	Payer     id.Account // of what isn't used

	Count int64    // so many places of the amounts below, each on one node;
	CPU   int64    // milli-cores
	Mem   int64    // bytes
	GPU   int64    // milli-devices
	Model string   // a set as catalog.Allows reads it; "" is any
	Where string   // constraint on the labels of its nodes; "" is none
	Nodes []string // or, with Count 0, these nodes whole

	From   int64 // ns; of the first window
	Length int64 // ns; of each
	Repeat Repeat
	Until  int64 // ns; no window begins after it; 0: no end
	Next   int64 // ns; when the first window begins that isn't booked; 0: all are

	Join   bool     // takes in what those whom it is for submit during a window and that fits
	Each   int64    // so many jobs of each user run in it at once; 0: any number
	Images []string // are fetched before a window begins

	Reason  string
	By      id.User
	Created int64 // ns
	Over    bool  // cancelled, or its last window is past
}

// Repeat is the days of the week on which a window comes again, in the site's time
// zone: a set of bits, the lowest for Sunday. Zero is never.
type Repeat uint8

// The repeats that have names.
const (
	Never    Repeat = 0
	EveryDay Repeat = 1<<7 - 1
	Weekdays Repeat = EveryDay &^ (1<<time.Sunday | 1<<time.Saturday)
)

var dayNames = [...]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseRepeat reads "day", "weekdays" or days as in "mon,wed"; "" is never.
func ParseRepeat(text string) (Repeat, bool) {
	switch text {
	case "":
		return Never, true
	case "day":
		return EveryDay, true
	case "weekdays":
		return Weekdays, true
	}
	var r Repeat
	for _, name := range strings.Split(text, ",") {
		day := slices.Index(dayNames[:], name)
		if day < 0 {
			return Never, false
		}
		r |= 1 << day
	}
	return r, true
}

// String is the text that ParseRepeat reads, from Monday on.
func (r Repeat) String() string {
	switch r {
	case EveryDay:
		return "day"
	case Weekdays:
		return "weekdays"
	}
	var out []string
	for i := range dayNames {
		if day := (i + 1) % 7; r.on(time.Weekday(day)) {
			out = append(out, dayNames[day])
		}
	}
	return strings.Join(out, ",")
}

func (r Repeat) on(day time.Weekday) bool { return r&(1<<day) != 0 }

// Gap is the least number of days from one window to the next; 0: there is no next.
func (r Repeat) Gap() int {
	least, last := 0, -1
	for i := range 14 {
		if !r.on(time.Weekday(i % 7)) {
			continue
		}
		if gap := i - last; last >= 0 && (least == 0 || gap < least) {
			least = gap
		}
		last = i
	}
	return least
}

// First moves the first window to a day on which it may be.
func (r *Reservation) First(z limits.Zone) {
	if r.Repeat != Never && !r.Repeat.on(z.Weekday(r.From)) {
		r.From = r.following(r.From, z)
	}
	r.Next = r.From
	r.bound()
}

// Advance notes that the window at Next is booked. Every window begins when the clocks
// show what they did at the first one's begin.
func (r *Reservation) Advance(z limits.Zone) {
	if r.Next = r.following(r.Next, z); r.Next != 0 {
		r.bound()
	}
}

func (r *Reservation) bound() {
	if r.Until != 0 && r.Next > r.Until {
		r.Next = 0
	}
}

// following is when the window begins that follows on one which begins at ns; 0 if
// none does. It counts from the first one, so that a day on which the clocks skip the
// hour moves only that day's window.
func (r *Reservation) following(ns int64, z limits.Zone) int64 {
	if r.Repeat == Never {
		return 0
	}
	const day = int64(24 * time.Hour)
	from := int((ns - r.From + day/2) / day)
	for n := from + 1; ; n++ {
		if at := z.Days(r.From, n); r.Repeat.on(z.Weekday(at)) {
			return at
		}
	}
}

// Window is the window that begins at Next. It ends where the one after it begins, if
// a day is shorter than it is long.
func (r Reservation) Window(z limits.Zone) (from, to int64) {
	to = after(r.Next, r.Length)
	if next := r.following(r.Next, z); next != 0 {
		to = min(to, next)
	}
	return r.Next, to
}

// Admits reports whether a user's jobs under an account with this path, itself first,
// may run in the reservation.
func (r Reservation) Admits(user id.User, path []id.Account) bool {
	return slices.Contains(r.Users, user) || slices.ContainsFunc(path, func(a id.Account) bool { return slices.Contains(r.Accounts, a) })
}

// Seats reports whether each of the reservation's jobs is to fit one of its places:
// where people are counted, by jobs of each or by who comes in unasked, nobody gets the
// places of others by one large job.
func (r Reservation) Seats() bool { return r.Count > 0 && (r.Join || r.Each > 0) }

// place is one of the Count places as a shape that lasts the window.
func (r Reservation) place(length int64) Shape {
	return Shape{CPU: r.CPU, Mem: r.Mem, GPU: r.GPU, Model: r.Model, Where: r.Where, Wall: length}
}

// Booking is one window of a reservation, with what it has of which node. Which
// devices those are is never fixed: any that no job has will do.
type Booking struct {
	ID          id.Booking
	Reservation id.Reservation
	From, To    int64 // ns
	Parts       []Part
	Failed      string // why it has no parts; it is tried again until it begins
	Begun       bool
	Over        bool // past or cancelled
}

// Part is what a booking has of a node.
type Part struct {
	Node   string
	CPU    int64                // milli-cores
	Mem    int64                // bytes
	Models []catalog.ModelCount // milli-devices, sorted by model
}

// Active reports whether the window lasts at now.
func (b Booking) Active(now int64) bool { return b.From <= now && now < b.To }

// On is the booking's part of a node.
func (b Booking) On(node string) (Part, bool) {
	i := slices.IndexFunc(b.Parts, func(p Part) bool { return p.Node == node })
	if i < 0 {
		return Part{}, false
	}
	return b.Parts[i], true
}

// Due is when something is next to be done about the booking: it begins, or ends.
func (b Booking) Due() int64 {
	if b.Begun || b.Failed != "" {
		return b.To
	}
	return b.From
}

// Lead, in ns, is how long before a window begins its images are fetched.
const Lead = int64(30 * time.Minute)

// Horizon, in ns, is how long before it begins a window is booked.
const Horizon = int64(14 * 24 * time.Hour)

// Due is when something is next to be done about the reservation itself: a window is
// to be booked.
func (r Reservation) Due() int64 {
	if r.Next == 0 {
		return math.MaxInt64
	}
	return r.Next - Horizon
}
