package notice

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Hook is a URL of a user's that notices are posted to, signed with a secret that whoever
// listens there has too. Of an account it is told what happens to everybody's jobs in it
// and below it, otherwise what its user is told of.
type Hook struct {
	User    id.User
	Name    string
	URL     string     // who knows it may often write to what is behind it: no log has it
	Wants   Wants      // words; "": all
	Account id.Account // 0: what is the user's
	Sealed  string     // secret that is signed with; "": there is no such hook any more
	Former  string     // sealed secret that is signed with besides,
	Until   int64      // until then, in ns
	Off     string     // why nothing is posted to it any more; "": it is
	Changed int64      // ns
}

// MaxHooks bounds a user's hooks.
const MaxHooks = 16

// Told is what the hook is told of: all, if it wasn't said.
func (h Hook) Told() Wants {
	if h.Wants != "" {
		return h.Wants
	}
	all, _ := ParseWants(All, h.Words())
	return all
}

// Words are what may be asked for of a hook.
func (h Hook) Words() []string {
	if h.Account != 0 {
		return append(JobWords(), Budget)
	}
	return Words()
}

// FormerAt is the secret before, sealed, if it still signs at a time in ns.
func (h Hook) FormerAt(now int64) string {
	if now >= h.Until {
		return ""
	}
	return h.Former
}

// Thing is what the secret is sealed for.
func (h Hook) Thing() string { return "webhook " + strconv.FormatInt(int64(h.User), 10) + " " + h.Name }

// Host is what may be said of the URL: where it goes to.
func (h Hook) Host() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// CheckHookName says what is wrong with the name of a hook.
func CheckHookName(name string) error {
	ok := len(name) > 0 && len(name) <= 32 && name[0] != '-'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return errors.New("must be at most 32 of a-z, 0-9 and -, and not begin with -")
	}
	return nil
}

// maxURL bounds a hook's URL, in bytes.
const maxURL = 2000

// HookRules is what a site says of hooks.
type HookRules struct {
	Hosts []string `json:",omitempty"` // that may be posted to; with a dot at its beginning, those below one; * for any; none: there are no hooks
	Plain bool     `json:",omitempty"` // http is possible: there are networks of the site's own
}

// On reports whether the site has hooks at all.
func (r HookRules) On() bool { return len(r.Hosts) > 0 }

// Check says why a URL can't be a hook's. The error doesn't have the URL in it.
func (r HookRules) Check(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxURL:
		return errors.New("is longer than " + strconv.Itoa(maxURL) + " bytes")
	case strings.ContainsFunc(raw, func(c rune) bool { return c > unicode.MaxASCII || unicode.IsControl(c) || c == ' ' }):
		return errors.New("must be of printable ASCII")
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Fragment != "":
		return errors.New("must be a URL such as https://bot.example.org/croft")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("must begin with https://")
	case u.Scheme == "http" && !r.Plain:
		return errors.New("must begin with https://: with http everybody on the way could read what is posted")
	case u.User != nil:
		return errors.New("must not have a name or a password in it: what is posted is signed")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("must have a port from 1 to 65535")
		}
	}
	if !r.within(u.Hostname()) {
		return errors.New("must be on " + strings.Join(r.Hosts, ", ") + ": this site posts nowhere else")
	}
	return nil
}

func (r HookRules) within(host string) bool {
	return slices.Contains(r.Hosts, "*") || among(r.Hosts, strings.TrimSuffix(host, "."))
}

func hookKey(u id.User, name string) string { return table.Pair(int64(u), 0) + name }

// Hook is a user's by its name.
func (b *Book) Hook(u id.User, name string) (Hook, bool) { return b.hooks.Get(hookKey(u, name)) }

// HooksOf lists a user's by name.
func (b *Book) HooksOf(u id.User) []Hook {
	var out []Hook
	to := table.Pair(int64(u)+1, 0)
	for k, h := range b.hooks.From(table.Pair(int64(u), 0)) {
		if k >= to {
			break
		}
		out = append(out, h)
	}
	return out
}

// HooksOfAccounts lists everybody's that are told of an account.
func (b *Book) HooksOfAccounts() []Hook {
	var out []Hook
	for _, h := range b.ofAccounts.All() {
		out = append(out, h)
	}
	return out
}

func (b *Book) putHook(h Hook) {
	key := hookKey(h.User, h.Name)
	if h.Sealed == "" {
		b.hooks.Delete(key)
		b.ofAccounts.Delete(key)
		return
	}
	b.hooks.Set(key, h)
	if h.Account != 0 {
		b.ofAccounts.Set(key, h)
	}
}
