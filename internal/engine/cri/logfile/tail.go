package logfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"croft.dev/croft/internal/engine/cri/logfile/rotation"
)

// place is a position in a log.
type place struct {
	file   string
	offset int64
}

// begin returns where reading starts: at the last n lines (all, if n is
// negative), or at the first file that has something since the asked time.
func (r *reader) begin(n int) (place, error) {
	files, err := rotation.Files(r.path)
	if err != nil {
		return place{}, err
	}
	if len(files) == 0 {
		return place{file: r.path}, nil
	}
	if n < 0 {
		for _, name := range files[:len(files)-1] {
			st, err := os.Stat(name)
			if err == nil && !st.ModTime().Before(r.since) {
				return place{file: name}, nil
			}
		}
		if r.since.IsZero() {
			return place{file: files[0]}, nil
		}
		return place{file: files[len(files)-1]}, nil
	}
	for i, name := range slices.Backward(files) {
		offset, left, err := tail(name, n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // rotated away meanwhile
		}
		if err != nil {
			return place{}, err
		}
		if left == 0 || i == 0 {
			return place{file: name, offset: offset}, nil
		}
		n = left
	}
	return place{file: files[0]}, nil
}

// tail returns the offset in the file called name at which its last n lines
// begin, and how many of the n the file doesn't have. A line may be several
// records; it ends with one that is tagged as full.
func tail(name string, n int) (offset int64, left int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, n, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, n, err
	}
	size := st.Size()
	if n == 0 {
		return size, 0, nil
	}
	const block = 64 << 10
	buf := make([]byte, 0, 2*block)
	full := 0 // full records seen, from the end
	end := size
	for pos := size; pos > 0; {
		from := max(0, pos-block)
		chunk := make([]byte, pos-from)
		if _, err := f.ReadAt(chunk, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, n, err
		}
		pos = from
		buf = append(chunk, buf...) // text of [pos, end)
		for {
			// The record that ends at end starts after the newline before it.
			body := bytes.TrimSuffix(buf, []byte{'\n'})
			i := bytes.LastIndexByte(body, '\n')
			if i < 0 && pos > 0 {
				break
			}
			if len(body) > 0 {
				if rec, err := Parse(body[i+1:]); err == nil && !rec.Partial {
					full++
				}
			}
			if full > n {
				return end, 0, nil
			}
			end = pos + int64(i+1)
			buf = buf[:i+1]
			if end == 0 || i < 0 {
				break
			}
		}
	}
	return 0, max(0, n-full), nil
}
