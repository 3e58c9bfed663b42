package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/store/archive"
)

// ErrNotEmpty says that a database that was to be filled has something in it.
var ErrNotEmpty = errors.New("the database isn't empty")

// Restore makes a database of a backup's file, which is read to its end first. On SQLite a
// database that is there already is kept beside, under the name kept; on PostgreSQL the
// database has to be empty. check may look at what was restored before it takes its place;
// nothing does if check says no. A restore that is cut off leaves what was there.
//
// Errors: those of package archive, ErrLocked, ErrNotEmpty, ErrNewerSchema, ErrUnavailable.
func Restore(ctx context.Context, cfg Config, path string, check func(context.Context, *Store) error, progress Progress) (m archive.Manifest, kept string, err error) {
	if _, _, err := archive.Check(path); err != nil {
		return m, "", err
	}
	r, f, err := archive.Open(path)
	if err != nil {
		return m, "", err
	}
	defer f.Close()
	kept, err = replace(ctx, cfg, r, check, progress)
	return r.Manifest, kept, err
}

// Copy makes one database of another, which nobody may use meanwhile. The errors are those
// of Restore; a SQLite file may not be there yet.
func Copy(ctx context.Context, from, to Config, check func(context.Context, *Store) error, progress Progress) (m archive.Manifest, sum string, err error) {
	if _, err := os.Lstat(to.Path); to.Path != "" && err == nil {
		return m, "", fmt.Errorf("%s: %w", to.Path, ErrNotEmpty)
	}
	lead, err := lock(ctx, from)
	if err != nil {
		return m, "", err
	}
	defer func() { err = errors.Join(err, lead.release(nil)) }()
	out, in := io.Pipe()
	go func() {
		_, _, err := Backup(ctx, from, in, nil)
		in.CloseWithError(err) // nil: the end
	}()
	defer out.Close()
	r, err := archive.NewReader(out)
	if err != nil {
		return m, "", err
	}
	_, err = replace(ctx, to, r, check, progress)
	return r.Manifest, r.Sum(), err
}

// replace fills a database from an archive. A file is made under another name first.
func replace(ctx context.Context, cfg Config, r *archive.Reader, check func(context.Context, *Store) error, progress Progress) (kept string, err error) {
	if cfg.Path == "" {
		return "", create(ctx, cfg, r, check, progress)
	}
	lead, err := lockFile(cfg.Path+".lock", "a restore")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lead.release(nil)) }()
	fresh := cfg
	fresh.Path += ".restoring"
	if err := removeFiles(fresh.Path); err != nil {
		return "", err
	}
	if err := create(ctx, fresh, r, check, progress); err != nil {
		return "", errors.Join(err, removeFiles(fresh.Path))
	}
	if err := errors.Join(settled(fresh.Path), handOver(cfg.Path, fresh.Path)); err != nil {
		return "", err
	}
	if kept, err = keepAside(ctx, cfg.Path); err != nil {
		return "", err
	}
	if err := os.Rename(fresh.Path, cfg.Path); err != nil {
		return "", err
	}
	return kept, errors.Join(os.Remove(fresh.Path+".lock"), archive.SyncDir(filepath.Dir(cfg.Path)))
}

// removeFiles takes away what a restore that was cut off has left.
func removeFiles(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", path + ".lock"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// settled checks that a closed database is all in its one file, and has that on disk.
func settled(path string) error {
	if _, err := os.Lstat(path + "-wal"); err == nil {
		return fmt.Errorf("%s-wal is still there: another program has the database open", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// handOver gives what root has made to whoever has the folder: the server may be that user.
func handOver(path, fresh string) error {
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(path), &dir); err != nil || os.Geteuid() != 0 {
		return err
	}
	uid, gid := int(dir.Uid), int(dir.Gid)
	return errors.Join(os.Chown(fresh, uid, gid), os.Chown(path+".lock", uid, gid))
}

// keepAside gives a database that is there a second name, so that another can be renamed
// over the first: at no moment is there none. "": there was none.
func keepAside(ctx context.Context, path string) (kept string, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	s, err := connect(Config{Path: path})
	if err != nil {
		return "", err
	}
	// what is beside it in the log must be in it, or it would be applied to the next
	_, err = s.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err = errors.Join(err, s.Close()); err == nil {
		err = settled(path)
	}
	if err != nil {
		return "", fmt.Errorf("the database that is there can't be kept aside: move it and what is beside it away, then restore again: %w", err)
	}
	kept = path + ".before-" + time.Now().UTC().Format("20060102T150405.000")
	if err := os.Link(path, kept); err != nil {
		return "", err
	}
	return kept, archive.SyncDir(filepath.Dir(path))
}

// create fills an empty database, brings it up to date and has it checked.
func create(ctx context.Context, cfg Config, r *archive.Reader, check func(context.Context, *Store) error, progress Progress) (err error) {
	sh, err := shapeOf(ctx, r.Manifest.Schema, "")
	if err != nil {
		return err
	}
	if err := sh.matches(r.Manifest); err != nil {
		return err
	}
	s, err := connect(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.lead, err = lock(ctx, cfg); err != nil {
		return err
	}
	if err := s.empty(ctx, sh.version); err != nil {
		return err
	}
	if sh, err = shapeOf(ctx, sh.version, s.dialect.collate); err != nil {
		return err
	}
	if err := s.fill(ctx, sh, r, progress); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	if check == nil {
		return nil
	}
	return check(ctx, s)
}

// empty makes the tables of a version of the schema, if there are none yet.
func (s *Store) empty(ctx context.Context, version int64) error {
	p, _, err := provider(s.write, s.dialect)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return wrap("reading the schema's version", err)
	}
	if have > 0 {
		var rows int64
		if err := s.write.QueryRowContext(ctx, "SELECT COUNT(*) FROM log").Scan(&rows); err != nil {
			return wrap("reading the log", err)
		}
		if rows > 0 || have != version {
			return fmt.Errorf("%w: it has tables of version %d and %d rows of a log; give a new one", ErrNotEmpty, have, rows)
		}
	}
	if _, err := p.UpTo(ctx, version); err != nil {
		return wrap("making the tables", err)
	}
	return nil
}
