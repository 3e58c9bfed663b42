package command_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
)

// people is what the tests themselves know of users and accounts: plain maps, kept
// by hand beside the world.
type people struct {
	*sim
	above   map[string]string    // the account above an account; "": none
	over    map[string]int64     // when an account ends
	members map[[2]string]member // by account and user
	users   map[string]person
	rules   map[access.Action]rule
}

type member struct {
	role string
	ends int64
}

type person struct {
	platform string
	blocked  bool
	ends     int64
}

func hasPassed(end, now int64) bool { return end != 0 && now >= end }

// reaches is the oracle: a user's best role in an account, looking upwards. What
// is had in an account that is over, or below one, isn't had.
func (p *people) reaches(user, account string) int {
	best := 0
	for at := account; at != ""; at = p.above[at] {
		m, ok := p.members[[2]string{at, user}]
		if ok && !hasPassed(m.ends, p.now) && !p.dead(at) {
			best = max(best, slices.Index(ranks, m.role))
		}
	}
	return best
}

var ranks = []string{"", "viewer", "member", "manager", "owner"}

func (p *people) dead(account string) bool {
	return account != "" && (hasPassed(p.over[account], p.now) || p.dead(p.above[account]))
}

// rule is who may do something: with a platform role, with a role in the account
// from some rank on, or as the one whose it is.
type rule struct {
	platform []string
	rank     int // 0: none suffices
	own      bool
}

// rules say it as the documentation does; "" stands for everybody who may anything.
func rules() map[access.Action]rule {
	sees := []string{"auditor", "operator", "admin"}
	runs, admin := []string{"operator", "admin"}, []string{"admin"}
	return map[access.Action]rule{
		access.JobSee: {platform: []string{"user", "auditor", "operator", "admin"}}, access.NodeSee: {platform: []string{"user", "auditor", "operator", "admin"}},
		access.JobRead: {sees, 3, true}, access.JobControl: {runs, 3, true}, access.JobEnter: {nil, 0, true}, access.JobShare: {nil, 0, true}, access.AppSee: {nil, 0, true}, access.AppView: {nil, 0, true}, access.AppUse: {nil, 0, true}, access.TermView: {nil, 0, true}, access.TermUse: {nil, 0, true}, access.JobSubmit: {nil, 2, false},
		access.AccountSee: {sees, 1, false}, access.AccountRead: {sees, 1, false}, access.AccountRun: {admin, 3, false},
		access.AccountMake: {platform: admin}, access.MoneyGive: {platform: admin}, access.PriceSet: {platform: admin}, access.UserRun: {platform: admin},
		access.LimitSet: {platform: runs}, access.CatalogSet: {platform: runs}, access.JobRaise: {platform: runs}, access.NodeRun: {platform: runs},
		access.UserSee: {sees, 0, true}, access.TokenRun: {admin, 0, true}, access.LedgerAll: {platform: sees}, access.EventsAll: {platform: sees},
		access.RequestMake: {nil, 0, true}, access.RequestSee: {sees, 3, true}, access.RequestDecide: {runs, 3, true},
		access.System: {},
	}
}

func (p *people) may(user string, a access.Action, owner, account string) bool {
	who, r := p.users[user], p.rules[a]
	if who.blocked || hasPassed(who.ends, p.now) {
		return false
	}
	return slices.Contains(r.platform, who.platform) || r.own && owner == user || r.rank > 0 && p.reaches(user, account) >= r.rank
}

// Whatever is done to people and accounts, everybody may do exactly what the plain
// maps say, to everything of everybody, wherever it is in the tree.
func TestReachAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPeople(t)
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			p.now += rapid.Int64Range(0, 3*hour).Draw(t, "passes")
			p.step(t)
			p.compare(t)
		}
	})
}

func newPeople(t *rapid.T) *people {
	p := &people{
		sim: newSim(t), rules: rules(), over: map[string]int64{}, above: map[string]string{"nlp": "", "vision": "nlp"},
		members: map[[2]string]member{{"nlp", "ada"}: {role: "member"}, {"vision", "ben"}: {role: "member"}},
		users:   map[string]person{"root": {platform: "admin"}, "ada": {platform: "user"}, "ben": {platform: "user"}},
	}
	for child, parent := range map[string]string{"a": "", "b": "a", "c": "b"} {
		p.above[child] = parent
	}
	for _, name := range []string{"a", "b", "c"} {
		p.must(t, p.user("root"), command.AccountPut{Create: true, Name: name, Parent: p.above[name]})
	}
	for _, role := range []string{"operator", "auditor", "user"} {
		name := "the-" + role
		p.must(t, p.user("root"), command.UserPut{Create: true, Name: name, Role: text(role)})
		p.users[name] = person{platform: role}
	}
	return p
}

// step changes something, in the world and, if it was done, in the maps.
func (p *people) step(t *rapid.T) {
	root := p.user("root")
	accounts := []string{"nlp", "vision", "a", "b", "c"}
	account := rapid.SampledFrom(accounts).Draw(t, "account")
	user := rapid.SampledFrom([]string{"ada", "ben", "the-operator", "the-auditor", "the-user"}).Draw(t, "user")
	end := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(p.now+1, p.now+20*hour)).Draw(t, "end")
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0, 1, 2:
		role := rapid.SampledFrom(ranks).Draw(t, "role")
		if _, err := p.do(root, command.MemberPut{Account: account, User: user, Role: role, Ends: end}); err == nil {
			p.members[[2]string{account, user}] = member{role, end}
		}
	case 3:
		under := rapid.SampledFrom(append(accounts, "")).Draw(t, "under")
		if _, err := p.do(root, command.AccountMove{Name: account, Under: under}); err == nil {
			p.above[account] = under
		}
	case 4:
		if _, err := p.do(root, command.AccountPut{Name: account, Ends: &end}); err == nil {
			p.over[account] = end
		}
	case 5:
		blocked, role := rapid.Bool().Draw(t, "blocked"), rapid.SampledFrom([]string{"user", "operator", "auditor", "admin"}).Draw(t, "platform")
		p.must(t, root, command.UserPut{Name: user, Blocked: &blocked, Role: &role, Ends: &end})
		p.users[user] = person{role, blocked, end}
	case 6:
		p.must(t, root, command.UserRetire{Name: user, Stop: true})
		p.must(t, root, command.UserPut{Create: true, Name: user})
		p.users[user] = person{platform: "user"}
		for k := range p.members {
			if k[1] == user {
				delete(p.members, k)
			}
		}
	}
}

func (p *people) compare(t *rapid.T) {
	for user := range p.users {
		caller := p.user(user)
		for account := range p.above {
			a, _ := p.w.Tenancy.Account(account)
			for _, owner := range []string{user, "root"} {
				o, _ := p.w.Tenancy.User(owner)
				for action := range p.rules {
					if got, want := p.w.Can(caller, action, o.ID, a.ID), p.may(user, action, owner, account); got != want {
						t.Fatalf("%s may %s to %s's in %s: %v, the maps say %v\n%+v", user, action, owner, account, got, want, p.members)
					}
				}
			}
		}
		if caller.User != 0 && p.w.Can(caller, access.JobRead, id.User(0), id.Account(999)) != p.may(user, access.JobRead, "", "") {
			t.Fatalf("%s and an account that isn't there", user)
		}
	}
}
