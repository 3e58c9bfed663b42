package store

import (
	"encoding/json"
	"fmt"
	"strconv"

	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// A new kind of change has its place in this file alone: where its row is put, and
// what it is called in the log.

// add puts the row of a change.
func (b *batchRows) add(c world.Change) error {
	switch c := c.(type) {
	case tenancy.AccountSet:
		return b.accounts.put(&c.Row)
	case tenancy.UserSet:
		return b.persons.put(&c.Row)
	case tenancy.MemberSet:
		return b.members.put(&c.Row)
	case tenancy.TokenSet:
		return b.tokens.put(&c.Row)
	case tenancy.PasswordSet:
		return b.passwords.put(&c.Row)
	case tenancy.CredentialSet:
		return b.credentials.put(&c.Row)
	case tenancy.SSHKeySet:
		return b.sshKeys.put(&c.Row)
	case notice.ContactSet:
		return b.contacts.put(&c.Row)
	case notice.LevelSet:
		return b.levels.put(&c.Row)
	case notice.HookSet:
		return b.hooks.put(&c.Row)
	case catalog.RepositorySet:
		return b.repositories.put(&c.Row)
	case asset.ImageSet:
		return b.images.put(&c.Row)
	case asset.FolderSet:
		return b.folders.put(&c.Row)
	case asset.TemplateSet:
		return b.templates.put(&c.Row)
	case catalog.PartitionSet:
		return b.partitions.put(&c.Row)
	case catalog.QoSSet:
		return b.qualities.put(&c.Row)
	case catalog.PriceSet:
		return b.prices.put(&c.Row)
	case limits.LimitSet:
		return b.bounds.put(&c.Row)
	case share.Set:
		return b.queues.put(&c.Row)
	case fairshare.UseSet:
		return b.shares.put(&c.Row)
	case limits.PeriodSet:
		return b.periods.put(&c.Row)
	case ledger.GrantSet:
		return b.grants.put(&c.Row)
	case allowance.Set:
		return b.allowances.put(&c.Row)
	case approval.RequestSet:
		return b.requests.put(&c.Row)
	case ledger.Posted:
		if err := b.addDaily(&c.Row); err != nil {
			return err
		}
		return b.transfers.put(&c.Row)
	case ledger.TileSet:
		return b.tiles.put(&c.Row)
	case ledger.PeriodSet:
		return b.closed.put(&c.Row)
	case workload.JobSet:
		return b.jobs.put(c.Row)
	case workload.StepSet:
		return b.steps.put(c.Row)
	case workload.RefusalSet:
		return b.refusals.put(c.Row)
	case placement.NodeSet:
		return b.nodes.put(&c.Row)
	case placement.DeviceSet:
		return b.devices.put(&c.Row)
	case placement.MaintenanceSet:
		return b.windows.put(&c.Row)
	case placement.ReservationSet:
		return b.reserved.put(&c.Row)
	case placement.BookingSet:
		return b.bookings.put(&c.Row)
	case world.SiteSet:
		return b.site(c.Row)
	case world.KeySet:
		return nil // columns of the log row
	}
	return fmt.Errorf("a change that no table takes: %T", c)
}

func (b *batchRows) site(row world.Site) error {
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return b.settings.put(&setting{settingSite, string(text)})
}

// Touched names the rows that changes put, "job:118 transfer:55", each once, for
// the log.
func Touched(changes []world.Change) string {
	var b []byte
	seen := make(map[string]bool, len(changes))
	for _, c := range changes {
		name := nameOf(c)
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, name...)
	}
	return string(b)
}

func nameOf(c world.Change) string {
	switch c := c.(type) {
	case tenancy.AccountSet:
		return numbered("account", c.Row.ID)
	case tenancy.UserSet:
		return numbered("user", c.Row.ID)
	case tenancy.MemberSet:
		return numbered(numbered("member", c.Row.Account), c.Row.User)
	case tenancy.TokenSet:
		return numbered("token", c.Row.ID)
	case tenancy.PasswordSet:
		return numbered("password", c.Row.User)
	case tenancy.CredentialSet:
		return numbered("credential", c.Row.User) + ":" + c.Row.Registry
	case tenancy.SSHKeySet:
		return numbered("ssh_key", c.Row.User) + ":" + c.Row.Fingerprint
	case notice.ContactSet:
		return numbered("contact", c.Row.User)
	case notice.LevelSet:
		return numbered("credit_level", c.Row.Account)
	case notice.HookSet:
		return numbered("webhook", c.Row.User) + ":" + c.Row.Name
	case catalog.RepositorySet:
		return "repository:" + c.Row.Name
	case asset.ImageSet:
		return "image:" + c.Row.Ref
	case asset.FolderSet:
		return numbered("folder", c.Row.Account) + ":" + c.Row.Name
	case asset.TemplateSet:
		return numbered("template", c.Row.User) + ":" + c.Row.Name
	case catalog.PartitionSet:
		return "partition:" + c.Row.Name
	case catalog.QoSSet:
		return "qos:" + c.Row.Name
	case catalog.PriceSet:
		return numbered("price", c.Row.ID)
	case limits.LimitSet:
		return numbered("limit", c.Row.ID)
	case share.Set:
		return numbered("queue_share", c.Row.ID)
	case fairshare.UseSet:
		return numbered(numbered("share", c.Row.Account), c.Row.User)
	case limits.PeriodSet:
		return numbered(numbered("period", c.Row.Limit), c.Row.From)
	case ledger.GrantSet:
		return numbered("grant", c.Row.ID)
	case allowance.Set:
		return numbered("allowance", c.Row.ID)
	case approval.RequestSet:
		return numbered("request", c.Row.ID)
	case ledger.Posted:
		return numbered("transfer", c.Row.ID)
	case ledger.TileSet:
		return numbered("tile:"+c.Row.Device, c.Row.From)
	case ledger.PeriodSet:
		return numbered("closed_period", c.Row.From)
	case workload.JobSet:
		return numbered("job", c.Row.ID)
	case workload.StepSet:
		return "step:" + strconv.FormatInt(int64(c.Row.Job), 10) + "." + strconv.Itoa(int(c.Row.N))
	case workload.RefusalSet:
		return numbered("refusal", c.Row.ID)
	case placement.NodeSet:
		return "node:" + c.Row.Name
	case placement.DeviceSet:
		return "device:" + c.Row.UUID
	case placement.MaintenanceSet:
		return numbered("maintenance", c.Row.ID)
	case placement.ReservationSet:
		return numbered("reservation", c.Row.ID)
	case placement.BookingSet:
		return numbered("booking", c.Row.ID)
	case world.SiteSet:
		return "site"
	}
	return ""
}

func numbered[T ~int64](kind string, n T) string {
	return kind + ":" + strconv.FormatInt(int64(n), 10)
}
