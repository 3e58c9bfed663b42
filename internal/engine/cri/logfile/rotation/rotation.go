// Package rotation moves log files aside, and finds and deletes those that were. It knows
// nothing of what is in them.
package rotation

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// rotatedFormat is the suffix of a rotated file: fixed width, sorting by time.
const rotatedFormat = "20060102T150405.000000000"

// Rotate moves the log at path aside when it has reached size bytes and reports
// whether it did. The caller then has the runtime reopen the log. Until that,
// the runtime writes on into the renamed file, so that nothing is lost.
func Rotate(path string, size int64, now time.Time) (bool, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if st.Size() < size {
		return false, nil
	}
	if err := os.Rename(path, path+"."+now.UTC().Format(rotatedFormat)); err != nil {
		return false, err
	}
	return true, nil
}

// Prune deletes the oldest rotated files of the log at path until at most keep
// of them are left.
func Prune(path string, keep int) error {
	files, err := Files(path)
	if err != nil {
		return err
	}
	if n := len(files); n > 0 && files[n-1] == path {
		files = files[:n-1]
	}
	for len(files) > keep {
		if err := os.Remove(files[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		files = files[1:]
	}
	return nil
}

// Files returns the files of the log at path, oldest first, path itself last.
// Those that don't exist are left out.
func Files(path string) ([]string, error) {
	rotated, err := filepath.Glob(globQuote(path) + ".*")
	if err != nil {
		return nil, err
	}
	// The suffix is a time of fixed width, so that names sort by age.
	slices.Sort(rotated)
	if _, err := os.Lstat(path); err == nil {
		rotated = append(rotated, path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return rotated, nil
}

func globQuote(path string) string {
	var b bytes.Buffer
	for i := range len(path) {
		if bytes.IndexByte([]byte(`*?[\`), path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}
