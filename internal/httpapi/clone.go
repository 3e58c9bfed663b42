package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/fault"
)

// resultError is a command's result that its handler doesn't know: a defect.
type resultError struct{ result any }

func (e *resultError) Error() string { return fmt.Sprintf("unexpected result %T", e.result) }

// changed returns spec with fields set, each by its name in a job file; "env.K"
// sets one variable. A list is given as JSON; a command also as a shell writes it,
// other lists also with commas. An empty value takes the field away.
func changed(spec v1.JobSpec, set map[string]string) (v1.JobSpec, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return spec, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(b, &fields); err != nil {
		return spec, err
	}
	var bad fault.Fields
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if err := setField(fields, k, set[k]); err != nil {
			bad.Add("set."+k, "%v", err)
		}
	}
	if err := bad.Err(); err != nil {
		return spec, err
	}
	if b, err = json.Marshal(fields); err != nil {
		return spec, err
	}
	var out v1.JobSpec
	if err := decode(b, &out); err != nil {
		return spec, err
	}
	return out, nil
}

func setField(fields map[string]any, name, value string) error {
	if k, ok := strings.CutPrefix(name, "env."); ok {
		env, _ := fields["env"].(map[string]any)
		if env == nil {
			env = map[string]any{}
		}
		env[k] = value
		fields["env"] = env
		return nil
	}
	if value == "" {
		delete(fields, name)
		return nil
	}
	v, err := valueOf(name, value)
	fields[name] = v
	return err
}

func valueOf(name, value string) (any, error) {
	switch name {
	case "command", "args", "requeue", "mounts", "env", "apps":
		if value[0] == '[' || value[0] == '{' {
			var v any
			if json.Unmarshal([]byte(value), &v) != nil {
				return nil, fmt.Errorf("isn't JSON")
			}
			return v, nil
		}
		switch name {
		case "command", "args":
			return words(value)
		case "requeue":
			return strings.Split(value, ","), nil
		}
		return nil, fmt.Errorf("must be JSON")
	case "hold", "stdin", "tty", "await_attach", "pause":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("must be true or false")
		}
		return b, nil
	case "priority", "max_requeues", "nodes":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("must be a whole number")
		}
		return n, nil
	}
	return value, nil
}

// words splits a command as a POSIX shell does (2.2 Quoting), with nothing
// expanded: blanks part words, quotes and backslashes keep them together.
func words(s string) ([]string, error) {
	var out []string
	var word strings.Builder
	in, quote := false, rune(0)
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				out = append(out, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("a quote isn't closed")
	}
	if in {
		out = append(out, word.String())
	}
	return out, nil
}
