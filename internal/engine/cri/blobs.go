package cri

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/layer"
)

// descriptor names a blob, as manifests do.
type descriptor struct {
	MediaType string `json:"mediaType,omitempty"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

func (d descriptor) proto() *types.Descriptor {
	return &types.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
}

func digest(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// blobChunk is how much of a blob one message has, in bytes.
const blobChunk = 1 << 20

// blob is one that is being written to the runtime's store.
type blob struct {
	*bufio.Writer
	to *blobStream
}

type blobStream struct {
	stream contentapi.Content_WriteClient
	cancel func()
	ref    string
	offset int64
	sum    hash.Hash
}

func (e *Engine) newBlob(ctx context.Context, ref string) (*blob, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := e.rt.content.Write(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	to := &blobStream{stream: stream, cancel: cancel, ref: ref, sum: sha256.New()}
	return &blob{Writer: bufio.NewWriterSize(to, blobChunk), to: to}, nil
}

// Write sends what it is given, in messages of blobChunk at most.
func (b *blobStream) Write(data []byte) (int, error) {
	for chunk := range slices.Chunk(data, blobChunk) {
		err := b.send(&contentapi.WriteContentRequest{Action: contentapi.WriteAction_WRITE, Ref: b.ref, Offset: b.offset, Data: chunk})
		if err != nil {
			return 0, err
		}
		b.sum.Write(chunk)
		b.offset += int64(len(chunk))
	}
	return len(data), nil
}

func (b *blobStream) send(req *contentapi.WriteContentRequest) error {
	err := b.stream.Send(req)
	if err == nil || errors.Is(err, io.EOF) { // the answer says why
		_, err = b.stream.Recv()
	}
	return err
}

// commit ends the blob, and returns what names it.
func (b *blob) commit(labels map[string]string) (descriptor, error) {
	if err := b.Flush(); err != nil {
		return descriptor{}, err
	}
	d := descriptor{Digest: digest(b.to.sum), Size: b.to.offset}
	err := b.to.send(&contentapi.WriteContentRequest{Action: contentapi.WriteAction_COMMIT, Ref: b.to.ref, Total: d.Size, Expected: d.Digest, Offset: d.Size, Labels: labels})
	if status.Code(err) == codes.AlreadyExists {
		err = nil
	}
	return d, err
}

func (b *blob) close() { b.to.cancel() }

// putBlob writes a small blob.
func (e *Engine) putBlob(ctx context.Context, ref string, data []byte, labels map[string]string) (descriptor, error) {
	b, err := e.newBlob(ctx, ref)
	if err != nil {
		return descriptor{}, err
	}
	defer b.close()
	if _, err := b.Write(data); err != nil {
		return descriptor{}, err
	}
	return b.commit(labels)
}

// readBlob reads a blob of the runtime's store.
func (e *Engine) readBlob(ctx context.Context, digest string) (io.Reader, error) {
	stream, err := e.rt.content.Read(ctx, &contentapi.ReadContentRequest{Digest: digest})
	return &blobReader{stream: stream}, err
}

type blobReader struct {
	stream contentapi.Content_ReadClient
	rest   []byte
}

func (r *blobReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		m, err := r.stream.Recv()
		if err != nil {
			return 0, err
		}
		r.rest = m.GetData()
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// maxDocument bounds a manifest or a configuration, in bytes.
const maxDocument = 8 << 20

func (e *Engine) readDocument(ctx context.Context, digest string, into any) error {
	r, err := e.readBlob(ctx, digest)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxDocument))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("cri: %s: %w", digest, err)
	}
	return nil
}

// baseImage is the image that a container was made of.
type baseImage struct {
	id        string // its configuration's digest
	mediaType string // of its manifest
	manifest  manifest
	config    map[string]json.RawMessage
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
	Manifests     []descriptor `json:"manifests,omitempty"` // of an index
}

const (
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	ociLayer       = "application/vnd.oci.image.layer.v1.tar+gzip"
	dockerLayer    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// baseOf reads the image with an id, under which the CRI keeps it.
func (e *Engine) baseOf(ctx context.Context, id string) (baseImage, error) {
	r, err := e.rt.named.Get(ctx, &imagesapi.GetImageRequest{Name: id})
	if isNotFound(err) {
		return baseImage{}, &engine.SaveError{Message: "the image that it was started from isn't on the machine any more"}
	}
	if err != nil {
		return baseImage{}, err
	}
	target := r.GetImage().GetTarget()
	b, err := e.findManifest(ctx, id, descriptor{MediaType: target.GetMediaType(), Digest: target.GetDigest()}, 0)
	if err != nil {
		return b, err
	}
	if b.manifest.Config.Digest != id {
		return b, fmt.Errorf("cri: image %s has no manifest of its own", id)
	}
	return b, e.readDocument(ctx, id, &b.config)
}

// findManifest looks for the manifest of an image in what its name leads to, which may be
// an index of manifests, of which only this machine's are here.
func (e *Engine) findManifest(ctx context.Context, id string, d descriptor, depth int) (baseImage, error) {
	b := baseImage{id: id}
	if err := e.readDocument(ctx, d.Digest, &b.manifest); err != nil {
		return b, err
	}
	for _, m := range b.manifest.Manifests {
		if depth > 2 {
			break
		}
		found, err := e.findManifest(ctx, id, m, depth+1)
		if err == nil && found.manifest.Config.Digest == id {
			return found, nil
		}
		if err != nil && !isNotFound(err) {
			return b, err
		}
	}
	b.mediaType = cmp.Or(b.manifest.MediaType, d.MediaType, ociManifest)
	return b, nil
}

func (b baseImage) layerType() string {
	if b.mediaType == dockerManifest {
		return dockerLayer
	}
	return ociLayer
}

// manifestWith is the manifest with another configuration and one more layer, and the
// labels by which the runtime keeps what it names.
func (b baseImage) manifestWith(config, l descriptor) (text []byte, refs map[string]string, err error) {
	m := b.manifest
	config.MediaType = m.Config.MediaType
	m.Config, m.Layers, m.MediaType = config, append(slices.Clone(m.Layers), l), b.mediaType
	refs = map[string]string{"containerd.io/gc.ref.content.config": config.Digest}
	for i, l := range m.Layers {
		refs["containerd.io/gc.ref.content.l."+strconv.Itoa(i)] = l.Digest
	}
	text, err = json.Marshal(m)
	return text, refs, err
}

// configWith is the configuration with one more layer, and labels.
func (b baseImage) configWith(diffID string, req engine.SaveRequest, packages []layer.Package, labels map[string]string) ([]byte, error) {
	c := make(map[string]json.RawMessage, len(b.config))
	for k, v := range b.config {
		c[k] = v
	}
	var fs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	var history []json.RawMessage
	inner := map[string]json.RawMessage{}
	all := map[string]string{}
	err := errors.Join(read(c["rootfs"], &fs), read(c["history"], &history), read(c["config"], &inner))
	if err == nil {
		err = read(inner["Labels"], &all)
	}
	if err != nil {
		return nil, fmt.Errorf("cri: configuration of %s: %w", b.id, err)
	}
	if len(fs.DiffIDs) != len(b.manifest.Layers) {
		return nil, fmt.Errorf("cri: image %s has %d layers and names %d", b.id, len(b.manifest.Layers), len(fs.DiffIDs))
	}
	for k, v := range labels {
		all[k] = v
	}
	at := req.At.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
	entry := map[string]string{"created": at, "created_by": "croft image save" + summary(packages), "author": req.Author}
	if req.Comment != "" {
		entry["comment"] = req.Comment
	}
	last, err := json.Marshal(entry)
	if err != nil {
		return nil, err
	}
	fs.DiffIDs = append(fs.DiffIDs, diffID)
	for _, put := range []struct {
		into  map[string]json.RawMessage
		key   string
		value any
	}{
		{inner, "Labels", all}, {c, "config", inner}, {c, "rootfs", fs}, {c, "history", append(history, last)}, {c, "created", at}, {c, "author", req.Author},
	} {
		if put.into[put.key], err = json.Marshal(put.value); err != nil {
			return nil, err
		}
	}
	if c["architecture"] == nil {
		c["architecture"], c["os"] = json.RawMessage(strconv.Quote(runtime.GOARCH)), json.RawMessage(`"linux"`)
	}
	return json.Marshal(c)
}

func read(text json.RawMessage, into any) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, into)
}

// summary says in a few words which packages were added.
func summary(packages []layer.Package) string {
	var out []string
	for _, p := range packages[:min(len(packages), 20)] {
		switch {
		case p.Version == "":
			out = append(out, p.Manager+" -"+p.Name)
		default:
			out = append(out, p.Manager+" "+p.Name+"="+p.Version)
		}
	}
	if n := len(packages) - len(out); n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

// lower reads a file of the container's image, from where its layers are. A layer that has
// taken the file away has a device in its place.
func (s *saving) lower(name string) ([]byte, error) {
	for _, dir := range layerDirs(s.left) {
		text, found, err := readBelow(dir, name)
		if err != nil || found {
			return text, err
		}
	}
	return nil, nil
}

// layerDirs are the folders that mounts show one over the other, the uppermost first.
func layerDirs(mounts []*types.Mount) (dirs []string) {
	for _, m := range mounts {
		if m.GetType() != "overlay" {
			dirs = append(dirs, m.GetSource())
			continue
		}
		for _, o := range m.GetOptions() {
			if list, ok := strings.CutPrefix(o, "lowerdir="); ok {
				dirs = append(dirs, strings.Split(list, ":")...)
			}
		}
	}
	return dirs
}

// readBelow reads a regular file below a folder, out of which no link leads.
func readBelow(dir, name string) (text []byte, found bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	if st, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	} else if err != nil || !st.Mode().IsRegular() {
		return nil, true, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, true, err
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, layer.MaxDatabase))
	return text, true, err
}
