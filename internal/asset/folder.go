package asset

import (
	"croft.dev/croft/internal/id"
)

// Folder is a folder of the machine that jobs of an account, and of those below it, find at
// a place of its own.
type Folder struct {
	Account  id.Account // 0: everybody's
	Name     string
	Path     string // on the machine
	Target   string // in containers
	ReadOnly bool
	Env      map[string]string // what jobs are told that have it
	Comment  string
	Changed  int64 // ns
	Removed  bool
}

// DefaultTarget is where a folder is that names no place.
func DefaultTarget(account, name string) string {
	if account == "" {
		account = "all"
	}
	return "/shared/" + account + "/" + name
}

// Title is what a folder is called where jobs are told of it.
func (f Folder) Title() string { return "folder " + f.Target }
