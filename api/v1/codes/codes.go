// Package codes lists every code that Croft answers with, in one table each:
// fault codes say what kind of error a call ended in, reason codes say why an
// admission was refused or a job waits. Both are stable: scripts may match them.
package codes

// Code is the kind of an error.
type Code string

// The fault codes.
const (
	Invalid         Code = "invalid"         // a field is wrong; Fields says which
	Unauthenticated Code = "unauthenticated" // who are you?
	Denied          Code = "denied"          // you may see it, but not do this
	NotFound        Code = "not_found"       // absent, or not yours to see
	Conflict        Code = "conflict"        // the state forbids it now
	Exists          Code = "exists"          // the name is taken
	Refused         Code = "refused"         // admission said no; Reasons says why
	TooLarge        Code = "too_large"
	TooMany         Code = "too_many_requests"
	Gone            Code = "gone"        // older than what is kept
	Unavailable     Code = "unavailable" // try again: runtime or store is down
	Internal        Code = "internal"    // Croft's own failure; the text stays inside
)

// Exit codes of the command line.
const (
	ExitOK       = 0
	ExitUsage    = 2
	ExitRefused  = 3
	ExitInternal = 125
)

// Status is the one table from a code to what each transport answers.
type Status struct {
	HTTP int
	Exit int
	MCP  int // JSON-RPC error code
}

var table = map[Code]Status{
	Invalid:         {422, ExitUsage, -32602},
	Unauthenticated: {401, ExitInternal, -32001},
	Denied:          {403, ExitInternal, -32003},
	NotFound:        {404, ExitUsage, -32004},
	Conflict:        {409, ExitUsage, -32009},
	Exists:          {409, ExitUsage, -32010},
	Refused:         {422, ExitRefused, -32022},
	TooLarge:        {413, ExitUsage, -32013},
	TooMany:         {429, ExitInternal, -32029},
	Gone:            {410, ExitUsage, -32011},
	Unavailable:     {503, ExitInternal, -32053},
	Internal:        {500, ExitInternal, -32603},
}

// Of returns the row of code; an unknown code is internal.
func Of(code Code) Status {
	if s, ok := table[code]; ok {
		return s
	}
	return table[Internal]
}

// All returns the fault codes in a stable order.
func All() []Code {
	return []Code{Invalid, Unauthenticated, Denied, NotFound, Conflict, Exists, Refused, TooLarge, TooMany, Gone, Unavailable, Internal}
}
