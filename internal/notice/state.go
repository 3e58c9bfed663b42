package notice

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ notice() }

// The changes: each puts the whole row. A Contact without address and wants is taken away, as
// is a Hook without a secret.
type (
	ContactSet struct{ Row Contact }
	LevelSet   struct{ Row Level }
	HookSet    struct{ Row Hook }
)

func (ContactSet) notice() {}
func (LevelSet) notice()   {}
func (HookSet) notice()    {}

// Book is where people are told things, and what accounts' managers were told of. Notices
// aren't in it: nothing is decided by them.
type Book struct {
	Contacts table.Table[id.User, Contact]
	Levels   table.Table[id.Account, Level]

	hooks      table.Table[string, Hook] // by user and name
	ofAccounts table.Table[string, Hook] // those of them that are told of an account
}

// Copy returns an independent book in constant time.
func (b *Book) Copy() Book {
	return Book{Contacts: b.Contacts.Copy(), Levels: b.Levels.Copy(), hooks: b.hooks.Copy(), ofAccounts: b.ofAccounts.Copy()}
}

// Fold puts a change's row.
func (b *Book) Fold(c Change) {
	switch c := c.(type) {
	case ContactSet:
		if c.Row.Address == "" && c.Row.Wants == "" {
			b.Contacts.Delete(c.Row.User)
			return
		}
		b.Contacts.Set(c.Row.User, c.Row)
	case LevelSet:
		if c.Row.Percent == 0 && !c.Row.Over {
			b.Levels.Delete(c.Row.Account)
			return
		}
		b.Levels.Set(c.Row.Account, c.Row)
	case HookSet:
		b.putHook(c.Row)
	}
}

// Of is a user's contact; of one who hasn't said anything the zero value with his id.
func (b *Book) Of(u id.User) Contact {
	c, _ := b.Contacts.Get(u)
	c.User = u
	return c
}
