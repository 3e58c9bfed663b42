package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/archive"
	"croft.dev/croft/internal/world"
)

// Backup is what became of a database that was written to a file, or made of one.
type Backup struct {
	Path     string           `json:"path,omitempty"`
	SHA256   string           `json:"sha256,omitempty"`
	Kept     string           `json:"kept,omitempty"` // where the database is that was there
	Manifest archive.Manifest `json:"manifest"`
	Ledger   *v1.Verification `json:"ledger,omitempty"`
}

// BackUp writes the database of a configuration to a new file, while the server runs or
// not.
func BackUp(ctx context.Context, c config.Config, path string, progress store.Progress) (Backup, error) {
	db, err := databaseOf(c.Database)
	if err != nil {
		return Backup{}, err
	}
	out := Backup{Path: path}
	err = archive.Create(path, func(w io.Writer) (err error) {
		out.Manifest, out.SHA256, err = store.Backup(ctx, db, w, progress)
		return err
	})
	return out, backupError(err)
}

// CheckBackup reads a backup to its end and says what it is of.
func CheckBackup(path string) (Backup, error) {
	m, sum, err := archive.Check(path)
	return Backup{Path: path, SHA256: sum, Manifest: m}, backupError(err)
}

// Restore makes the database of a configuration from a backup. The server must not run.
func Restore(ctx context.Context, c config.Config, path string, progress store.Progress) (Backup, error) {
	db, err := databaseOf(c.Database)
	if err != nil {
		return Backup{}, err
	}
	out := Backup{Path: path}
	out.Manifest, out.Kept, err = store.Restore(ctx, db, path, out.look, progress)
	return out, backupError(err)
}

// CopyDatabase makes another database of that of a configuration. The server must not run.
// What was copied has to pass as the ledger, or the error says that it doesn't.
func CopyDatabase(ctx context.Context, c config.Config, to config.Database, progress store.Progress) (Backup, error) {
	from, err := databaseOf(c.Database)
	if err != nil {
		return Backup{}, err
	}
	target, err := databaseOf(to)
	if err != nil {
		return Backup{}, err
	}
	var out Backup
	out.Manifest, out.SHA256, err = store.Copy(ctx, from, target, out.look, progress)
	return out, backupError(err)
}

// look verifies the ledger of what was restored. That it doesn't hold is told, and no
// reason not to restore it: then it didn't hold before.
func (b *Backup) look(ctx context.Context, s *store.Store) error {
	w := world.New()
	head, err := s.Load(ctx, func(c world.Change) { w.Fold([]world.Change{c}) })
	if err != nil {
		return err
	}
	w.Seq, w.Now = head.Seq, head.At
	reader := query.New(query.Deps{Worlds: atRest{w}, History: s, Now: func() int64 { return time.Now().UnixNano() }})
	v, err := reader.Verify(ctx, access.Principal{System: true})
	b.Ledger = &v
	return err
}

// atRest is a world that nobody changes.
type atRest struct{ w *world.World }

func (a atRest) World() *world.World { return a.w }

// databaseOf is where a configuration says that the database is.
func databaseOf(d config.Database) (store.Config, error) {
	dsn, err := d.ConnString()
	if err != nil || dsn != "" {
		return store.Config{DSN: dsn}, err
	}
	return store.Config{Path: string(d.Path)}, nil
}

// backupError words what whoever backs up or restores can mend.
func backupError(err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return fault.New(codes.Conflict, "%v: a backup takes no other file's place; give another name", err)
	case errors.Is(err, store.ErrNewerSchema), errors.Is(err, archive.ErrNewer):
		return fault.New(codes.Conflict, "%v", err)
	case errors.Is(err, store.ErrLocked):
		return fault.New(codes.Conflict, "the server is using this database: stop it first (%v)", err)
	case errors.Is(err, store.ErrNotEmpty):
		return fault.New(codes.Conflict, "%v", err)
	case errors.Is(err, archive.ErrDamaged), errors.Is(err, archive.ErrForeign):
		return fault.New(codes.Invalid, "%v", err)
	}
	return err
}
