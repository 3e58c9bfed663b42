// Package layer makes an image's layer of what a container has written over its image:
// the difference as its runtime tells it, without what isn't to be kept, with ids as they
// are inside, and with a list of the packages that were added. It runs nothing of what it
// reads.
package layer

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Options say what becomes of a difference.
type Options struct {
	// First and Size are the ids outside of those that are 0 and on inside; with Size 0
	// they are the same.
	First, Size int64
	// Without are absolute paths of which nothing is kept, nor of what is below them.
	Without []string
	// Emptied are absolute paths of folders that are kept, and of what is below them
	// nothing.
	Emptied []string
	// Max is how many bytes of the disk there may be, see Result; 0: any number.
	Max int64
	// Base reads a file of the image beneath, by its path there without the first slash;
	// nil if there is none.
	Base func(path string) ([]byte, error)
}

// Result is what a layer has.
type Result struct {
	Bytes    int64 // of the disk: of each entry as many blocks as it fills, and one at least
	Files    int   // entries that aren't folders: those are listed when only their time has changed, too
	Packages []Package
}

// TooLargeError says that there is more than Options.Max.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string { return fmt.Sprintf("layer: more than %d bytes", e.Max) }

// LinkError says that a file is kept only by a name which isn't kept itself.
type LinkError struct{ Path, Target string }

func (e *LinkError) Error() string {
	return e.Path + " is a hard link to " + e.Target + ", which isn't kept: copy it"
}

// block is what of a disk is given at a time, in bytes.
const block = 4096

// whiteout begins the name of an entry that says that another one is gone.
const whiteout = ".wh."

// capability is where a file's capabilities are kept.
const capability = "SCHILY.xattr.security.capability"

// Write writes the layer of a difference, both uncompressed tar archives.
func Write(dst io.Writer, src io.Reader, o Options) (Result, error) {
	r, w := tar.NewReader(src), tar.NewWriter(dst)
	var out Result
	found := newFinder(o.Base)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("layer: %w", err)
		}
		name := clean(h.Name)
		if !o.keeps(name) || h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			continue
		}
		if h.Typeflag == tar.TypeLink && !o.keeps(clean(h.Linkname)) {
			return out, &LinkError{Path: "/" + name, Target: "/" + clean(h.Linkname)}
		}
		if out.Bytes += max((h.Size+block-1)/block, 1) * block; o.Max > 0 && out.Bytes > o.Max {
			return out, &TooLargeError{Max: o.Max}
		}
		if h.Typeflag != tar.TypeDir {
			out.Files++
		}
		o.inside(h)
		if err := w.WriteHeader(h); err != nil {
			return out, fmt.Errorf("layer: %s: %w", name, err)
		}
		if _, err := io.Copy(found.watch(name, h, w), r); err != nil {
			return out, fmt.Errorf("layer: %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return out, fmt.Errorf("layer: %w", err)
	}
	var err error
	out.Packages, err = found.packages()
	return out, err
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// keeps reports whether what is at a path goes into the layer; that it is gone from there
// counts as the thing itself.
func (o Options) keeps(name string) bool {
	dir, base := path.Split(name)
	at := "/" + dir + strings.TrimPrefix(base, whiteout)
	for _, p := range o.Without {
		if at == p || strings.HasPrefix(at, p+"/") {
			return false
		}
	}
	for _, p := range o.Emptied {
		if strings.HasPrefix(at, p+"/") {
			return false
		}
	}
	return true
}

// inside gives an entry the owner and the capabilities that it has inside.
func (o Options) inside(h *tar.Header) {
	h.Uname, h.Gname = "", ""
	//lint:ignore SA1019 the records have them too, and would lose against these
	h.Xattrs = nil
	h.Format = tar.FormatPAX
	if o.Size == 0 {
		return
	}
	h.Uid, h.Gid = o.id(h.Uid), o.id(h.Gid)
	if caps, ok := h.PAXRecords[capability]; ok {
		h.PAXRecords[capability] = string(o.capability([]byte(caps)))
	}
}

func (o Options) id(outside int) int {
	if n := int64(outside) - o.First; n >= 0 && n < o.Size {
		return int(n)
	}
	return outside
}

// capability is a file's capabilities without the namespace that they hold in: those of
// revision 3 end with the id of that namespace's root, see capabilities(7).
func (o Options) capability(caps []byte) []byte {
	const revision2, revision3, size2 = 0x02000000, 0x03000000, 20
	if len(caps) != size2+4 {
		return caps
	}
	magic := binary.LittleEndian.Uint32(caps)
	if magic&0xff000000 != revision3 || int64(binary.LittleEndian.Uint32(caps[size2:])) != o.First {
		return caps
	}
	out := append([]byte(nil), caps[:size2]...)
	binary.LittleEndian.PutUint32(out, magic&0x00ffffff|revision2)
	return out
}
