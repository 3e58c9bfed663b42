package cli

import (
	"strings"

	v1 "croft.dev/croft/api/v1"
)

// readMounts adds what the flags mount to a spec.
func (f *specFlags) readMounts(spec *v1.JobSpec) error {
	for _, text := range f.mounts {
		m, err := parseMount(text)
		if err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	for _, text := range f.tmpfs {
		m, err := parseTmpfs(text)
		if err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	return nil
}

// parseMount reads SRC[:DST][:ro|:rw]. As with docker, a source that is no path but a name
// is a volume.
func parseMount(s string) (v1.Mount, error) {
	parts := strings.Split(s, ":")
	m := v1.Mount{}
	if last := parts[len(parts)-1]; len(parts) > 1 && (last == "ro" || last == "rw") {
		m.ReadOnly = last == "ro"
		parts = parts[:len(parts)-1]
	}
	m.Source = parts[0]
	if len(parts) > 1 {
		m.Target = parts[1]
	}
	if len(parts) > 2 || m.Source == "" || (len(parts) == 2 && m.Target == "") {
		return v1.Mount{}, usage("-v %s: want SRC[:DST][:ro]", s)
	}
	if m.Target != "" && m.Source != "~" && !strings.ContainsAny(m.Source[:1], "./~") && !strings.Contains(m.Source, "/") {
		m.Type = "volume"
	}
	return m, nil
}

// parseTmpfs reads PATH[:SIZE], and docker's PATH:size=SIZE.
func parseTmpfs(s string) (v1.Mount, error) {
	path, size, sized := strings.Cut(s, ":")
	size = strings.TrimPrefix(size, "size=")
	if path == "" || sized && size == "" || strings.ContainsAny(size, ":,=") {
		return v1.Mount{}, usage("--tmpfs %s: want PATH[:SIZE], such as /scratch:2G", s)
	}
	return v1.Mount{Type: "tmpfs", Target: path, Size: v1.Quantity(size)}, nil
}
