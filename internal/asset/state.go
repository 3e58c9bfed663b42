package asset

import (
	"cmp"
	"iter"
	"slices"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ asset() }

// The changes.
type (
	ImageSet  struct{ Row Image }
	FolderSet struct{ Row Folder }

	TemplateSet struct{ Row Template }
)

func (ImageSet) asset()    {}
func (FolderSet) asset()   {}
func (TemplateSet) asset() {}

// State is all assets.
type State struct {
	Images  table.Table[string, Image]  // by name
	Saving  table.Table[string, Image]  // those on their way
	folders table.Table[string, Folder] // by account and name

	templates table.Table[string, Template] // by user and name
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{Images: s.Images.Copy(), Saving: s.Saving.Copy(), folders: s.folders.Copy(), templates: s.templates.Copy()}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	switch c := c.(type) {
	case ImageSet:
		keep(&s.Images, c.Row.Ref, c.Row, !c.Row.Removed)
		keep(&s.Saving, c.Row.Ref, c.Row, !c.Row.Removed && c.Row.State == Saving)
	case FolderSet:
		keep(&s.folders, keyOf(c.Row.Account, c.Row.Name), c.Row, !c.Row.Removed)
	case TemplateSet:
		keep(&s.templates, keyOf(c.Row.User, c.Row.Name), c.Row, !c.Row.Removed)
	}
}

// keyOf orders what an account or a user has of a name.
func keyOf[K ~int64](of K, name string) string { return table.Pair(int64(of), 0) + name }

func keep[R any](t *table.Table[string, R], key string, row R, there bool) {
	if there {
		t.Set(key, row)
	} else {
		t.Delete(key)
	}
}

// OwnerOf is who has the image of a name that was asked for at a moment, in ns; 0: there is none
// such.
func (s *State) OwnerOf(ref string, made int64) id.User {
	if i, ok := s.Images.Get(ref); ok && i.Made == made {
		return i.User
	}
	return 0
}

// SizeOf is what a user's images add, in bytes, those on their way as far as they are.
func (s *State) SizeOf(user id.User) int64 {
	var sum int64
	for _, i := range s.Images.All() {
		if i.User == user {
			sum += i.Size
		}
	}
	return sum
}

// ByDigest finds an image by its content.
func (s *State) ByDigest(digest string) (Image, bool) {
	for _, i := range s.Images.All() {
		if i.Digest == digest && digest != "" {
			return i, true
		}
	}
	return Image{}, false
}

// Folder finds a folder of an account.
func (s *State) Folder(a id.Account, name string) (Folder, bool) {
	return s.folders.Get(keyOf(a, name))
}

// Folders are all folders, by account and name.
func (s *State) Folders() iter.Seq2[string, Folder] { return s.folders.All() }

// FoldersOf are the folders that jobs of an account have, whose path upwards is given: its
// own and those of the accounts above it, the topmost account's first. The account 0 in
// it stands for everybody.
func (s *State) FoldersOf(path []id.Account) []Folder {
	var out []Folder
	for _, f := range s.folders.All() {
		if slices.Contains(path, f.Account) {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Folder) int {
		return cmp.Compare(slices.Index(path, b.Account), slices.Index(path, a.Account))
	})
	return out
}

// Template finds a template of a user's.
func (s *State) Template(u id.User, name string) (Template, bool) {
	return s.templates.Get(keyOf(u, name))
}

// Templates are all templates, by user and name.
func (s *State) Templates() iter.Seq2[string, Template] { return s.templates.All() }
