// Package people has the users and groups of the machine, as the machine itself
// resolves them: from files, LDAP, sssd or whatever nsswitch.conf names. A static
// binary can't load those modules, so getent is asked, with bounds on time and
// output. Answers are kept for a while, and an old answer is used while the
// machine gives none: a directory server that hangs never blocks Croft.
package people

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"croft.dev/croft/internal/fault"
)

// User is a user of the machine.
type User struct {
	Name  string
	UID   int64
	GID   int64  // primary group
	Gecos string // real name and more, free text
	Home  string
	Shell string
}

// Group is a Unix group. Name is empty for a number that no group has.
type Group struct {
	Name string
	GID  int64
}

// ByName returns the user called name. Errors: not_found, unavailable, invalid for
// what can be no name.
func (d *Directory) ByName(ctx context.Context, name string) (User, error) {
	if err := checkName("user", name); err != nil {
		return User{}, err
	}
	return d.user(ctx, name, func(u User) bool { return strings.EqualFold(u.Name, name) })
}

// ByUID returns the user with the number uid. Errors: not_found, unavailable.
func (d *Directory) ByUID(ctx context.Context, uid int64) (User, error) {
	if !validID(uid) {
		return User{}, fault.NotFound("user of this machine", "uid "+strconv.FormatInt(uid, 10))
	}
	return d.user(ctx, strconv.FormatInt(uid, 10), func(u User) bool { return u.UID == uid })
}

func (d *Directory) user(ctx context.Context, key string, wanted func(User) bool) (User, error) {
	text, err := d.lookup(ctx, query{"passwd", key})
	if err != nil {
		return User{}, err
	}
	if u, ok := parseUser(firstLine(text)); ok && wanted(u) {
		return u, nil
	}
	return User{}, fault.NotFound("user of this machine", key)
}

// Group returns the group called name. Errors: not_found, unavailable, invalid.
func (d *Directory) Group(ctx context.Context, name string) (Group, error) {
	g, _, err := d.group(ctx, name)
	return g, err
}

func (d *Directory) group(ctx context.Context, name string) (Group, []string, error) {
	if err := checkName("group", name); err != nil {
		return Group{}, nil, err
	}
	text, err := d.lookup(ctx, query{"group", name})
	if err != nil {
		return Group{}, nil, err
	}
	if g, members, ok := parseGroup(firstLine(text)); ok && strings.EqualFold(g.Name, name) {
		return g, members, nil
	}
	return Group{}, nil, fault.NotFound("group of this machine", name)
}

// maxGroups is the most groups that the kernel gives a process (NGROUPS_MAX).
const maxGroups = 65536

// Groups returns all groups of a user, the primary first, the others by number.
// Errors as of ByName; a group whose name can't be had has none.
func (d *Directory) Groups(ctx context.Context, name string) ([]Group, error) {
	u, err := d.ByName(ctx, name)
	if err != nil {
		return nil, err
	}
	text, err := d.lookup(ctx, query{"initgroups", u.Name})
	if err != nil {
		return nil, err
	}
	gids := parseIDs(text, u.Name)
	slices.Sort(gids)
	gids = slices.DeleteFunc(slices.Compact(gids), func(gid int64) bool { return gid == u.GID })
	if len(gids) > maxGroups-1 {
		gids = gids[:maxGroups-1]
	}
	out := make([]Group, 0, len(gids)+1)
	for _, gid := range append([]int64{u.GID}, gids...) {
		out = append(out, d.named(ctx, gid))
	}
	return out, nil
}

// named finds the name of a group. Programs run without it, so that none is no
// error.
func (d *Directory) named(ctx context.Context, gid int64) Group {
	text, err := d.lookup(ctx, query{"group", strconv.FormatInt(gid, 10)})
	if err == nil {
		if g, _, ok := parseGroup(firstLine(text)); ok && g.GID == gid {
			return g
		}
	}
	return Group{GID: gid}
}

// Members returns the names of a group's members, sorted: those that the group
// lists, and the users whose primary group it is as far as the machine enumerates
// its users (sssd does so only when told to). Errors as of Group.
func (d *Directory) Members(ctx context.Context, group string) ([]string, error) {
	g, names, err := d.group(ctx, group)
	if err != nil {
		return nil, err
	}
	users, err := d.Users(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.GID == g.GID {
			names = append(names, u.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Users returns all users that the machine enumerates, in its order. With LDAP or
// sssd these may be fewer than ByName finds.
func (d *Directory) Users(ctx context.Context) ([]User, error) {
	text, err := d.lookup(ctx, query{"passwd", ""})
	if err != nil {
		return nil, err
	}
	var out []User
	for line := range strings.Lines(text) {
		if u, ok := parseUser(strings.TrimSuffix(line, "\n")); ok {
			out = append(out, u)
		}
	}
	return out, nil
}

// checkName refuses what would not reach getent as a name: an option, a number
// (which getent takes for an id), more than a line.
func checkName(kind, name string) error {
	if reason := badName(name); reason != "" {
		return fault.Invalid(kind, "%s: not a name of a Unix %s", reason, kind)
	}
	return nil
}

// maxName is LOGIN_NAME_MAX of Linux.
const maxName = 256

func badName(name string) string {
	control := func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }
	switch {
	case name == "":
		return "empty"
	case len(name) > maxName:
		return "longer than " + strconv.Itoa(maxName) + " bytes"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, control):
		return "has control characters"
	case strings.ContainsAny(name, ":,/"):
		return fmt.Sprintf("%q has a colon, comma or slash", name)
	case strings.ContainsRune("-+~", rune(name[0])):
		return fmt.Sprintf("%q begins with %q", name, name[:1])
	case name == "." || name == ".." || strings.TrimSpace(name) != name:
		return fmt.Sprintf("%q", name)
	case strings.Trim(name, "0123456789") == "":
		return fmt.Sprintf("%q is a number", name)
	}
	return ""
}
