package store

import (
	"fmt"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
)

func accounts() *relation[tenancy.Account] {
	type row = tenancy.Account
	return &relation[row]{name: "account", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Account { return &r.ID }),
		str("name", func(r *row) *string { return &r.Name }),
		num("parent", func(r *row) *id.Account { return &r.Parent }),
		str("billing", func(r *row) *tenancy.Billing { return &r.Billing }),
		str("unix_group", func(r *row) *string { return &r.Group }),
		flag("closed", func(r *row) *bool { return &r.Closed }),
		num("created", func(r *row) *int64 { return &r.Created }),
		num("ends", func(r *row) *int64 { return &r.Ends }),
		num("weight", func(r *row) *int64 { return &r.Weight }),
		num("retired", func(r *row) *int64 { return &r.Retired }),
		str("out_of_credit", func(r *row) *tenancy.OutOfCredit { return &r.OutOfCredit }),
		num("overdraft", func(r *row) *money.Micros { return &r.Overdraft }),
	}}
}

func persons() *relation[tenancy.User] {
	type row = tenancy.User
	return &relation[row]{name: "person", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.User { return &r.ID }),
		str("name", func(r *row) *string { return &r.Name }),
		str("platform", func(r *row) *access.Platform { return &r.Platform }),
		num("uid", func(r *row) *int64 { return &r.UID }),
		num("uid_since", func(r *row) *int64 { return &r.UIDSince }),
		str("warning", func(r *row) *string { return &r.Warning }),
		flag("blocked", func(r *row) *bool { return &r.Blocked }),
		num("created", func(r *row) *int64 { return &r.Created }),
		num("ends", func(r *row) *int64 { return &r.Ends }),
		num("retired", func(r *row) *int64 { return &r.Retired }),
	}}
}

func members() *relation[tenancy.Member] {
	type row = tenancy.Member
	return &relation[row]{name: "member", keys: 2, columns: []column[row]{
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("person", func(r *row) *id.User { return &r.User }),
		encoded("role", func(r *row) (string, error) { return r.Role.String(), nil }, scanRole),
		flag("from_group", func(r *row) *bool { return &r.FromGroup }),
		num("ends", func(r *row) *int64 { return &r.Ends }),
		num("weight", func(r *row) *int64 { return &r.Weight }),
	}}
}

func scanRole(r *tenancy.Member, name string) (err error) {
	var ok bool
	if r.Role, ok = access.ParseRole(name); !ok && name != "" {
		err = fmt.Errorf("unknown role %q", name)
	}
	return err
}

func passwords() *relation[tenancy.Password] {
	type row = tenancy.Password
	return &relation[row]{name: "password", keys: 1, secret: []string{"hash"}, columns: []column[row]{
		num("person", func(r *row) *id.User { return &r.User }),
		str("hash", func(r *row) *string { return &r.Hash }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
	}}
}

func credentials() *relation[tenancy.Credential] {
	type row = tenancy.Credential
	return &relation[row]{name: "credential", keys: 2, secret: []string{"sealed"}, columns: []column[row]{
		num("person", func(r *row) *id.User { return &r.User }),
		str("registry", func(r *row) *string { return &r.Registry }),
		str("username", func(r *row) *string { return &r.Username }),
		str("sealed", func(r *row) *string { return &r.Sealed }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
	}}
}

func sshKeys() *relation[tenancy.SSHKey] {
	type row = tenancy.SSHKey
	return &relation[row]{name: "ssh_key", keys: 1, columns: []column[row]{
		str("fingerprint", func(r *row) *string { return &r.Fingerprint }),
		num("person", func(r *row) *id.User { return &r.User }),
		str("name", func(r *row) *string { return &r.Name }),
		str("type", func(r *row) *string { return &r.Type }),
		str("blob", func(r *row) *string { return &r.Blob }),
		num("created", func(r *row) *int64 { return &r.Created }),
		num("expires", func(r *row) *int64 { return &r.Expires }),
	}}
}

func tokens() *relation[tenancy.Token] {
	type row = tenancy.Token
	return &relation[row]{name: "token", keys: 1, secret: []string{"hash"}, columns: []column[row]{
		num("id", func(r *row) *id.Token { return &r.ID }),
		num("person", func(r *row) *id.User { return &r.User }),
		str("name", func(r *row) *string { return &r.Name }),
		str("hash", func(r *row) *string { return &r.Hash }),
		num("created", func(r *row) *int64 { return &r.Created }),
		num("expires", func(r *row) *int64 { return &r.Expires }),
		flag("revoked", func(r *row) *bool { return &r.Revoked }),
		num("scopes", func(r *row) *access.Scope { return &r.Scopes }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("idle", func(r *row) *int64 { return &r.Idle }),
		num("used", func(r *row) *int64 { return &r.Used }),
		num("spend", func(r *row) *money.Micros { return &r.Caps.Spend }),
		str("spend_per", func(r *row) *string { return &r.Caps.Per }),
		num("devices", func(r *row) *int64 { return &r.Caps.Devices }),
		num("ask_above", func(r *row) *money.Micros { return &r.Caps.Ask }),
	}}
}
