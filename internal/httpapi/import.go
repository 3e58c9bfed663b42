package httpapi

import (
	"cmp"
	"sync"
	"sync/atomic"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/roster"
	"croft.dev/croft/internal/tenancy"
)

// importMembers makes an account's members those of a table.
func (c *call) importMembers(in v1.ImportRequest) (v1.Import, error) {
	if _, err := c.Reader.Account(c.p, c.path("name")); err != nil {
		return v1.Import{}, err // whoever may not see it has nothing read for him
	}
	table, err := roster.Parse([]byte(in.CSV))
	if err != nil {
		return v1.Import{}, err
	}
	if err := c.findUIDs(table.Entries); err != nil {
		return v1.Import{}, err
	}
	cmd := command.MembersImport{Account: c.path("name"), Entries: table.Entries, Role: in.Role, Prune: in.Prune, Dry: in.DryRun}
	if cmd.Ends, err = changedEnd(in.Ends); err != nil {
		return v1.Import{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.Import{}, err
	}
	did, ok := got.Result.(command.Imported)
	if !ok && got.Replayed == nil {
		return v1.Import{}, unexpected(got)
	}
	out := v1.Import{Account: cmd.Account, DryRun: in.DryRun, Kept: did.Kept, Ignored: table.Ignored, Warnings: did.Warned, Changes: []v1.ImportChange{}}
	for _, s := range did.Steps {
		out.Changes = append(out.Changes, v1.ImportChange{Line: s.Line, User: s.User, Created: s.Created, Was: s.From.String(), Role: s.To.String()})
		switch {
		case s.To == access.NoRole:
			out.Removed++
		case s.From == access.NoRole:
			out.Added++
		default:
			out.Changed++
		}
		if s.Created {
			out.Created++
		}
	}
	return out, nil
}

// lookers is how many users are looked up at once: a directory that is far away answers
// each late, and several as late as one.
const lookers = 8

// findUIDs looks up, on the machine, those whom the import will make users of.
func (c *call) findUIDs(entries []tenancy.Entry) error {
	w := c.Sequencer.World()
	if !w.Can(c.p, access.UserRun, 0, 0) {
		return nil
	}
	var unknown []*tenancy.Entry
	for i, e := range entries {
		if _, known := w.Tenancy.User(e.User); !known && e.UID < 0 {
			unknown = append(unknown, &entries[i])
		}
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, lookers)
	for k := range errs {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(unknown)) && errs[k] == nil; i = next.Add(1) - 1 {
				who, known, err := c.person(unknown[i].User)
				if errs[k] = err; known {
					unknown[i].UID = who.UID
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}
