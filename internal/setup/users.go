package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/internal/people"
)

// Numbers of people's accounts: below are the system's, and nobody is the last of
// the 16-bit ones.
const (
	firstUser = 1000
	nobody    = 65534
)

func isPerson(u people.User) bool { return u.UID >= firstUser && u.UID != nobody }

// users reports how many users there are and where they come from.
func users(ctx context.Context, d *Deps) []Finding {
	sources, err := d.Users.Source(ctx)
	if err != nil {
		return one(Warn, "%v", err)
	}
	var names []string
	directory := ""
	for _, s := range sources {
		name := s
		switch s {
		case "sss":
			name = "sssd"
			directory = name
		case "ldap", "winbind":
			directory = name
		case "systemd": // users that units are given, no people
			continue
		}
		names = append(names, name)
	}
	through := strings.Join(names, ", ")
	all, err := d.Users.Users(ctx)
	if err != nil {
		return fix(one(Warn, "through %s, which doesn't answer: %v", through, err), "see what getent passwd says")
	}
	n := 0
	for _, u := range all {
		if isPerson(u) {
			n++
		}
	}
	out := one(OK, "%d through %s", n, through)
	if directory != "" {
		out = append(out, one(Note, "%s may list fewer than it knows; others are found by name", directory)...)
	}
	if shared := sharedUIDs(all); len(shared) > 0 {
		out = append(out, fix(one(Warn, "one uid with several names: %s", list(shared, 4)),
			"Croft tells users apart by uid: give each their own")...)
	}
	return out
}

// sharedUIDs names people who have a uid together: "5001 (ada, bob)".
func sharedUIDs(all []people.User) []string {
	names := make(map[int64][]string)
	for _, u := range all {
		if isPerson(u) && !slices.Contains(names[u.UID], u.Name) {
			names[u.UID] = append(names[u.UID], u.Name)
		}
	}
	var uids []int64
	for uid, n := range names {
		if len(n) > 1 {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	var out []string
	for _, uid := range uids {
		out = append(out, fmt.Sprintf("%d (%s)", uid, strings.Join(names[uid], ", ")))
	}
	return out
}
