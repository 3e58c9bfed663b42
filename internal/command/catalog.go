package command

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// QoSPut makes a QoS or changes one; what is nil stays. Names are looked up, and an
// empty list is everything.
type QoSPut struct {
	Create bool `json:",omitempty"`
	Name   string

	Priority, Factor                  *int64 `json:",omitempty"`
	MaxWall, DefWall, Grace, MaxGrace *int64 `json:",omitempty"` // ns

	Accounts, Partitions, Preempts *[]string      `json:",omitempty"`
	Refuse                         *bool          `json:",omitempty"`
	Contract                       ContractChange `json:",omitzero"`
}

// ContractChange changes a catalog.Contract; what is nil stays.
type ContractChange struct {
	Exempt, Cancel, Keep *bool   `json:",omitempty"`
	MinRun, Grace        *int64  `json:",omitempty"` // ns
	Signal               *string `json:",omitempty"` // without SIG
}

func (c ContractChange) apply(to *catalog.Contract) {
	set(&to.Exempt, c.Exempt)
	set(&to.Cancel, c.Cancel)
	set(&to.Keep, c.Keep)
	set(&to.MinRun, c.MinRun)
	set(&to.Grace, c.Grace)
	set(&to.Signal, c.Signal)
}

// Kind is qos.create or qos.set.
func (c QoSPut) Kind() string {
	if c.Create {
		return "qos.create"
	}
	return "qos.set"
}

var onlyOperator = fault.New(codes.Denied, "only an operator may change partitions and QoS")

// Decide makes or changes the QoS.
func (c QoSPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.CatalogSet, 0, 0) {
		return world.Outcome{}, onlyOperator
	}
	if c.Factor != nil && !w.Can(at.Principal, access.PriceSet, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may set a price factor")
	}
	row, exists := w.Catalog.QoS.Get(c.Name)
	if c.Create {
		if err := vacant("QoS", c.Name, exists); err != nil {
			return world.Outcome{}, err
		}
		row = catalog.QoS{Name: c.Name, Factor: 1000, Grace: min(defaultGrace, w.Site.MaxGrace), MaxGrace: w.Site.MaxGrace}
	} else if !exists {
		return world.Outcome{}, fault.NotFound("QoS", c.Name)
	}
	if row.Configured && (c.Priority != nil || c.Factor != nil || c.MaxWall != nil || c.Grace != nil || c.MaxGrace != nil) {
		return world.Outcome{}, configured("QoS", c.Name, "priority, factor, max_time, grace and max_grace")
	}
	if err := c.apply(w, &row); err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Changes: []world.Change{catalog.QoSSet{Row: row}}, Result: row, Event: world.Event{Message: "QoS " + row.Name}}, nil
}

// defaultGrace, in ns, is that of a QoS which names none.
const defaultGrace = int64(30e9)

func (c QoSPut) apply(w *world.World, row *catalog.QoS) error {
	var bad fault.Fields
	set(&row.Priority, c.Priority)
	set(&row.Factor, c.Factor)
	set(&row.MaxWall, c.MaxWall)
	set(&row.DefWall, c.DefWall)
	set(&row.Grace, c.Grace)
	set(&row.MaxGrace, c.MaxGrace)
	set(&row.Refuse, c.Refuse)
	c.Contract.apply(&row.Contract)
	accounts(w, &bad, "accounts", &row.Allow, c.Accounts)
	named(&bad, "partitions", "partition", &row.Partitions, c.Partitions, w.Catalog.Partitions.Get)
	set(&row.Preempts, sorted(c.Preempts))
	within(&bad, "priority", row.Priority, -maxPriority, maxPriority)
	within(&bad, "factor", row.Factor, 0, maxFactor)
	spanned(&bad, "max_time", row.MaxWall, 0)
	spanned(&bad, "default_time", row.DefWall, row.MaxWall)
	spanned(&bad, "max_grace", row.MaxGrace, w.Site.MaxGrace)
	spanned(&bad, "grace", row.Grace, row.MaxGrace)
	spanned(&bad, "min_run", row.Contract.MinRun, 0)
	spanned(&bad, "preempt_grace", row.Contract.Grace, w.Site.MaxGrace)
	if s := row.Contract.Signal; s != "" && !workload.KnownSignal(s) {
		bad.Add("preempt_signal", "%q isn't a signal that a job can be told with, e.g. TERM or USR1", s)
	}
	if err := bad.Err(); err != nil {
		return err
	}
	return w.Catalog.CheckPreempts(*row)
}

// PartitionPut makes a partition or changes one; what is nil stays. An empty list
// is everything.
type PartitionPut struct {
	Create bool `json:",omitempty"`
	Name   string

	Nodes                      *[]string `json:",omitempty"`
	Priority, MaxWall, DefWall *int64    `json:",omitempty"` // times in ns
	Accounts, Deny, QoS        *[]string `json:",omitempty"`
	ShareDevices               *bool     `json:",omitempty"`
}

// Kind is partition.create or partition.set.
func (c PartitionPut) Kind() string {
	if c.Create {
		return "partition.create"
	}
	return "partition.set"
}

// Decide makes or changes the partition. What runs goes on where it is.
func (c PartitionPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.CatalogSet, 0, 0) {
		return world.Outcome{}, onlyOperator
	}
	row, exists := w.Catalog.Partitions.Get(c.Name)
	if c.Create {
		if err := vacant("partition", c.Name, exists); err != nil {
			return world.Outcome{}, err
		}
		row = catalog.Partition{Name: c.Name, DefWall: w.Site.DefWall}
	} else if !exists {
		return world.Outcome{}, fault.NotFound("partition", c.Name)
	}
	if row.Configured && (c.Nodes != nil || c.MaxWall != nil || c.DefWall != nil) {
		return world.Outcome{}, configured("partition", c.Name, "nodes, max_time and default_time")
	}
	var bad fault.Fields
	named(&bad, "nodes", "node", &row.Nodes, c.Nodes, w.Placement.Nodes.Get)
	set(&row.Priority, c.Priority)
	set(&row.MaxWall, c.MaxWall)
	set(&row.DefWall, c.DefWall)
	set(&row.ShareDevices, c.ShareDevices)
	accounts(w, &bad, "accounts", &row.Allow, c.Accounts)
	accounts(w, &bad, "deny", &row.Deny, c.Deny)
	named(&bad, "qos", "QoS", &row.QoS, c.QoS, w.Catalog.QoS.Get)
	within(&bad, "priority", row.Priority, -maxPriority, maxPriority)
	spanned(&bad, "max_time", row.MaxWall, 0)
	spanned(&bad, "default_time", row.DefWall, row.MaxWall)
	if err := bad.Err(); err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Changes: []world.Change{catalog.PartitionSet{Row: row}}, Result: row, Event: world.Event{Message: "partition " + row.Name}}, nil
}

// QoSRemove retires a QoS that nothing uses.
type QoSRemove struct{ Name string }

// Kind is qos.remove.
func (QoSRemove) Kind() string { return "qos.remove" }

// Decide retires the QoS, or says who uses it.
func (c QoSRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, ok := w.Catalog.QoS.Get(c.Name)
	switch {
	case !w.Can(at.Principal, access.CatalogSet, 0, 0):
		return world.Outcome{}, onlyOperator
	case !ok:
		return world.Outcome{}, fault.NotFound("QoS", c.Name)
	case row.Configured:
		return world.Outcome{}, configured("QoS", c.Name, "its existence")
	}
	var by []string
	for _, q := range w.Catalog.QoS.All() {
		if slices.Contains(q.Preempts, c.Name) {
			by = append(by, "QoS "+q.Name+" preempts it")
		}
	}
	for _, p := range w.Catalog.Partitions.All() {
		if slices.Contains(p.QoS, c.Name) {
			by = append(by, "partition "+p.Name+" takes it")
		}
	}
	by = append(by, limitsOf(w, func(sc limits.Scope) bool { return sc.QoS == c.Name })...)
	by = append(by, jobsOf(w, func(j *workload.Job) bool { return j.Spec.QoS == c.Name })...)
	if err := inUse("QoS", c.Name, by); err != nil {
		return world.Outcome{}, err
	}
	row.Retired = true
	return world.Outcome{Changes: []world.Change{catalog.QoSSet{Row: row}}, Result: row, Event: world.Event{Message: "QoS " + row.Name}}, nil
}

// PartitionRemove retires a partition that nothing uses. Its nodes stay.
type PartitionRemove struct{ Name string }

// Kind is partition.remove.
func (PartitionRemove) Kind() string { return "partition.remove" }

// Decide retires the partition, or says who uses it.
func (c PartitionRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, ok := w.Catalog.Partitions.Get(c.Name)
	switch {
	case !w.Can(at.Principal, access.CatalogSet, 0, 0):
		return world.Outcome{}, onlyOperator
	case !ok:
		return world.Outcome{}, fault.NotFound("partition", c.Name)
	case row.Configured:
		return world.Outcome{}, configured("partition", c.Name, "its existence")
	}
	var by []string
	for _, q := range w.Catalog.QoS.All() {
		if slices.Contains(q.Partitions, c.Name) {
			by = append(by, "QoS "+q.Name+" is for it")
		}
	}
	by = append(by, limitsOf(w, func(sc limits.Scope) bool { return sc.Partition == c.Name })...)
	by = append(by, sharesOf(w, func(s share.Share) bool { return s.Partition == c.Name })...)
	by = append(by, jobsOf(w, func(j *workload.Job) bool { return j.Spec.Partition == c.Name })...)
	by = append(by, reservationsOf(w, func(r placement.Reservation) bool { return r.Partition == c.Name })...)
	if err := inUse("partition", c.Name, by); err != nil {
		return world.Outcome{}, err
	}
	row.Retired = true
	return world.Outcome{Changes: []world.Change{catalog.PartitionSet{Row: row}}, Result: row, Event: world.Event{Message: "partition " + row.Name}}, nil
}

// Bounds of what may be set.
const (
	maxPriority = 1_000_000
	maxFactor   = 1000 * 1000
	maxSpan     = int64(10*365*24*3600) * 1e9 // ns
)

var catalogName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// vacant checks the name of something that is to be made.
func vacant(kind, name string, taken bool) error {
	switch {
	case !catalogName.MatchString(name):
		return fault.Invalid("name", "must be 1 to 63 small letters, digits, dots and dashes, and begin and end with a letter or digit")
	case taken:
		return fault.New(codes.Exists, "%s %s exists already", kind, name)
	}
	return nil
}

// configured refuses to change at run time what the configuration says.
func configured(kind, name, what string) error {
	return fault.New(codes.Conflict, "%s %s is defined in the server's configuration: change %s there and restart the server", kind, name, what)
}

func inUse(kind, name string, by []string) error {
	if len(by) == 0 {
		return nil
	}
	return fault.New(codes.Conflict, "%s %s is in use: %s", kind, name, strings.Join(by, ", "))
}

// limitsOf names the limits whose scope matches.
func limitsOf(w *world.World, match func(limits.Scope) bool) []string {
	var out []string
	for _, l := range w.Limits.Limits.All() {
		if match(l.Scope) {
			out = append(out, fmt.Sprintf("limit %d is about it", l.ID))
		}
	}
	return out
}

// jobsOf names a few of the live jobs that match and counts them.
func jobsOf(w *world.World, match func(*workload.Job) bool) []string {
	const most = 5
	var ids []string
	n := 0
	for k, j := range w.Workload.Jobs.All() {
		if match(j) {
			if n++; n <= most {
				ids = append(ids, strconv.FormatInt(int64(k), 10))
			}
		}
	}
	switch {
	case n == 0:
		return nil
	case n == 1:
		return []string{"job " + ids[0] + " has it"}
	case n > most:
		ids = append(ids, "…")
	}
	return []string{fmt.Sprintf("%d jobs have it (%s)", n, strings.Join(ids, " "))}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// sorted is a list without repetitions; an empty one is nil.
func sorted[T cmp.Ordered](in *[]T) *[]T {
	if in == nil {
		return nil
	}
	var out []T
	if len(*in) > 0 {
		out = slices.Compact(slices.Sorted(slices.Values(*in)))
	}
	return &out
}

// accounts replaces a list of accounts by those named.
func accounts(w *world.World, bad *fault.Fields, field string, to *[]id.Account, names *[]string) {
	if names == nil {
		return
	}
	var ids []id.Account
	for _, n := range *names {
		a, ok := w.Tenancy.Account(n)
		if !ok {
			bad.Add(field, "no such account: %s", n)
		}
		ids = append(ids, a.ID)
	}
	*to = *sorted(&ids)
}

// named replaces a list of names that must exist.
func named[R any](bad *fault.Fields, field, kind string, to *[]string, names *[]string, get func(string) (R, bool)) {
	if names == nil {
		return
	}
	for _, n := range *names {
		if _, ok := get(n); !ok {
			bad.Add(field, "no such %s: %s", kind, n)
		}
	}
	*to = *sorted(names)
}

func within(bad *fault.Fields, field string, n, low, high int64) {
	if n < low || n > high {
		bad.Add(field, "must be from %d to %d", low, high)
	}
}

// spanned checks a time in ns that may be at most so long; 0: ten years.
func spanned(bad *fault.Fields, field string, ns, most int64) {
	if most == 0 {
		most = maxSpan
	}
	switch {
	case ns < 0:
		bad.Add(field, "must not be negative")
	case ns > most:
		bad.Add(field, "%s is too long: at most %s", quantity.FormatDuration(ns), quantity.FormatDuration(most))
	}
}
