package command_test

import (
	"net/url"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/world"
)

// hooking makes the site one that posts to these hosts.
func (s *sim) hooking(hosts ...string) {
	site := s.w.Site
	site.Hooks.Hosts = hosts
	s.w.Fold([]world.Change{world.SiteSet{Row: site}})
}

// hooked gives a user a hook.
func (s *sim) hooked(user string, h notice.Hook) {
	u, _ := s.w.Tenancy.User(user)
	h.User, h.Sealed = u.ID, "sealed"
	s.w.Fold([]world.Change{notice.HookSet{Row: h}})
}

func newHook(to string) command.HookPut {
	return command.HookPut{User: "ada", Name: "bot", Create: true, URL: &to, Sealed: "sealed"}
}

// Nothing is posted but to where the site says that it may, by TLS, and without a password in
// the URL.
func TestWhereIsPosted(t *testing.T) {
	s := newSim(t)
	if _, err := s.do(s.user("ada"), newHook("https://bot.example.org/x")); fault.Of(err) != codes.Conflict {
		t.Errorf("a site without hooks: %v", err)
	}
	for hosts, want := range map[string]map[string]string{
		"bot.example.org": {
			"https://bot.example.org/x?y=1": "", "https://BOT.example.org.:8443": "", "http://bot.example.org": "https://", "https://example.org": "must be on",
			"https://evil.bot.example.org": "must be on", "https://bot.example.org@evil.net/": "name or a password", "https://evil.net/bot.example.org": "must be on", "https://evil.net#@bot.example.org": "must be a URL",
			"ftp://bot.example.org": "must begin with https", "bot.example.org": "must be a URL", "https:bot.example.org": "must be a URL", "": "must be a URL", "https://bot.example.org:0": "port", "https://bot.example.org:99999": "port",
			"https://bot.example.org/\n": "ASCII", "https://bot.example.org/ü": "ASCII", "https://bot.example.org/" + strings.Repeat("x", 3000): "longer", "https://ada:s3cret@bot.example.org": "password",
		},
		".example.org": {"https://a.example.org": "", "https://example.org": "must be on", "https://aexample.org": "must be on"},
		"*":            {"https://anywhere.net": "", "https://127.0.0.1": ""}, // which its address is asked about when it is posted to
	} {
		s.hooking(strings.Fields(hosts)...)
		for to, bad := range want {
			_, err := s.do(s.user("ada"), newHook(to))
			if bad == "" && err == nil {
				s.must(t, s.user("ada"), command.HookRemove{User: "ada", Name: "bot"})
				continue
			}
			if bad == "" || fault.Of(err) != codes.Invalid || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("to %q where it may be %s: %v", to, hosts, err)
			}
		}
	}
}

// Of an account only its managers' hooks are told, as long as they are.
func TestHooksOfAccounts(t *testing.T) {
	s := newSim(t)
	s.hooking("*")
	for _, name := range []string{"manager", "stranger"} {
		s.must(t, s.user("root"), command.UserPut{Create: true, Name: name})
	}
	s.must(t, s.user("root"), command.MemberPut{Account: "nlp", User: "manager", Role: "manager"})
	of := func(user, account string) error {
		c := newHook("https://bot.example.org")
		c.User, c.Account = user, account
		_, err := s.do(s.user(user), c)
		return err
	}
	if err := of("ada", "nlp"); fault.Of(err) != codes.Denied {
		t.Errorf("a member: %v", err)
	}
	if err := of("stranger", "nlp"); fault.Of(err) != fault.Of(of("stranger", "absent")) {
		t.Errorf("a stranger: %v", err)
	}
	if err := of("manager", "nlp"); err != nil {
		t.Fatal(err)
	}
	nlp, _ := s.w.Tenancy.Account("nlp")
	hooks := s.w.Notices.HooksOfAccounts()
	if len(hooks) != 1 || !command.HookHears(s.w, hooks[0], nlp.ID, s.now) {
		t.Fatalf("%+v", hooks)
	}
	s.must(t, s.user("root"), command.MemberPut{Account: "nlp", User: "manager", Role: "member"})
	if command.HookHears(s.w, hooks[0], nlp.ID, s.now) {
		t.Error("one that was a manager is told")
	}
	s.must(t, s.user("root"), command.UserRetire{Name: "manager"})
	if left := s.w.Notices.HooksOfAccounts(); len(left) != 0 {
		t.Errorf("one who is gone has %+v", left)
	}
}

// A user has a bounded number of hooks, with names that are names, and the one before signs
// for a day.
func TestHooks(t *testing.T) {
	s := newSim(t)
	s.hooking("*")
	for _, name := range []string{"", "-x", "a.b", "A", "ä", strings.Repeat("x", 33)} {
		c := newHook("https://bot.example.org")
		if c.Name = name; fault.Of(func() error { _, err := s.do(s.user("ada"), c); return err }()) != codes.Invalid {
			t.Errorf("%q is taken as a name", name)
		}
	}
	for i := range notice.MaxHooks + 1 {
		c := newHook("https://bot.example.org")
		c.Name = "h" + string(rune('a'+i))
		if _, err := s.do(s.user("ada"), c); (err == nil) != (i < notice.MaxHooks) {
			t.Errorf("hook %d: %v", i, err)
		}
	}
	c := newHook("https://bot.example.org")
	if c.Name = "ha"; fault.Of(func() error { _, err := s.do(s.user("ada"), c); return err }()) != codes.Exists {
		t.Error("one is made over another")
	}
	s.must(t, s.user("ada"), command.HookPut{User: "ada", Name: "ha", Sealed: "newer"})
	ada, _ := s.w.Tenancy.User("ada")
	h, _ := s.w.Notices.Hook(ada.ID, "ha")
	if day := int64(24 * 3600 * 1e9); h.Sealed != "newer" || h.FormerAt(s.now) != "sealed" || h.FormerAt(s.now+day) != "" {
		t.Errorf("%+v", h)
	}
	s.must(t, system, command.HookOff{User: ada.ID, Name: "ha", URL: "https://elsewhere.example.org", Why: "gone"})
	if h, _ = s.w.Notices.Hook(ada.ID, "ha"); h.Off != "" {
		t.Error("what another URL has said switches it off")
	}
	s.must(t, system, command.HookOff{User: ada.ID, Name: "ha", URL: h.URL, Why: "gone"})
	if h, _ = s.w.Notices.Hook(ada.ID, "ha"); h.Off != "gone" {
		t.Errorf("%+v", h)
	}
	on := true
	s.must(t, s.user("ada"), command.HookPut{User: "ada", Name: "ha", On: &on})
	if h, _ = s.w.Notices.Hook(ada.ID, "ha"); h.Off != "" {
		t.Errorf("%+v", h)
	}
}

// Whatever is given as a URL, one that is taken goes to a host that may be posted to.
func FuzzHookURL(f *testing.F) {
	for _, seed := range []string{"https://bot.example.org/x", "https://bot.example.org@evil.net", "https://[::1]", "https://bot.example.org%2eevil.net", "https://bot.example.org\\@evil.net", "http:///", "https://BOT.EXAMPLE.ORG."} {
		f.Add(seed)
	}
	rules := notice.HookRules{Hosts: []string{"bot.example.org"}}
	f.Fuzz(func(t *testing.T, raw string) {
		if rules.Check(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) != "bot.example.org" || u.User != nil {
			t.Errorf("%q is taken: %v", raw, err)
		}
	})
}
