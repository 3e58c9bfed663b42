package cli

import (
	"slices"
	"strings"
)

// ofHost are variables that describe the machine or the session rather than the work;
// in the container they would be wrong. Croft's own could be secret besides.
var ofHost = []string{
	"PATH", "HOME", "SHELL", "USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "TMPDIR", "HOSTNAME", "MAIL", "DISPLAY",
	"XAUTHORITY", "LD_LIBRARY_PATH", "LD_PRELOAD", "LS_COLORS",
	"CUDA_VISIBLE_DEVICES",
}

// environment is what --export passes on.
func (o *batchOptions) environment(a *app) map[string]string {
	env := map[string]string{}
	here := map[string]string{}
	for _, kv := range a.env.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok {
			here[k] = v
		}
	}
	for word := range strings.SplitSeq(o.export, ",") {
		k, v, given := strings.Cut(word, "=")
		switch {
		case given:
			env[k] = v
		case k == "ALL":
			for k, v := range here {
				if travels(k) || o.host && staysOnHost(k) {
					env[k] = v
				}
			}
		case k == "NONE" || k == "NIL" || k == "":
		default:
			if v, ok := here[k]; ok {
				env[k] = v
			}
		}
	}
	return env
}

// staysOnHost is for a program on the same machine, where what describes that is right.
func staysOnHost(name string) bool {
	return slices.Contains([]string{"PATH", "LD_LIBRARY_PATH", "TMPDIR", "MANPATH"}, name)
}

func travels(name string) bool {
	if slices.Contains(ofHost, name) {
		return false
	}
	for _, p := range []string{"CROFT_", "CRANE_", "SLURM", "SBATCH_", "XDG_", "SSH_", "DBUS_", "SUDO_", "BASH_FUNC_"} {
		if strings.HasPrefix(name, p) {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return !letter(r) && r != '_' && (r < '0' || r > '9') })
}
