package archive_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/store/archive"
)

var rows = [][]any{
	{int64(math.MaxInt64), "a \" \\ é 日 <&>\n\u2028", true},
	{int64(math.MinInt64), "not UTF-8: \xff\xfe", false},
	{int64(0), "", nil},
}

// write writes the rows above.
func write(w io.Writer) error {
	out, err := archive.NewWriter(w, archive.Manifest{Schema: 3, Instance: "i", Seq: 7, At: math.MaxInt64, Hash: "h", Tables: []archive.Table{
		{Name: "none", Columns: []string{"x"}}, {Name: "some", Columns: []string{"n", "s", "b"}, Rows: int64(len(rows))},
	}})
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := out.Row(r); err != nil {
			return err
		}
	}
	_, err = out.Close()
	return err
}

// read reads all of it.
func read(r io.Reader) (out [][]any, err error) {
	in, err := archive.NewReader(r)
	for err == nil {
		var row []any
		if _, row, err = in.Next(); err == nil {
			out = append(out, row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := read(&b)
	if diff := cmp.Diff(rows, got); diff != "" || err != nil {
		t.Errorf("%v, (-written +read)\n%s", err, diff)
	}
}

// A backup that was cut off anywhere, or has another byte anywhere, is no backup.
func TestDamage(t *testing.T) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	refused := func(text []byte, where string, at int) {
		t.Helper()
		if _, err := read(bytes.NewReader(text)); !errors.Is(err, archive.ErrDamaged) && !errors.Is(err, archive.ErrForeign) && !errors.Is(err, archive.ErrNewer) {
			t.Errorf("%s at %d: %v", where, at, err)
		}
	}
	for i := range whole {
		refused(whole[:i], "cut off", i)
		changed := bytes.Clone(whole)
		changed[i] ^= 0x10
		if i < len(whole)-1 { // the last line's end may be any blank
			refused(changed, "changed", i)
		}
	}
	refused(append(bytes.Clone(whole), '\n'), "more", len(whole))
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	failed := errors.New("no")
	if err := archive.Create(path, func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a backup that fails: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("it left %v", left)
	}
	if err := archive.Create(path, write); err != nil {
		t.Fatal(err)
	}
	if err := archive.Create(path, write); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if m, sum, err := archive.Check(path); err != nil || m.Seq != 7 || len(sum) != 64 {
		t.Errorf("%+v, %s, %v", m, sum, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 10; i < len(whole); i++ { // before that is the header: a name, a time
		changed := bytes.Clone(whole)
		changed[i] ^= 0xff
		for what, text := range map[string][]byte{"cut off": whole[:i], "changed": changed} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := archive.Check(path); err == nil {
				t.Errorf("%s at %d: it passes", what, i)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("{\"croft_backup\":1,\"tables\":[{\"name\":\"a\",\"columns\":[\"b\"],\"rows\":1}]}\n[{}]\n{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := read(bytes.NewReader(text))
		if err == nil && len(got) > len(text) {
			t.Errorf("%d rows of %d bytes", len(got), len(text))
		}
	})
}
