package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

// clean makes text that came from others safe to print: control characters
// would drive the reader's terminal, and marks that turn the writing direction
// would show something else than what is there.
func clean(s string) string {
	if plain(s) || strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unsafeRune(r):
			return '�'
		}
		return r
	}, s)
}

// plain reports whether s is of printable ASCII alone, as nearly everything is: it is
// safe, and as wide as it is long.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func unsafeRune(r rune) bool {
	switch {
	case unicode.IsControl(r), r == unicode.ReplacementChar:
		return true
	case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\u200e', r == '\u200f':
		return true
	case r == '\u2028' || r == '\u2029':
		return true
	}
	return false
}

// displayWidth is the number of terminal cells that s takes.
func displayWidth(s string) int {
	if plain(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// pad fills s with spaces to n cells.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-displayWidth(s)))
}

// cut shortens s to n cells; what was cut shows as "…".
func cut(s string, n int) string {
	if displayWidth(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	var b strings.Builder
	at := 0
	for _, r := range s {
		w := runeWidth(r)
		if at+w > n-1 {
			break
		}
		b.WriteRune(r)
		at += w
	}
	return b.String() + "…"
}

// span is a length of time, as short as it says enough.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(int64(d/time.Minute), "m", int64(d%time.Minute/time.Second), "s")
	case d < 48*time.Hour:
		return two(int64(d/time.Hour), "h", int64(d%time.Hour/time.Minute), "m")
	}
	const day = 24 * time.Hour
	return two(int64(d/day), "d", int64(d%day/time.Hour), "h")
}

func two(a int64, unit string, b int64, small string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unit)
	}
	return fmt.Sprintf("%d%s%d%s", a, unit, b, small)
}

// clock is a point in time for the viewer: "16:40" today, "Tue 16:40" within a
// week, else the date.
func (a *app) clock(t time.Time) string {
	now, t := a.env.Now().In(a.env.Zone), t.In(a.env.Zone)
	switch days := dayOf(t) - dayOf(now); {
	case days == 0:
		return t.Format("15:04")
	case days > -7 && days < 7:
		return t.Format("Mon 15:04")
	}
	return t.Format("2006-01-02")
}

// dated is clock with the time of the day, however far away it is.
func (a *app) dated(t time.Time) string {
	s := a.clock(t)
	if len(s) == len(time.DateOnly) {
		s += t.In(a.env.Zone).Format(" 15:04")
	}
	return s
}

// period is from one point in time until another: "16:00–18:00", "2027-01-04 14:00–18:00".
func (a *app) period(from, to time.Time) string {
	if dayOf(from.In(a.env.Zone)) == dayOf(to.In(a.env.Zone)) {
		return a.dated(from) + "–" + to.In(a.env.Zone).Format("15:04")
	}
	return a.dated(from) + "–" + a.dated(to)
}

// until is the end t of something; of what is given by dates, the last one that is in it.
func (a *app) until(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	if l := t.In(a.env.Zone); l.Equal(time.Date(l.Year(), l.Month(), l.Day(), 0, 0, 0, 0, a.env.Zone)) {
		return a.lastDay(t)
	}
	return a.dated(*t)
}

// dayOf numbers the days of a calendar, whatever their length.
func dayOf(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// clockOr is clock, or otherwise for no time.
func (a *app) clockOr(t *time.Time, otherwise string) string {
	if t == nil || t.IsZero() {
		return otherwise
	}
	return a.clock(*t)
}

// lastDay is the last day before the end t of a period that is given by dates.
func (a *app) lastDay(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.In(a.env.Zone).Add(-time.Nanosecond).Format(time.DateOnly)
}

// starts is "starts now", "starts about 14:20" or "starts 14:20 (promised)".
func (a *app) starts(t time.Time, promised bool) string {
	switch {
	case t.Sub(a.env.Now()) < 2*time.Second:
		return "starts now"
	case promised:
		return "starts about " + a.clock(t) + " (promised)"
	}
	return "starts about " + a.clock(t)
}

// ordinal is "1st", "2nd", "3rd", …
func ordinal(n int64) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.FormatInt(n, 10) + suffix
}

// grouped is n with a comma every three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// plural is "1 job" or "2 jobs".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// settings is a remedy's or a price's map as "cpu=2 gpu=1".
func settings(set map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		parts = append(parts, clean(k)+"="+clean(set[k]))
	}
	return strings.Join(parts, " ")
}

// orDash is s, or "-" for nothing, so that no cell of a table is empty for cut
// and awk.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
