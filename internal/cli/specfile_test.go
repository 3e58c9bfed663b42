package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
)

func TestParseSpec(t *testing.T) {
	tests := map[string]struct {
		in   string
		want v1.JobSpec
		err  string
	}{
		"yaml": {
			in: "# a job\nimage: train:1\nname: 7\ngpu: 2\ncpu: 0.50\nmem: 64G\ntime: 1h30m\npriority: -5\ncommand: [python, \"-c\", 1]\nenv: {SEED: 01, EMPTY: \"\"}\nrequeue:\n- node\nmounts:\n- source: /d\n  read_only: yes\n",
			want: v1.JobSpec{Image: "train:1", Name: "7", GPU: "2", CPU: "0.50", Mem: "64G", Time: "1h30m", Priority: -5,
				Command: []string{"python", "-c", "1"}, Env: map[string]string{"SEED": "01", "EMPTY": ""}, Requeue: []string{"node"}, Mounts: []v1.Mount{{Source: "/d", ReadOnly: true}}},
		},
		"json":           {in: "\n{\n\t\"image\": \"a\",\n\t\"gpu\": 1,\t\"command\": [\"a\\tb\"]}", want: v1.JobSpec{Image: "a", GPU: "1", Command: []string{"a\tb"}}},
		"null is absent": {in: "image: a\ngpu: null\nname: ~\n", want: v1.JobSpec{Image: "a"}},
		"empty":          {in: "", err: "empty"},
		"only comment":   {in: "# nothing\n", err: "empty"},
		"unknown":        {in: "image: a\n\ngpus: 1\n", err: `line 3: unknown field "gpus"; is it "gpu"?`},
		"unknown far":    {in: "image: a\nfrob: 1\n", err: `line 2: unknown field "frob"`},
		"unknown nested": {in: "mounts:\n- source: /a\n  readonly: true\n", err: `line 3: mounts[0]: unknown field "readonly"`},
		"unknown json":   {in: "{\n  \"gpus\": 1\n}", err: `line 2: unknown field "gpus"; is it "gpu"?`},
		"case":           {in: "Image: a\n", err: `line 1: unknown field "Image"; is it "image"?`},
		"twice":          {in: "gpu: 1\ngpu: 2\n", err: `line 2: field "gpu" is there twice`},
		"list for text":  {in: "image: [a]\n", err: "line 1: image: want one value"},
		"text for list":  {in: "command: python train.py\n", err: "line 1: command: want a list, as [a, b]"},
		"text for map":   {in: "env: A=1\n", err: "line 1: env: want NAME: VALUE lines"},
		"list for all":   {in: "- image: a\n", err: "line 1: want fields, as NAME: VALUE"},
		"bad number":     {in: "priority: high\n", err: `line 1: priority: want a whole number, not "high"`},
		"fraction":       {in: "priority: 1.5\n", err: `line 1: priority: want a whole number, not "1.5"`},
		"huge number":    {in: "priority: 99999999999999999999\n", err: `line 1: priority: want a whole number, not "99999999999999999999"`},
		"bad bool":       {in: "mounts: [{source: a, read_only: 3}]\n", err: `line 1: mounts[0].read_only: want true or false, not "3"`},
		"alias":          {in: "name: &a x\nimage: *a\n", err: "line 1: name: anchors and aliases aren't supported"},
		"two documents":  {in: "image: a\n---\nimage: b\n", err: "more than one document; a file has one job"},
		"syntax":         {in: "image: a\n  gpu: 1\n", err: "line 2: mapping values are not allowed in this context"},
		"key of a list":  {in: "[a]: b\n", err: "line 1: want a name"},
		"long":           {in: "image: " + strings.Repeat("a", maxSpecFile), err: "longer than 1 MiB"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseSpec([]byte(test.in))
			if text := errText(err); text != test.err {
				t.Fatalf("error %q, want %q", text, test.err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParseSpec: no input makes the parser panic, and the JSON form of what it
// accepts is read as the same spec.
func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"image: a\ngpu: 1\n", "{\"image\":\"a\",\"env\":{\"A\":\"1\"}}", "mounts: [{source: /a}]", "a: &x [*x]", "? : -", "image: !!binary x", "---\n...\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		spec, err := parseSpec(in)
		if err != nil {
			return
		}
		b, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseSpec(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		c, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != string(c) {
			t.Errorf("%s was read as %s", b, c)
		}
	})
}

// FuzzText: what is printed drives no terminal, and what is cut fits.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\nb", 5)
	f.Add("世界\u202eabc\u0301", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		c := clean(s)
		for _, r := range c {
			if r < ' ' || (r >= 0x7f && r < 0xa0) || (r >= '\u202a' && r <= '\u202e') {
				t.Errorf("%q has %q in it", c, r)
			}
		}
		n = max(0, min(n, 200))
		if w := displayWidth(cut(c, n)); w > n {
			t.Errorf("%q is %d cells wide, not %d", cut(c, n), w, n)
		}
	})
}

func TestSpecFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(file, []byte("image: a\ncommand: [x]\ngpu: 1\nenv: {A: '1', B: '2'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fake{answers: map[string]any{"POST /v1/jobs": queued}}
	b := newBench(t, f)
	b.app.env.Dir = dir
	if code := b.run("submit", "-f", "job.yaml", "-e", "B=3", "--gpu", "2", "b", "y", "-z"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.stderr)
	}
	want := []string{`POST /v1/jobs {"image":"b","command":["y","-z"],"env":{"A":"1","B":"3"},"gpu":"2"}`}
	if diff := cmp.Diff(want, f.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"none.yaml", "."} {
		if code := newBenchIn(t, f, dir).run("submit", "-f", bad); code != 2 {
			t.Errorf("-f %s: exit %d", bad, code)
		}
	}
}

func newBenchIn(t *testing.T, f *fake, dir string) *bench {
	t.Helper()
	b := newBench(t, f)
	b.app.env.Dir = dir
	return b
}

func TestParseMount(t *testing.T) {
	tests := map[string]struct {
		want v1.Mount
		bad  bool
	}{
		"/a":         {want: v1.Mount{Source: "/a"}},
		"/a:/b":      {want: v1.Mount{Source: "/a", Target: "/b"}},
		"/a:ro":      {want: v1.Mount{Source: "/a", ReadOnly: true}},
		"/a:/b:ro":   {want: v1.Mount{Source: "/a", Target: "/b", ReadOnly: true}},
		"/a:/b:rw":   {want: v1.Mount{Source: "/a", Target: "/b"}},
		"a:/b":       {want: v1.Mount{Type: "volume", Source: "a", Target: "/b"}},
		"a:/b:ro":    {want: v1.Mount{Type: "volume", Source: "a", Target: "/b", ReadOnly: true}},
		"a/c:/b":     {want: v1.Mount{Source: "a/c", Target: "/b"}},
		"./a:/b":     {want: v1.Mount{Source: "./a", Target: "/b"}},
		".:/b":       {want: v1.Mount{Source: ".", Target: "/b"}},
		"~:/b":       {want: v1.Mount{Source: "~", Target: "/b"}},
		"a":          {want: v1.Mount{Source: "a"}},
		"":           {bad: true},
		":/b":        {bad: true},
		"/a:":        {bad: true},
		"/a:/b:z":    {bad: true},
		"/a:/b:/c":   {bad: true},
		"/a:/b:ro:x": {bad: true},
	}
	for in, test := range tests {
		t.Run(in, func(t *testing.T) {
			got, err := parseMount(in)
			if (err != nil) != test.bad || got != test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestParseTmpfs(t *testing.T) {
	for in, want := range map[string]v1.Mount{
		"/t":             {Type: "tmpfs", Target: "/t"},
		"/t:2G":          {Type: "tmpfs", Target: "/t", Size: "2G"},
		"/t:size=64m":    {Type: "tmpfs", Target: "/t", Size: "64m"},
		"":               {},
		":1G":            {},
		"/t:":            {},
		"/t:size=":       {},
		"/t:rw,size=64m": {},
		"/t:mode=1777":   {},
		"/t:1G:ro":       {},
	} {
		if got, err := parseTmpfs(in); got != want || (err != nil) != (want == v1.Mount{}) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

// FuzzParseMounts: no text makes them panic, and what is read is one thing at one place.
func FuzzParseMounts(f *testing.F) {
	for _, s := range []string{"/a:/b:ro", "~/x", "/t:size=64m", "::", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := parseMount(s); err == nil && (m.Source == "" || strings.Contains(m.Source+m.Target, ":")) {
			t.Errorf("-v %q is %+v", s, m)
		}
		if m, err := parseTmpfs(s); err == nil && (m.Target == "" || m.Source != "" || strings.ContainsAny(string(m.Size), ":,=")) {
			t.Errorf("--tmpfs %q is %+v", s, m)
		}
	})
}
