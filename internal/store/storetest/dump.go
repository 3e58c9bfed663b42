package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"croft.dev/croft/internal/world"
)

// Dump writes a world out, one line for each row of each table, indexes and what
// is derived included, so that two worlds are the same exactly if their dumps are.
// Of the idempotency keys only those that the world still answers to are written.
func Dump(w *world.World) []string {
	var out []string
	dump(&out, "", reflect.ValueOf(w).Elem())
	return slices.DeleteFunc(out, func(line string) bool {
		name, isKey := strings.CutPrefix(line, ".keys[")
		if !isKey {
			return strings.HasPrefix(line, ".keyAges[")
		}
		name, err := strconv.QuotedPrefix(name)
		if err == nil {
			name, err = strconv.Unquote(name)
		}
		_, ok := w.Remembered(name)
		return err != nil || !ok
	})
}

func dump(out *[]string, path string, v reflect.Value) {
	if v.Kind() == reflect.Struct {
		if all := reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).MethodByName("All"); all.IsValid() {
			dumpTable(out, path, all.Call(nil)[0])
			return
		}
		for i := range v.NumField() {
			f := v.Field(i)
			// Unexported fields are read too.
			f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
			dump(out, path+"."+v.Type().Field(i).Name, f)
		}
		return
	}
	*out = append(*out, fmt.Sprintf("%s=%s", path, show(v)))
}

// dumpTable ranges over the All of a table or set.
func dumpTable(out *[]string, path string, seq reflect.Value) {
	if seq.Type().CanSeq2() {
		for k, row := range seq.Seq2() {
			*out = append(*out, fmt.Sprintf("%s[%s]=%s", path, show(k), show(row)))
		}
		return
	}
	for k := range seq.Seq() {
		*out = append(*out, fmt.Sprintf("%s[%s]", path, show(k)))
	}
}

func show(v reflect.Value) string {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%+v", v)
}
