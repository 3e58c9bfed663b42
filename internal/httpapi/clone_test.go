package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
)

// Every field of a job that is text, a number or a truth can be changed in a clone.
func TestCloneKnowsFields(t *testing.T) {
	fields := reflect.TypeFor[v1.JobSpec]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		text := map[reflect.Kind]string{reflect.Int: "2", reflect.Int64: "2", reflect.Bool: "true", reflect.String: "2"}[f.Type.Kind()]
		if text == "" {
			continue
		}
		v, err := valueOf(name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := json.Marshal(map[string]any{name: v})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, new(v1.JobSpec)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
