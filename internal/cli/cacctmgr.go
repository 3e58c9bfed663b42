package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) cacctmgrCmd() *cobra.Command {
	var dry bool
	cmd := a.batchCmd(&cobra.Command{
		Use:   "cacctmgr COMMAND WHAT [NAME] [KEY=VALUE…]",
		Short: "Administer accounts, users and QoS, as CraneSched's cacctmgr does",
		Long: `Administer accounts, users and QoS, as CraneSched's cacctmgr does:

  show account|user|qos [NAME]
  add account NAME [Parent=NAME]
  add user NAME Account=NAME [AdminLevel=LEVEL] [Coordinator=true]
  add qos NAME [Priority=N] [MaxTimeLimit=TIME] [MaxTRESPU=cpu=8,gres/gpu=2…]
  modify account|user|qos where Name=NAME set KEY=VALUE…
  delete account|user|qos NAME; delete user NAME Account=NAME
  block|unblock account|user NAME

Each stands for commands of croft's own, which can do more; --dry-run prints them.`,
		Example: `  cacctmgr show account
  cacctmgr add user ada Account=nlp
  cacctmgr --dry-run modify qos where Name=normal set Priority=100`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("want a command and what it is about, such as: cacctmgr show account")
			}
			lines, err := acctLines(strings.ToLower(args[0]), strings.ToLower(args[1]), args[2:])
			if err != nil {
				return err
			}
			for _, line := range lines {
				if !dry && slices.Equal(line[:2], []string{"user", "add"}) && a.known(cmd.Context(), line[2]) {
					continue // CraneSched's users are added to each of their accounts
				}
				if err := a.asCroft(cmd.Context(), dry, line...); err != nil {
					return err
				}
			}
			return nil
		},
	})
	craneFlags(cmd)
	dryRun(cmd, &dry)
	ignored(cmd.Flags(), "force", "f")
	return cmd
}

// known reports whether there is a user of the name.
func (a *app) known(ctx context.Context, user string) bool {
	c, err := a.client()
	if err != nil {
		return false
	}
	_, err = c.User(ctx, user)
	return err == nil
}

// acctKeys are the keys that each kind of thing may be given.
var acctKeys = map[string][]string{
	"account": {"Name", "Parent"},
	"user":    {"Name", "Account", "AdminLevel", "Coordinator"},
	"qos":     append([]string{"Name", "Priority", "MaxTimeLimit", "MaxTimeLimitPerTask", "Preempt"}, limitKeys()...),
}

// acctLines says a command of cacctmgr in croft's.
func acctLines(verb, what string, words []string) ([][]string, error) {
	keys, ok := acctKeys[what]
	if !ok {
		return nil, usage("%s: only account, user and qos are administered here; what happened is in croft events", what)
	}
	name := ""
	if len(words) > 0 && !strings.Contains(words[0], "=") && words[0] != "where" && words[0] != "set" {
		name, words = words[0], words[1:]
	}
	set, err := pairs(words, keys...)
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	for _, s := range set {
		got[s.key] = s.value
	}
	name = otherwise(name, got["Name"])
	if name == "" && verb != "show" {
		return nil, usage("%s which %s? give its name", verb, what)
	}
	for _, n := range []string{name, got["Account"]} {
		if strings.HasPrefix(n, "-") { // would be a flag of croft's
			return nil, usage("%q isn't a name", n)
		}
	}
	switch verb {
	case "show":
		return showLines(what, name), nil
	case "add", "modify", "delete", "block", "unblock":
	default:
		return nil, usage("%s: not here; what can be done: show, add, modify, delete, block, unblock", verb)
	}
	var lines [][]string
	switch what {
	case "account":
		lines = accountLines(verb, name, got)
	case "user":
		lines, err = userLines(verb, name, got)
	case "qos":
		lines, err = qosLines(verb, name, got)
	}
	if err == nil && len(lines) == 0 {
		err = usage("%s %s %s: nothing to change; what can be given: %s", verb, what, name, strings.Join(keys[1:], ", "))
	}
	return lines, err
}

func showLines(what, name string) [][]string {
	if name == "" {
		return [][]string{{what, "ls"}}
	}
	return [][]string{{what, "show", name}}
}

func accountLines(verb, name string, got map[string]string) [][]string {
	parent := got["Parent"]
	switch verb {
	case "add":
		return [][]string{flagged([]string{"account", "add", name}, "parent", parent)}
	case "modify":
		if parent != "" {
			return [][]string{{"account", "move", name, "--under", parent}}
		}
		return nil
	case "delete":
		return [][]string{{"account", "rm", name}}
	}
	return [][]string{{"account", "set", name, "--closed=" + truth(verb == "block", "true", "false")}}
}

func userLines(verb, name string, got map[string]string) ([][]string, error) {
	account := got["Account"]
	platform, err := platformRole(got["AdminLevel"])
	if err != nil {
		return nil, err
	}
	role := truth(strings.EqualFold(got["Coordinator"], "true"), "manager", "")
	switch verb {
	case "add":
		if account == "" {
			return nil, usage("add user %s to which account? give Account=NAME", name)
		}
		return [][]string{
			flagged([]string{"user", "add", name}, "role", platform),
			flagged([]string{"account", "member", "add", account, name}, "role", role),
		}, nil
	case "modify":
		var lines [][]string
		if platform != "" {
			lines = append(lines, []string{"user", "set", name, "--role", platform})
		}
		if got["Coordinator"] != "" {
			if account == "" {
				return nil, usage("Coordinator of which account? give Account=NAME")
			}
			lines = append(lines, []string{"account", "member", "add", account, name, "--role", otherwise(role, "member")})
		}
		return lines, nil
	case "delete":
		if account != "" {
			return [][]string{{"account", "member", "rm", account, name}}, nil
		}
		return [][]string{{"user", "retire", name}}, nil
	}
	return [][]string{{"user", "set", name, "--blocked=" + truth(verb == "block", "true", "false")}}, nil
}

// platformRole is CraneSched's admin level as a role of Croft's.
func platformRole(level string) (string, error) {
	switch strings.ToLower(level) {
	case "":
		return "", nil
	case "none":
		return "user", nil
	case "operator", "admin":
		return strings.ToLower(level), nil
	}
	return "", usage("AdminLevel=%s: want none, operator or admin", level)
}

func qosLines(verb, name string, got map[string]string) ([][]string, error) {
	switch verb {
	case "add", "modify":
		line := []string{"qos", truth(verb == "add", "add", "set"), name}
		line = flagged(line, "priority", got["Priority"])
		line = flagged(line, "preempts", got["Preempt"])
		if limit := otherwise(got["MaxTimeLimit"], got["MaxTimeLimitPerTask"]); limit != "" {
			d, err := slurmSpan(limit)
			if err != nil {
				return nil, err
			}
			line = flagged(line, "max-time", span(d))
		}
		limits, err := qosLimits(name, got)
		if verb == "modify" && len(line) == 3 || err != nil {
			return limits, err
		}
		return append([][]string{line}, limits...), nil
	case "delete":
		return [][]string{{"qos", "rm", name}}, nil
	}
	return nil, usage("a QoS can't be blocked: say which accounts may use it by croft qos set %s --accounts", name)
}

// flagged adds a flag that has a value.
func flagged(line []string, flag, value string) []string {
	if value == "" {
		return line
	}
	return append(line, "--"+flag, value)
}
