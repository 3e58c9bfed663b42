package catalog

import "testing"

func TestAllows(t *testing.T) {
	tests := []struct {
		models, model string
		want          bool
	}{
		{"", "a100", true},
		{"a100", "a100", true},
		{"a100", "a10", false},
		{"a100|h100", "a100", true},
		{"a100|h100", "h100", true},
		{"a100|h100|t4", "h100", true},
		{"a100|h100", "h10", false},
		{"a100|h100", "", false},
	}
	for _, c := range tests {
		if got := Allows(c.models, c.model); got != c.want {
			t.Errorf("Allows(%q, %q) is %v", c.models, c.model, got)
		}
	}
}

func TestModelSet(t *testing.T) {
	set := ModelSet([]string{"h100", "a100", "h100"})
	if set != "a100|h100" || OneModel(set) || !OneModel("a100") || OneModel("") || len(ModelNames(set)) != 2 || ModelNames("") != nil {
		t.Errorf("%q, %v", set, ModelNames(set))
	}
}
