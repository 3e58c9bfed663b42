package archive

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Create makes a file, compressed, of what write writes: all of it, on disk, or none. It
// is readable by its owner alone and takes no other file's place; then the error is
// fs.ErrExist.
func Create(path string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.partial") // 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unless(os.Remove(f.Name()), fs.ErrNotExist)) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err == nil {
		err = write(z)
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// a link, unlike a renaming, fails where there is something by now
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

func unless(err, but error) error {
	if errors.Is(err, but) {
		return nil
	}
	return err
}

// SyncDir has the names in a folder on disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open opens a file that Create made; close it after reading.
func Open(path string) (*Reader, io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, ErrForeign), f.Close())
	}
	r, err := NewReader(damaged{z})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return r, f, nil
}

// damaged marks what decompressing finds.
type damaged struct{ r io.Reader }

func (d damaged) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%w: it is cut off", ErrDamaged)
	case errors.As(err, &corrupt), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// Check reads all of a file, and returns its manifest and sum if it is what was written.
func Check(path string) (m Manifest, sum string, err error) {
	r, f, err := Open(path)
	if err != nil {
		return m, "", err
	}
	defer f.Close()
	for err == nil {
		_, _, err = r.Next()
	}
	if errors.Is(err, io.EOF) {
		return r.Manifest, r.Sum(), nil
	}
	return m, "", fmt.Errorf("%s: %w", path, err)
}
