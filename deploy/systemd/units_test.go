// Package systemd holds the units of a packaged Croft to what its design needs of
// a service manager.
package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unit is a parsed unit file: "Section.Key" to its values.
type unit map[string][]string

func read(t *testing.T, name string) unit {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	u, section := unit{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
		case assigned && section != "" && !strings.HasSuffix(line, `\`):
			k := section + "." + key
			u[k] = append(u[k], strings.Fields(value)...)
		default:
			t.Errorf("%s: can't read %q", name, line)
		}
	}
	return u
}

func (u unit) has(key, value string) bool {
	for _, v := range u[key] {
		if v == value {
			return true
		}
	}
	return false
}

func TestUnits(t *testing.T) {
	needed := map[string][][2]string{
		"croft.service": {
			{"Service.ExecStart", "/usr/bin/croftd"},
			{"Service.ExecStart", "server"},
			{"Service.Restart", "on-failure"},
			{"Service.ExecReload", "-HUP"}, // as croft status says of a clock that jumped
			{"Unit.Wants", "croft-runtime.service"},
			{"Unit.After", "croft-runtime.service"},
			{"Unit.After", "nss-user-lookup.target"},
		},
		"croft-runtime.service": {
			{"Service.Type", "notify"}, // else the server may come first and start another
			{"Service.ExecStart", "/usr/bin/croftd"},
			{"Service.ExecStart", "runtime"},
			{"Service.Restart", "always"},
		},
	}
	for name, own := range needed {
		t.Run(name, func(t *testing.T) {
			u := read(t, name)
			for _, kv := range append(own, [][2]string{
				{"Service.KillMode", "process"}, // jobs outlive both
				{"Service.Delegate", "yes"},
				{"Service.RuntimeDirectory", "croft"},
				{"Service.RuntimeDirectoryPreserve", "yes"}, // else a stop removes containers' sockets
				{"Service.StateDirectory", "croft"},
				{"Service.LimitMEMLOCK", "infinity"},
				{"Service.TasksMax", "infinity"},
				{"Install.WantedBy", "multi-user.target"},
			}...) {
				if !u.has(kv[0], kv[1]) {
					t.Errorf("%s is %q, needs %s", kv[0], u[kv[0]], kv[1])
				}
			}
			for key := range u {
				if tiesLives(key) {
					t.Errorf("%s: neither unit may stop the other", key)
				}
				if ownView(key) {
					t.Errorf("%s: containers would inherit it", key)
				}
			}
			if len(u["Service.OOMScoreAdjust"]) != 1 {
				t.Error("no OOMScoreAdjust")
			}
		})
	}
}

func tiesLives(key string) bool {
	switch key {
	case "Unit.Requires", "Unit.BindsTo", "Unit.PartOf", "Unit.Conflicts", "Unit.PropagatesStopTo":
		return true
	}
	return false
}

// ownView lists what gives a service its own mounts, devices or system calls.
func ownView(key string) bool {
	for _, p := range []string{"Protect", "Private", "ReadOnly", "ReadWrite", "Inaccessible", "MountFlags", "Device", "SystemCall", "RestrictNamespaces", "RestrictSUIDSGID", "RestrictAddressFamilies", "MemoryDeny"} {
		if strings.HasPrefix(key, "Service."+p) {
			return true
		}
	}
	return false
}

// TestVerify asks systemd itself where it is installed. TestUnits doesn't need it.
func TestVerify(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd here: the units were only parsed")
		return
	}
	dir := t.TempDir()
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"verify", "--man=no"}
	for _, name := range []string{"croft.service", "croft-runtime.service"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// It wants the program to be there.
		changed := strings.ReplaceAll(string(text), "/usr/bin/croftd", program)
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) || strings.Contains(string(out), "croft") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
