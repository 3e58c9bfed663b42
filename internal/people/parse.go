package people

import (
	"strconv"
	"strings"
)

// noID is (uid_t)-1, which no user and no group can have.
const noID = 1<<32 - 1

func validID(n int64) bool { return n >= 0 && n < noID }

func parseID(s string) (int64, bool) {
	if s == "" || len(s) > 10 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && validID(n)
}

// parseUser reads a line of passwd(5).
func parseUser(line string) (User, bool) {
	f := strings.Split(line, ":")
	if len(f) != 7 || badName(f[0]) != "" {
		return User{}, false
	}
	uid, ok1 := parseID(f[2])
	gid, ok2 := parseID(f[3])
	return User{Name: f[0], UID: uid, GID: gid, Gecos: f[4], Home: f[5], Shell: f[6]}, ok1 && ok2
}

// parseGroup reads a line of group(5). Members that are no names are left out.
func parseGroup(line string) (Group, []string, bool) {
	f := strings.Split(line, ":")
	if len(f) != 4 || badName(f[0]) != "" {
		return Group{}, nil, false
	}
	gid, ok := parseID(f[2])
	var members []string
	for m := range strings.SplitSeq(f[3], ",") {
		if m = strings.TrimSpace(m); badName(m) == "" {
			members = append(members, m)
		}
	}
	return Group{Name: f[0], GID: gid}, members, ok
}

// parseIDs reads the numbers in the output of "getent initgroups NAME", which
// begins with the name, or of "id -G NAME", which doesn't.
func parseIDs(text, name string) []int64 {
	var out []int64
	for s := range strings.FieldsSeq(strings.TrimPrefix(text, name)) {
		if n, ok := parseID(s); ok {
			out = append(out, n)
		}
	}
	return out
}

// parseSources reads the services of the passwd database from the text of
// nsswitch.conf(5), in the order of the search. Without such a line it is files.
func parseSources(text string) []string {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		db, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.TrimSpace(db) != "passwd" {
			continue
		}
		var out []string
		for s := range strings.FieldsSeq(withoutActions(rest)) {
			out = append(out, s)
		}
		if len(out) > 0 {
			return out
		}
	}
	return []string{"files"}
}

// withoutActions takes out what is in brackets, such as [NOTFOUND=return].
func withoutActions(s string) string {
	var b strings.Builder
	for s != "" {
		before, rest, _ := strings.Cut(s, "[")
		b.WriteString(before + " ")
		_, s, _ = strings.Cut(rest, "]")
	}
	return b.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
