package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"croft.dev/croft/api/v1/audit"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/table"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Changed says for the log what changes make of what rows were in w, as a JSON list of
// audit.RowChange, or nothing. Rows that are a record themselves have no place in it: postings,
// device time, refusals, counted use, jobs and steps that are new. What becomes of jobs, steps, nodes
// and devices is in it if a person did it: what is observed of them is what they report.
func Changed(w *world.World, changes []world.Change, person bool) ([]byte, error) {
	var all []audit.RowChange
	for _, c := range changes {
		fields, err := changed(w, c, person)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", nameOf(c), err)
		}
		if len(fields) > 0 {
			all = append(all, audit.RowChange{Row: nameOf(c), Fields: fields})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

func changed(w *world.World, c world.Change, person bool) ([]audit.FieldChange, error) {
	switch c := c.(type) {
	case tenancy.AccountSet:
		return differ(accounts(), &w.Tenancy.Accounts, c.Row.ID, c.Row)
	case tenancy.UserSet:
		return differ(persons(), &w.Tenancy.Users, c.Row.ID, c.Row)
	case tenancy.MemberSet:
		was, _ := w.Tenancy.Member(c.Row.Account, c.Row.User)
		return fields(members(), &was, &c.Row)
	case tenancy.TokenSet:
		return differ(tokens(), &w.Tenancy.Tokens, c.Row.ID, c.Row)
	case tenancy.PasswordSet:
		return differ(passwords(), &w.Tenancy.Passwords, c.Row.User, c.Row)
	case tenancy.CredentialSet:
		was, _ := w.Tenancy.Credential(c.Row.User, c.Row.Registry)
		return fields(credentials(), &was, &c.Row)
	case tenancy.SSHKeySet:
		return differ(sshKeys(), &w.Tenancy.SSHKeys, c.Row.Fingerprint, c.Row)
	case notice.ContactSet:
		return differ(contacts(), &w.Notices.Contacts, c.Row.User, c.Row)
	case notice.HookSet:
		was, _ := w.Notices.Hook(c.Row.User, c.Row.Name)
		return fields(hooks(), &was, &c.Row)
	case asset.ImageSet:
		return differ(savedImages(), &w.Assets.Images, c.Row.Ref, c.Row)
	case asset.FolderSet:
		was, _ := w.Assets.Folder(c.Row.Account, c.Row.Name)
		return fields(folders(), &was, &c.Row)
	case asset.TemplateSet:
		was, _ := w.Assets.Template(c.Row.User, c.Row.Name)
		return fields(templates(), &was, &c.Row)
	case world.SiteSet:
		return siteFields(w.Site, c.Row)
	}
	if fields, ok, err := changedRules(w, c); ok {
		return fields, err
	}
	if !person {
		return nil, nil
	}
	return changedWork(w, c)
}

// changedRules is of what decides who may run, how much and at what cost.
func changedRules(w *world.World, c world.Change) (_ []audit.FieldChange, ok bool, err error) {
	var out []audit.FieldChange
	switch c := c.(type) {
	case catalog.RepositorySet:
		out, err = differ(repositories(), &w.Catalog.Repositories, c.Row.Name, c.Row)
	case catalog.PartitionSet:
		out, err = differ(partitions(), &w.Catalog.Partitions, c.Row.Name, c.Row)
	case catalog.QoSSet:
		out, err = differ(qualities(), &w.Catalog.QoS, c.Row.Name, c.Row)
	case catalog.PriceSet:
		out, err = differ(prices(), &w.Catalog.Prices, c.Row.ID, c.Row)
	case limits.LimitSet:
		out, err = differ(bounds(), &w.Limits.Limits, c.Row.ID, c.Row)
	case share.Set:
		out, err = differ(queueShares(), &w.Queues.Shares, c.Row.ID, c.Row)
	case ledger.GrantSet:
		out, err = differ(grants(), &w.Ledger.Grants, c.Row.ID, c.Row)
	case allowance.Set:
		out, err = differ(allowances(), &w.Allowances.Rules, c.Row.ID, c.Row)
	case approval.RequestSet:
		out, err = differ(requests(), &w.Approvals.Requests, c.Row.ID, c.Row)
	case ledger.PeriodSet:
		out, err = differ(closedPeriods(), &w.Ledger.Closed, c.Row.From, c.Row)
	case placement.MaintenanceSet:
		out, err = differ(windows(), &w.Placement.Maintenance, c.Row.ID, c.Row)
	case placement.ReservationSet:
		out, err = differ(reservations(), &w.Placement.Reservations, c.Row.ID, c.Row)
	default:
		return nil, false, nil
	}
	return out, true, err
}

// changedWork is of what runs, and where.
func changedWork(w *world.World, c world.Change) ([]audit.FieldChange, error) {
	switch c := c.(type) {
	case workload.JobSet:
		if was, ok := w.Workload.Jobs.Get(c.Row.ID); ok {
			return fields(jobs(), was, c.Row)
		}
	case workload.StepSet:
		if was, ok := w.Workload.Steps.Get(table.Pair(int64(c.Row.Job), int64(c.Row.N))); ok {
			return fields(steps(), was, c.Row)
		}
	case placement.NodeSet:
		return differ(nodes(), &w.Placement.Nodes, c.Row.Name, c.Row)
	case placement.DeviceSet:
		return differ(devices(), &w.Placement.Devices, c.Row.UUID, c.Row)
	case placement.BookingSet:
		return differ(bookings(), &w.Placement.Bookings, c.Row.ID, c.Row)
	}
	return nil, nil
}

// differ compares a row with what is in a table of the world.
func differ[K cmp.Ordered, R any](rel *relation[R], t *table.Table[K, R], key K, row R) ([]audit.FieldChange, error) {
	was, _ := t.Get(key)
	return fields(rel, &was, &row)
}

// fields compares two rows, of which the zero value is none. The key is the row's name
// already, and what is secret has no place in the log: that it changed has.
func fields[R any](rel *relation[R], was, row *R) ([]audit.FieldChange, error) {
	before, err := rel.values(was)
	if err != nil {
		return nil, err
	}
	after, err := rel.values(row)
	if err != nil {
		return nil, err
	}
	return compare(before, after, rel.secret), nil
}

// quiet are fields that say only that something was done.
var quiet = []string{"seq", "used"}

var (
	nothing = json.RawMessage("null")
	unsaid  = json.RawMessage(`"not kept"`)
)

func compare(before, after map[string]json.RawMessage, secret []string) []audit.FieldChange {
	names := maps.Clone(before)
	maps.Copy(names, after)
	var out []audit.FieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f := audit.FieldChange{Name: name, Before: before[name], After: after[name]}
		if bytes.Equal(f.Before, f.After) || slices.Contains(quiet, name) {
			continue
		}
		for _, v := range []*json.RawMessage{&f.Before, &f.After} {
			switch {
			case *v == nil:
				*v = nothing
			case slices.Contains(secret, name):
				*v = unsaid
			}
		}
		out = append(out, f)
	}
	return out
}

// values are a row's fields by name, as JSON, without those that are empty. A document's are
// "spec.time" and the like.
func (r *relation[R]) values(row *R) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, c := range r.columns[r.keys:] {
		v, err := c.get(row)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if text, ok := v.(string); ok && c.json {
			if err := spread(out, c.name, []byte(text)); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		keepValue(out, c.name, text)
	}
	return out, nil
}

// spread puts the parts of an object, or what isn't one whole.
func spread(out map[string]json.RawMessage, name string, text []byte) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		keepValue(out, name, text)
		return nil
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	prefix := name + "."
	if name == bodyColumn {
		prefix = ""
	}
	for part, v := range parts {
		keepValue(out, prefix+part, v)
	}
	return nil
}

func keepValue(out map[string]json.RawMessage, name string, v json.RawMessage) {
	switch string(v) {
	case "null", "false", "0", `""`, "[]", "{}":
	default:
		out[name] = v
	}
}

func siteFields(was, is world.Site) ([]audit.FieldChange, error) {
	var sides [2]map[string]json.RawMessage
	for i, s := range []world.Site{was, is} {
		sides[i] = map[string]json.RawMessage{}
		text, err := json.Marshal(s)
		if err == nil {
			err = spread(sides[i], bodyColumn, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return compare(sides[0], sides[1], nil), nil
}
