package command_test

import (
	"fmt"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// mailing makes the site one that sends mail, to these domains.
func (s *sim) mailing(domains ...string) {
	site := s.w.Site
	site.Mail = notice.Rules{On: true, Domains: domains}
	s.w.Fold([]world.Change{world.SiteSet{Row: site}})
}

// Where the site names domains, users have addresses in these alone; an admin may say
// otherwise. Nobody has one that isn't one.
func TestWhereMailMayGo(t *testing.T) {
	s := newSim(t)
	set := func(by, address string) error {
		_, err := s.do(s.user(by), command.ContactPut{User: "ada", Address: &address})
		return err
	}
	s.mailing()
	for _, bad := range []string{"ada", "ada@", "@example.org", "Ada <ada@example.org>", "ada@example.org\r\nBcc: x@y.org", "ada@example.org,x@y.org", "ada@[192.0.2.1]", "äda@example.org", strings.Repeat("a", 300) + "@example.org"} {
		if err := set("root", bad); fault.Of(err) != codes.Invalid {
			t.Errorf("%q is taken: %v", bad, err)
		}
	}
	for domains, want := range map[string]map[string]bool{
		"":                     {"ada@anywhere.net": true},
		"example.org":          {"ada@anywhere.net": false, "ada@Example.org": true, "ada@cs.example.org": false, "ada@badexample.org": false},
		"uni.edu .example.org": {"ada@example.org": false, "ada@cs.example.org": true, "ada@uni.edu": true, "ada@badexample.org": false},
	} {
		s.mailing(strings.Fields(domains)...)
		for address, ok := range want {
			if err := set("ada", address); (err == nil) != ok {
				t.Errorf("in %q %s: %v", domains, address, err)
			}
			if err := set("root", address); err != nil {
				t.Errorf("an admin, in %q %s: %v", domains, address, err)
			}
		}
	}
	if _, err := s.do(s.user("ada"), command.ContactPut{User: "ada", Wants: text("end,often")}); err == nil || !strings.Contains(err.Error(), `"often" isn't one of begin, end`) {
		t.Errorf("%v", err)
	}
	s.must(t, s.user("ada"), command.ContactPut{User: "ada", Wants: text("Fail, ALL")})
	ada, _ := s.w.Tenancy.User("ada")
	if got := s.w.Notices.Of(ada.ID); got.Wants != "begin,end,fail,requeue,time_limit,stop,budget,request" || got.Address == "" {
		t.Errorf("%+v", got)
	}
}

// Nobody has the site write to anybody: mail about a job goes to its user, or where the site
// says that it may.
func TestMailOfJobs(t *testing.T) {
	submit := func(s *sim, to string) (*workload.Job, error) {
		spec := example()
		spec.Mail, spec.MailTo = notice.End, to
		_, err := s.do(s.user("ada"), command.Submit{Spec: spec})
		j, _, _ := s.w.Workload.Jobs.Last()
		row, _ := s.w.Workload.Jobs.Get(j)
		return row, err
	}
	for name, tt := range map[string]struct{ own, domain, to, kept, bad string }{
		"own":        {"ada@x.org", "", "ADA@x.org", "", ""},
		"user":       {"ada@x.org", "", "ada", "", ""},
		"other":      {"ada@x.org", "", "ben@x.org", "", "must be your own, ada@x.org"},
		"none":       {"", "", "ben@x.org", "", "croft notice address ben@x.org"},
		"allowed":    {"", "x.org", "ben@x.org", "ben@x.org", ""},
		"elsewhere":  {"", "x.org", "ben@y.org", "", "in x.org"},
		"header":     {"", "x.org", "ben@x.org\nBcc: all@y.org", "", "must be an address"},
		"other user": {"", "x.org", "root", "", "must be an address"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			s.mailing(strings.Fields(tt.domain)...)
			if tt.own != "" {
				s.must(t, s.user("root"), command.ContactPut{User: "ada", Address: &tt.own})
			}
			j, err := submit(s, tt.to)
			switch {
			case tt.bad != "" && (fault.Of(err) != codes.Invalid || !strings.Contains(err.Error(), "mail_user") || !strings.Contains(err.Error(), tt.bad)):
				t.Errorf("%v", err)
			case tt.bad == "" && (err != nil || j.Spec.MailTo != tt.kept || j.Spec.Mail != notice.End):
				t.Errorf("%v, %+v", err, j)
			}
		})
	}
}

// take takes credits from an account's last grant, or with a negative amount gives them back.
func (s *sim) take(a id.Account, amount money.Micros) {
	for _, g := range s.w.Ledger.GrantsOf(a) {
		s.w.Fold([]world.Change{ledger.BalanceSet{Account: ledger.OfGrant(g.ID), Sum: -amount}})
	}
}

// Credits that an account gives to another one aren't used up.
func TestTransferredIsNotUsed(t *testing.T) {
	s := newSim(t)
	for _, name := range []string{"lab", "other"} {
		s.must(t, s.user("root"), command.AccountPut{Create: true, Name: name, Billing: text("enforce")})
	}
	s.must(t, s.user("root"), command.GrantGive{Account: "lab", Amount: 100 * money.Credit, Source: "x"})
	s.must(t, s.user("root"), command.GrantTransfer{From: "lab", To: "other", Amount: 90 * money.Credit})
	lab, _ := s.w.Tenancy.Account("lab")
	if row, change := command.CreditLevel(s.w, lab.ID, s.w.Now); change {
		t.Errorf("its managers are told that %d %% are used up", row.Percent)
	}
	s.take(lab.ID, 8*money.Credit)
	if row, change := command.CreditLevel(s.w, lab.ID, s.w.Now); !change || row.Percent != 80 {
		t.Errorf("8 of the 10 that are left: %+v, %v", row, change)
	}
}

// An account's managers are told once when 80 % of its credits are used up or set aside, and
// at 95; and again only after there was clearly more.
func TestCreditLevels(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("root"), command.AccountPut{Create: true, Name: "lab", Billing: text("enforce")})
	lab, _ := s.w.Tenancy.Account("lab")
	var told []string
	used := int64(0)
	use := func(percent int64) {
		t.Helper()
		// what is used is taken from the grant as a deposit takes it
		s.take(lab.ID, money.Micros(percent-used)*money.Credit)
		used = percent
		out, err := command.CreditWarn{Account: lab.ID}.Decide(s.w, s.context(system))
		if err != nil {
			t.Fatal(err)
		}
		if !out.Event.Skip {
			told = append(told, fmt.Sprintf("%d: %s", percent, out.Event.State))
			s.w.Fold(out.Changes)
		}
	}
	use(0) // without a grant
	s.must(t, s.user("root"), command.GrantGive{Account: "lab", Amount: 100 * money.Credit, Source: "x"})
	for _, percent := range []int64{79, 80, 94, 79, 81, 95, 99, 86, 95, 85, 71, 80, 70, 69, 80, 100} {
		use(percent)
	}
	if got, want := strings.Join(told, ", "), "80: 80, 95: 95, 85: 80, 70: 0, 80: 80, 100: 95"; got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	off := "off"
	s.must(t, s.user("root"), command.AccountPut{Name: "lab", Billing: &off})
	used, told = 100, nil
	use(100)
	if strings.Join(told, "") != "100: 0" {
		t.Errorf("of an account without money %v", told)
	}
}
