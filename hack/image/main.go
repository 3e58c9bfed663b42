// Command image turns root file system tars into an OCI image layout tar that
// `ctr images import` takes. The same layers and flags give the same bytes:
// entries are sorted, times and owner names dropped.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

var epoch = time.Unix(0, 0).UTC()

type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	ref := flag.String("ref", "", "image reference, with its registry and tag")
	out := flag.String("o", "", "file to write")
	workdir := flag.String("workdir", "/", "working directory")
	var env, cmd list
	flag.Var(&env, "env", "NAME=VALUE (repeatable)")
	flag.Var(&cmd, "cmd", "one word of the default command (repeatable)")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: image -ref REF -o OUT.tar [flags] LAYER.tar...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *ref == "" || *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	cfg := v1.Config{Env: env, Cmd: cmd, WorkingDir: *workdir}
	if err := build(*ref, *out, cfg, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func build(ref, out string, cfg v1.Config, layers []string) error {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return err
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	for _, file := range layers {
		raw, err := normalize(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
		layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Created = v1.Time{Time: epoch}
	file.Config = cfg
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return err
	}

	dir, err := os.MkdirTemp(filepath.Dir(out), ".layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lay, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := lay.WriteImage(img); err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	size, err := img.Size()
	if err != nil {
		return err
	}
	err = lay.AppendDescriptor(v1.Descriptor{
		MediaType: types.OCIManifestSchema1,
		Digest:    digest,
		Size:      size,
		Platform:  &v1.Platform{OS: file.OS, Architecture: file.Architecture},
		Annotations: map[string]string{
			"io.containerd.image.name":          ref,
			"org.opencontainers.image.ref.name": tag.TagStr(),
		},
	})
	if err != nil {
		return err
	}
	return pack(dir, out)
}

type entry struct {
	hdr  *tar.Header
	body []byte
}

// normalize reads a tar and returns it sorted by name, without times, owner
// names and anything else that differs from run to run. Device nodes are left
// out: a runtime makes its own.
func normalize(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []entry
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if name == "" {
			continue
		}
		if h.Typeflag == tar.TypeDir {
			name += "/"
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		case tar.TypeLink:
			h.Linkname = strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
		default:
			continue
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{&tar.Header{
			Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size,
			Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid, ModTime: epoch,
		}, body})
	}
	// Hard links come last, after the files that they name.
	slices.SortStableFunc(entries, func(a, b entry) int {
		if al, bl := a.hdr.Typeflag == tar.TypeLink, b.hdr.Typeflag == tar.TypeLink; al != bl {
			if al {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.hdr.Name, b.hdr.Name)
	})
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if err := w.WriteHeader(e.hdr); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.Close()
}

// pack writes the files under dir to out as a tar, by way of a temporary file.
func pack(dir, out string) error {
	f, err := os.CreateTemp(filepath.Dir(out), ".image-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	w := tar.NewWriter(f)
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: epoch})
		}
		body, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body)), ModTime: epoch}); err != nil {
			return err
		}
		_, err = w.Write(body)
		return err
	})
	if err := errors.Join(err, w.Close(), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), out)
}
