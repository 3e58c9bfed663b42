// Package tenancy has the people and the accounts: users, the account tree,
// memberships and personal tokens.
package tenancy

import (
	"fmt"
	"regexp"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
)

// Billing says what money means for an account.
type Billing string

// The billing modes.
const (
	BillingOff      Billing = "off"      // not metered in money
	BillingShowback Billing = "showback" // metered and posted, never refused for funds
	BillingEnforce  Billing = "enforce"  // no funds, no start
)

// ParseBilling reads a mode; empty is showback.
func ParseBilling(s string) (Billing, bool) {
	switch b := Billing(s); b {
	case BillingOff, BillingShowback, BillingEnforce:
		return b, true
	case "":
		return BillingShowback, true
	}
	return "", false
}

// Account is a node of the account tree: who pays. Nothing is deleted: an account
// is closed.
type Account struct {
	ID      id.Account
	Name    string
	Parent  id.Account // 0: a root
	Billing Billing
	Group   string // Unix group that the membership follows; empty: none
	Closed  bool
	Created int64 // ns since the epoch
}

// User is a person. UID is the Unix uid bound to the name, or -1.
type User struct {
	ID       id.User
	Name     string
	Platform access.Platform
	UID      int64
	UIDSince int64  // ns; when the binding was made
	Warning  string // e.g. the uid was given to another name: no job runs until rebound
	Blocked  bool
	Created  int64
}

// Member is a user's role in an account.
type Member struct {
	Account   id.Account
	User      id.User
	Role      access.Role
	FromGroup bool // by the followed Unix group: comes and goes with it
}

// Token is a personal token. Only its SHA-256 is kept.
type Token struct {
	ID      id.Token
	User    id.User
	Name    string
	Hash    string // hex SHA-256 of the secret
	Created int64
	Expires int64 // 0: never
	Revoked bool
}

// Usable reports whether the token still authenticates at time now.
func (t Token) Usable(now int64) bool { return !t.Revoked && (t.Expires == 0 || now < t.Expires) }

var namePattern = regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,62}$`)

// CheckName says what is wrong with the name of a user or account.
func CheckName(name string) error {
	if !namePattern.MatchString(name) || name == ".." {
		return fmt.Errorf("must be 1 to 63 of a-z 0-9 _ . - and begin with a letter or _")
	}
	return nil
}
