package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entry is one of a tar archive, as tests write and compare them.
type entry struct {
	Name, Body, Link string
	UID, GID         int
	Type             byte
	Caps             string
}

func pack(t testing.TB, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.Name, Linkname: e.Link, Uid: e.UID, Gid: e.GID, Mode: 0o755, Typeflag: e.Type, Size: int64(len(e.Body)), Uname: "root", Format: tar.FormatPAX}
		if e.Type == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.Caps != "" {
			h.PAXRecords = map[string]string{capability: e.Caps}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.Body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t testing.TB, b []byte) (out []entry) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		e := entry{Name: h.Name, Body: string(body), Link: h.Linkname, UID: h.Uid, GID: h.Gid, Type: h.Typeflag, Caps: h.PAXRecords[capability]}
		if e.Type == tar.TypeReg {
			e.Type = 0
		}
		if h.Uname != "" {
			t.Errorf("%s has the owner's name %s", h.Name, h.Uname)
		}
		out = append(out, e)
	}
}

const (
	caps2 = "\x01\x00\x00\x02" + "\x00\x04\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00"
	caps3 = "\x01\x00\x00\x03" + "\x00\x04\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x10\x00" // root is 1<<20
)

func TestWrite(t *testing.T) {
	text := strings.Repeat("x", block+1)
	ns := Options{First: 1 << 20, Size: 65536}
	tests := map[string]struct {
		o        Options
		in, want []entry
		err      error
	}{
		"ids are those inside": {
			o:    ns,
			in:   []entry{{Name: "etc/", Type: tar.TypeDir, UID: 1 << 20, GID: 1<<20 + 42}, {Name: "etc/of", UID: 5, GID: 1<<20 + 65536, Body: "x"}},
			want: []entry{{Name: "etc/", Type: tar.TypeDir, UID: 0, GID: 42}, {Name: "etc/of", UID: 5, GID: 1<<20 + 65536, Body: "x"}},
		},
		"capabilities too": {
			o:    ns,
			in:   []entry{{Name: "bin/ping", Caps: caps3}, {Name: "bin/other", Caps: caps3[:20] + "\x00\x00\x20\x00"}, {Name: "bin/plain", Caps: caps2}},
			want: []entry{{Name: "bin/ping", Caps: caps2}, {Name: "bin/other", Caps: caps3[:20] + "\x00\x00\x20\x00"}, {Name: "bin/plain", Caps: caps2}},
		},
		"without a namespace they stay": {
			in:   []entry{{Name: "a", UID: 5001, GID: 5001, Caps: caps3}},
			want: []entry{{Name: "a", UID: 5001, GID: 5001, Caps: caps3}},
		},
		"what isn't kept": {
			o: Options{Without: []string{"/home/ada", "/.croft"}, Emptied: []string{"/tmp", "/run"}},
			in: []entry{
				{Name: "home/ada/", Type: tar.TypeDir}, {Name: "home/ada/secret"}, {Name: "home/adam"}, {Name: "home/.wh.ada"}, {Name: ".croft/init"},
				{Name: "tmp/", Type: tar.TypeDir}, {Name: "tmp/key"}, {Name: "run/a/b"}, {Name: "run/.wh.x"}, {Name: "tmpfile"},
				{Name: "dev/null", Type: tar.TypeChar}, {Name: "dev/sda", Type: tar.TypeBlock}, {Name: "etc/.wh.motd"},
			},
			want: []entry{{Name: "home/adam"}, {Name: "tmp/", Type: tar.TypeDir}, {Name: "tmpfile"}, {Name: "etc/.wh.motd"}},
		},
		"a path that climbs is where it leads": {
			o:  Options{Without: []string{"/tmp"}},
			in: []entry{{Name: "usr/../tmp/x"}, {Name: "../tmp/y"}},
		},
		"links": {
			o:    Options{Emptied: []string{"/tmp"}},
			in:   []entry{{Name: "a"}, {Name: "b", Link: "a", Type: tar.TypeLink}, {Name: "c", Link: "/tmp/x", Type: tar.TypeSymlink}},
			want: []entry{{Name: "a"}, {Name: "b", Link: "a", Type: tar.TypeLink}, {Name: "c", Link: "/tmp/x", Type: tar.TypeSymlink}},
		},
		"a hard link to what isn't kept": {
			o: Options{Emptied: []string{"/tmp"}}, in: []entry{{Name: "tmp/x"}, {Name: "b", Link: "tmp/x", Type: tar.TypeLink}},
			err: &LinkError{Path: "/b", Target: "/tmp/x"},
		},
		"as much as there may be": {o: Options{Max: 3 * block}, in: []entry{{Name: "d/", Type: tar.TypeDir}, {Name: "a", Body: text}}, want: []entry{{Name: "d/", Type: tar.TypeDir}, {Name: "a", Body: text}}},
		"more": {
			o: Options{Max: 3 * block, Without: []string{"/z"}}, in: []entry{{Name: "z", Body: text}, {Name: "a", Body: text}, {Name: "b"}, {Name: "c"}},
			err: &TooLargeError{Max: 3 * block},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			got, err := Write(&b, bytes.NewReader(pack(t, tt.in)), tt.o)
			if diff := cmp.Diff(tt.err, err); diff != "" {
				t.Fatalf("error (-want +got)\n%s", diff)
			}
			if err != nil {
				return
			}
			list := unpack(t, b.Bytes())
			if diff := cmp.Diff(tt.want, list); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			files := 0
			for _, e := range list {
				if e.Type != tar.TypeDir {
					files++
				}
			}
			if got.Files != files {
				t.Errorf("%d files, %d are there", got.Files, files)
			}
		})
	}
}

func TestPackages(t *testing.T) {
	const site = "opt/venv/lib/python3.12/site-packages/"
	base := map[string]string{
		"var/lib/dpkg/status": "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\n\nPackage: curl\nStatus: install ok installed\nVersion: 7.8\n\nPackage: gone\nStatus: install ok installed\nVersion: 1\n",
	}
	in := []entry{
		{Name: "var/lib/dpkg/status", Body: "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\n\nPackage: curl\nStatus: install ok installed\nVersion: 7.9\nDescription: a\n b: c\n\nPackage: git\nVersion: 1:2.4\nStatus: install ok installed\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n"},
		{Name: "lib/apk/db/installed", Body: "C:Q1\nP:musl\nV:1.2.5-r0\n\nP:zlib\nV:1.3\n"},
		{Name: site + "numpy-2.1.0.dist-info/INSTALLER", Body: "pip\n"},
		{Name: site + "numpy-2.1.0.dist-info/METADATA", Body: "Name: numpy\n"},
		{Name: site + ".wh.numpy-1.26.4.dist-info"},
		{Name: site + ".wh.six-1.16.dist-info"},
		{Name: site + "setuptools/_vendor/wheel-0.43.dist-info/METADATA"},
		{Name: "usr/lib/python3/dist-packages/yaml-6.0.dist-info/METADATA"},
		{Name: "opt/conda/lib/python3.12/site-packages/torch-2.5.dist-info/METADATA"},
		{Name: "opt/conda/lib/python3.12/site-packages/torch-2.5.dist-info/INSTALLER", Body: "conda"},
		{Name: "opt/conda/conda-meta/torch-2.5-py312_cuda.json", Body: "{}"},
		{Name: "opt/conda/conda-meta/.wh.lib-x-1.0-0.json"},
		{Name: "opt/conda/conda-meta/history"},
		{Name: "opt/conda/conda-meta/odd.json"},
	}
	got, err := Write(io.Discard, bytes.NewReader(pack(t, in)), Options{Base: func(name string) ([]byte, error) { return []byte(base[name]), nil }})
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{
		{"apk", "musl", "1.2.5-r0", ""}, {"apk", "zlib", "1.3", ""},
		{"apt", "curl", "7.9", "7.8"}, {"apt", "git", "1:2.4", ""}, {"apt", "gone", "", "1"},
		{"conda", "lib-x", "", "1.0"}, {"conda", "torch", "2.5", ""},
		{"pip", "numpy", "2.1.0", "1.26.4"}, {"pip", "six", "", "1.16"},
	}
	if diff := cmp.Diff(want, got.Packages); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	bad := errors.New("can't be read")
	if _, err := Write(io.Discard, bytes.NewReader(pack(t, in)), Options{Base: func(string) ([]byte, error) { return nil, bad }}); !errors.Is(err, bad) {
		t.Errorf("a base that can't be read: %v", err)
	}
}

// FuzzWrite has anything for an archive: what comes out is an archive without what isn't kept.
func FuzzWrite(f *testing.F) {
	f.Add(pack(f, []entry{{Name: "tmp/x", Body: "y"}, {Name: "a/.wh.b"}, {Name: "l", Link: "a", Type: tar.TypeLink}, {Name: "var/lib/dpkg/status", Body: "Package: a\nVersion: 1"}}))
	f.Add(pack(f, []entry{{Name: "x-packages/a-1.dist-info/METADATA"}, {Name: "conda-meta/-.json"}, {Name: "c", Caps: caps3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := Options{First: 1 << 20, Size: 65536, Without: []string{"/tmp"}, Max: 1 << 20}
		var out bytes.Buffer
		if _, err := Write(&out, bytes.NewReader(b), o); err != nil {
			return
		}
		r := tar.NewReader(&out)
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("what was written can't be read: %v", err)
			}
			if !o.keeps(clean(h.Name)) {
				t.Fatalf("%q was kept", h.Name)
			}
		}
	})
}
