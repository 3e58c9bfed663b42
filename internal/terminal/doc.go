// Package terminal keeps terminals that outlive whoever is connected with them. A Keeper
// runs beside a step's program, as its user, and has shells, each on a pseudo terminal of
// its own and with a name; any number join one, all see the same, and who was cut off goes
// on with the next byte. The server connects with the keeper by a stream of messages.
//
// What is here knows neither sockets nor processes: those are croft-init's in containers,
// and made up by engine/sim. It imports nothing beyond the standard library, and nothing of
// net: croft-init links it.
package terminal

import "strings"

// Greeting is what a keeper says first on every connection: it is there, and stays at
// least until that ends.
const Greeting = "croft-terminals 1\n"

// Size of a terminal in character cells.
type Size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// What is asked of a keeper.
const (
	ToJoin = "join" // a terminal, which is made if there is none of that name
	ToList = "list"
	ToEnd  = "end" // what runs in a terminal
)

// Hello is the first message to a keeper.
type Hello struct {
	Ask  string `json:"ask"`
	Name string `json:"name,omitempty"`

	// Of a join: the terminal there, and whether it is only looked at.
	Size Size   `json:"size"`
	Term string `json:"term,omitempty"` // TERM, of a terminal that is made by it
	View bool   `json:"view,omitempty"`
	// ID and After are who was joined before and how much of its output was had. With an
	// ID no terminal is made.
	ID    string `json:"id,omitempty"`
	After int64  `json:"after,omitempty"`
}

// Joined says where the output goes on. What comes as Screen before that isn't counted.
type Joined struct {
	ID    string `json:"id"`    // of this terminal, while its shell runs: never of another
	Seq   int64  `json:"seq"`   // of the first byte that comes as Output
	Lost  int64  `json:"lost"`  // bytes before that which were asked for and aren't kept
	Fresh bool   `json:"fresh"` // it was made by this join
}

// Ended says how the shell ended.
type Ended struct {
	ExitCode int `json:"exit_code"`
}

// Refused says why there is nothing to be had.
type Refused struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Error is the message.
func (r *Refused) Error() string { return r.Message }

// Reason is the kind of a refusal.
type Reason string

// The reasons.
const (
	Missing  Reason = "missing"  // there is no terminal of that name, or of that id any more
	TooMany  Reason = "too_many" // terminals, or joins
	Unusable Reason = "unusable" // no terminal can be had there: no shell, no pseudo terminals
	Unclear  Reason = "unclear"  // the message is none
)

// Info describes a terminal.
type Info struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Started int64  `json:"started"` // ns since the epoch
	Size    Size   `json:"size"`
	Joins   int    `json:"joins"`
	Seq     int64  `json:"seq"` // bytes that it has written
	Ended   *Ended `json:"ended,omitempty"`
}

// Bounds of what a keeper has.
const (
	MaxTerminals = 32
	MaxJoins     = 256 // of all terminals together, and other connections with them
	// Kept is how much of a terminal's output is kept, in bytes.
	Kept = 256 << 10
)

// ValidName reports whether a terminal can be called that.
func ValidName(s string) bool { return word(s, "._-") }

// ValidTerm reports whether that may be the value of TERM.
func ValidTerm(s string) bool { return word(s, "._+-") }

// maxWord bounds a name, in bytes.
const maxWord = 64

// word reports whether s is letters, digits and, after the first, some others.
func word(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !plain && (i == 0 || strings.IndexByte(others, c) < 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxWord
}

// ValidID reports whether a terminal can have that id.
func ValidID(s string) bool { return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == "" }

func (h Hello) check() *Refused {
	switch {
	case h.Ask != ToJoin && h.Ask != ToList && h.Ask != ToEnd:
		return &Refused{Unclear, "ask to join, list or end"}
	case h.Ask != ToList && !ValidName(h.Name):
		return &Refused{Unclear, "a terminal's name is letters, digits, dots, dashes and underscores, 64 at most"}
	case h.Term != "" && !ValidTerm(h.Term):
		return &Refused{Unclear, "that is no value of TERM"}
	case h.ID != "" && !ValidID(h.ID) || h.After < 0:
		return &Refused{Unclear, "that is no place in a terminal's output"}
	}
	return nil
}
