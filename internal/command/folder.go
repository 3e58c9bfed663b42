package command

import (
	"maps"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// The bounds of a folder's declaration.
const (
	maxFolders    = 50 // of one account
	maxFolderEnv  = 20
	maxFolderText = 4096 // bytes of a variable
)

// FolderPut lets jobs of an account find a folder of the machine, in place of what it has
// of that name.
type FolderPut struct {
	Account  string `json:",omitempty"` // empty: everybody's
	Name     string
	Path     string
	Target   string            `json:",omitempty"`
	ReadOnly bool              `json:",omitempty"`
	Env      map[string]string `json:"-"`
	Comment  string            `json:",omitempty"`
}

// Kind is folder.set.
func (FolderPut) Kind() string { return "folder.set" }

// Decide puts it.
func (c FolderPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	account, err := folderAccount(w, at, c.Account)
	if err != nil {
		return world.Outcome{}, err
	}
	row, err := c.row(account)
	if err != nil {
		return world.Outcome{}, err
	}
	row.Changed = at.Now
	n := 0
	for _, f := range w.Assets.FoldersOf([]id.Account{account}) {
		if f.Name == row.Name {
			continue
		}
		if n++; f.Target == row.Target {
			return world.Outcome{}, fault.Invalid("target", "%s is where folder %s is: say another place", row.Target, f.Name)
		}
	}
	if n >= maxFolders {
		return world.Outcome{}, fault.New(codes.Conflict, "there are %d folders, as many as an account may have: croft folder rm some", n)
	}
	return world.Outcome{
		Changes: []world.Change{asset.FolderSet{Row: row}}, Result: row,
		Event: world.Event{Account: account, Message: "jobs find " + row.Path + " at " + row.Target},
	}, nil
}

func (c FolderPut) row(account id.Account) (asset.Folder, error) {
	var bad fault.Fields
	row := asset.Folder{Account: account, Name: c.Name, ReadOnly: c.ReadOnly, Env: c.Env, Comment: c.Comment}
	if !workload.KnownVolume(c.Name) {
		bad.Add("name", "must be at most 64 letters, digits and _ . -, the first a letter or digit")
	}
	var ok bool
	if row.Path, ok = workload.HostPath(c.Path); !ok {
		bad.Add("path", "%q must be an absolute path without .. and not /", c.Path)
	}
	target := c.Target
	if target == "" {
		target = asset.DefaultTarget(c.Account, c.Name)
	}
	if row.Target, ok = workload.FolderTarget(target); !ok {
		bad.Add("target", "%q must be an absolute path without .., and none that containers need themselves", target)
	}
	if len(c.Comment) > maxComment {
		bad.Add("comment", "has more than %d bytes", maxComment)
	}
	if len(c.Env) > maxFolderEnv {
		bad.Add("env", "has more than %d variables", maxFolderEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if !workload.EnvName(name) || len(c.Env[name]) > maxFolderText {
			bad.Add("env", "a variable is a name of letters, digits and _, and a value of at most %d bytes", maxFolderText)
			break
		}
	}
	return row, bad.Err()
}

// folderAccount is the account of a folder that the caller may declare; 0: everybody.
func folderAccount(w *world.World, at world.Context, name string) (id.Account, error) {
	if name == "" {
		if !w.Can(at.Principal, access.CatalogSet, 0, 0) {
			return 0, fault.New(codes.Denied, "only an operator says which folders of the machine jobs find")
		}
		return 0, nil
	}
	a, ok := w.Tenancy.Account(name)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, a.ID) {
		return 0, fault.NotFound("account", name)
	}
	if !w.Can(at.Principal, access.CatalogSet, 0, a.ID) {
		return 0, fault.New(codes.Denied, "only an operator says which folders of the machine jobs find")
	}
	return a.ID, nil
}

// FolderRemove lets jobs not find a folder any more.
type FolderRemove struct {
	Account string `json:",omitempty"`
	Name    string
}

// Kind is folder.remove.
func (FolderRemove) Kind() string { return "folder.remove" }

// Decide removes its declaration.
func (c FolderRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	account, err := folderAccount(w, at, c.Account)
	if err != nil {
		return world.Outcome{}, err
	}
	row, ok := w.Assets.Folder(account, c.Name)
	if !ok {
		return world.Outcome{}, fault.NotFound("folder", c.Name)
	}
	row.Removed, row.Changed = true, at.Now
	return world.Outcome{
		Changes: []world.Change{asset.FolderSet{Row: row}},
		Event:   world.Event{Account: account, Message: "jobs don't find " + row.Path + " any more"},
	}, nil
}
