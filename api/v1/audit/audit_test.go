package audit

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
)

// row has every field.
func row() Row {
	return Row{
		Seq: 7, At: time.Unix(0, 1_800_000_000_123_456_789).UTC(), User: 3, Principal: "ada (ci)", Kind: "account.set", Command: json.RawMessage(`{"name":"nlp"}`),
		Touched: "account:3", Changed: json.RawMessage(`[{"row":"account:3","fields":[{"name":"weight","before":1,"after":2}]}]`),
		Job: 118, Refusal: 4, Account: 3, State: "set", Message: "a \u003cb\u003e \u2028", Reasons: json.RawMessage(`[{"code":"LIMIT"}]`),
		Key: &Key{Name: "3 account.set k", Digest: "d", Job: 118, Refusal: 4}, Prev: "aa",
	}
}

// What the hash covers never changes: logs are as old as their sites. Rows without changes
// are hashed as before there were any.
func TestSumStays(t *testing.T) {
	r := row()
	plain := r
	plain.Changed = nil
	for what, tc := range map[string]struct{ got, want string }{
		"with changes":    {r.Sum(), "716d4c8a6e8394f7375f7fe09ec620f9b698ace9b803e611debc8b64394101f2"},
		"without changes": {plain.Sum(), "54a2f8fc7092ecefcdef1d6d5c7815c1b9e67bbda71ddf8a2b82f21db8261968"},
		"the least":       {Row{Seq: 1, At: time.Unix(0, 0)}.Sum(), "0eb9f7109ee01dac615837203d6f9ca954746a9380cd34fa937611dcb18cd9c5"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %s, want %s", what, tc.got, tc.want)
		}
	}
}

// Every field is covered, wherever a byte goes.
func TestTampering(t *testing.T) {
	was := row()
	was.Hash = was.Sum()
	fields := reflect.TypeFor[Row]()
	for i := range fields.NumField() {
		r := was
		f := reflect.ValueOf(&r).Elem().Field(i)
		switch v := f.Addr().Interface().(type) {
		case *int64:
			*v++
		case *string:
			*v += " "
		case *json.RawMessage:
			*v = append((*v)[:len(*v):len(*v)], ' ')
		case *time.Time:
			*v = v.Add(1)
		case **Key:
			*v = nil
		default:
			t.Fatalf("%s: what is to be changed in a %s?", fields.Field(i).Name, f.Type())
		}
		v := After(6, "aa")
		var broken *Break
		if err := v.Next(r); !errors.As(err, &broken) {
			t.Errorf("%s was changed: %v", fields.Field(i).Name, err)
		}
	}
	for what, change := range map[string]func(*Row){
		"no changes any more":         func(r *Row) { r.Changed = nil },
		"a byte from kind to command": func(r *Row) { r.Kind, r.Command = r.Kind+"{", r.Command[1:] },
		"another key's job":           func(r *Row) { k := *r.Key; k.Job++; r.Key = &k },
		"made whole again":            func(r *Row) { r.Message = ""; r.Prev = "bb"; r.Hash = r.Sum() },
	} {
		r := was
		change(&r)
		v := After(6, "aa")
		if err := v.Next(r); err == nil {
			t.Errorf("%s: nothing is seen", what)
		}
	}
}

// A row that went through JSON is the same.
func TestJSON(t *testing.T) {
	was := row()
	was.Command, _ = json.Marshal(map[string]string{"name": "<&>\u2028\x00\xff'\""})
	was.Hash = was.Sum()
	b, err := json.Marshal(was)
	if err != nil {
		t.Fatal(err)
	}
	var is Row
	if err := json.Unmarshal(b, &is); err != nil {
		t.Fatal(err)
	}
	v := After(6, "aa")
	if err := v.Next(is); err != nil {
		t.Error(err)
	}
}

// Rows come in order, and none is left out or comes twice.
func TestOrder(t *testing.T) {
	var all []Row
	prev := ""
	for seq := range int64(4) {
		r := Row{Seq: seq + 1, At: time.Unix(seq, 0), Prev: prev}
		r.Hash = r.Sum()
		prev, all = r.Hash, append(all, r)
	}
	for what, tc := range map[string]struct {
		rows []Row
		bad  bool
	}{
		"whole":              {all, false},
		"cut off at the end": {all[:2], false},
		"without the first":  {all[1:], true},
		"without one":        {[]Row{all[0], all[2]}, true},
		"one twice":          {[]Row{all[0], all[0]}, true},
		"two exchanged":      {[]Row{all[0], all[2], all[1]}, true},
	} {
		var v Verifier
		var err error
		for _, r := range tc.rows {
			if err = v.Next(r); err != nil {
				break
			}
		}
		if (err != nil) != tc.bad {
			t.Errorf("%s: %v", what, err)
		}
	}
}
