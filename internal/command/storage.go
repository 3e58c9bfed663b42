package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/world"
)

// StorageLimit notes who bounds what a user's home or a folder of an account may hold,
// before the file system is told. It changes no row: the file system keeps it.
type StorageLimit struct {
	User     string `json:",omitempty"` // or
	Account  string `json:",omitempty"`
	Folder   string `json:",omitempty"` // empty: the only one that jobs may write in
	Limit    int64  // bytes; 0: none
	MaxFiles int64  `json:",omitempty"` // 0: any number
}

// Kind is storage.limit.
func (StorageLimit) Kind() string { return "storage.limit" }

// Decide says whether the caller may. Its result is the tenancy.User or asset.Folder.
func (c StorageLimit) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if (c.User == "") == (c.Account == "") {
		return world.Outcome{}, fault.Invalid("user", "name a user or an account")
	}
	if c.Limit < 0 || c.MaxFiles < 0 {
		return world.Outcome{}, fault.Invalid("limit", "can't be negative")
	}
	bound := "has no limit"
	if c.Limit > 0 {
		bound = "may hold " + quantity.FormatBytes(c.Limit)
	}
	if c.User != "" {
		user, ok := w.Tenancy.User(c.User)
		switch {
		case !ok || !w.Can(at.Principal, access.UserSee, user.ID, 0):
			return world.Outcome{}, fault.NotFound("user", c.User)
		case !w.Can(at.Principal, access.CatalogSet, 0, 0):
			return world.Outcome{}, fault.New(codes.Denied, "only an operator bounds what homes hold")
		}
		return world.Outcome{Result: user, Event: world.Event{Message: "the home of " + user.Name + " " + bound}}, nil
	}
	account, err := folderAccount(w, at, c.Account)
	if err != nil {
		return world.Outcome{}, err
	}
	folder, err := c.folder(w, account)
	if err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Result: folder, Event: world.Event{Account: account, Message: "folder " + folder.Name + " of " + c.Account + ", " + folder.Path + ", " + bound}}, nil
}

// folder is the one that is meant.
func (c StorageLimit) folder(w *world.World, account id.Account) (asset.Folder, error) {
	if c.Folder != "" {
		f, ok := w.Assets.Folder(account, c.Folder)
		if !ok {
			return f, fault.NotFound("folder", c.Folder)
		}
		return f, nil
	}
	var found []asset.Folder
	for _, f := range w.Assets.FoldersOf([]id.Account{account}) {
		if !f.ReadOnly {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		return asset.Folder{}, fault.Invalid("folder", "%s has %d folders that jobs may write in: name one, of croft folder ls", c.Account, len(found))
	}
	return found[0], nil
}
