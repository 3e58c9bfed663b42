package notify_test

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/loop/notify"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/test/mailbox"
)

// subjects are those of the mails that arrived, with who had them.
func (s *site) subjects() (out []string) {
	for _, m := range s.box.Mails() {
		read, err := mail.ReadMessage(strings.NewReader(m.Data))
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, m.To+": "+strings.TrimPrefix(read.Header.Get("Subject"), "[croft] "))
	}
	return out
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// What is told of a job is what it or its user asks for, once.
func TestWhatIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		words := func(w notice.Wants) func(*workload.Spec) { return func(j *workload.Spec) { j.Mail = w } }
		for range 2 {
			s.ends(0)
			s.look()
		}
		s.ends(7)
		s.ends(7, words("fail"))
		s.ends(0, words("fail"))
		s.ends(0, words("none"))
		s.ends(0, words(""))
		s.ends(1, words("end,fail"), func(j *workload.Spec) { j.MailTo = "ben@example.org" })
		wish := "fail"
		s.do(s.user("ada"), command.ContactPut{User: "ada", Wants: &wish})
		s.ends(9, words(""))
		s.ends(9, words("none"))
		again := s.submit(words("begin,requeue,end"), func(j *workload.Spec) { j.Requeue = []string{"node"} })
		s.run(again, 1)
		s.look()
		s.do(0, command.JobObserved{Job: again, N: 1, Lost: true})
		s.look()
		s.do(0, command.JobStart{Job: again})
		s.do(0, command.JobObserved{Job: again, N: 2, Running: true, Started: s.now.Load()})
		s.exit(again, 2, 0)
		for range 3 {
			s.look()
		}
		s.restart()
		s.look()
		want(t, "mails", s.subjects(),
			"ada@example.org: job 1 train has ended: completed",
			"ada@example.org: job 2 train has ended: completed",
			"ada@example.org: job 3 train has failed: exit code 7",
			"ada@example.org: job 4 train has failed: exit code 7",
			"ben@example.org: job 8 train has failed: exit code 1",
			"ada@example.org: job 9 train has failed: exit code 9",
			"ada@example.org: job 11 train has begun",
			"ada@example.org: job 11 train waits again: attempt 1 node failed",
			"ada@example.org: job 11 train has begun",
			"ada@example.org: job 11 train has ended: completed",
		)
		for _, m := range s.box.Mails() {
			if strings.Contains(m.Data, "secret-") {
				t.Errorf("what isn't told to anybody: %s", m.Data)
			}
		}
		last := s.box.Mails()[9].Data
		for _, word := range []string{"Message-ID: <job.11.end.u2@0a1b2c3d-test>", "cost       ", "account    nlp", "node       gpu1", "https://croft.example.org", "croft show 11"} {
			if !strings.Contains(last, word) {
				t.Errorf("%q isn't in\n%s", word, last)
			}
		}
	})
}

// Who isn't anybody any more, or has no address, is told nothing.
func TestWhoIsTold(t *testing.T) {
	s := newSite(t, sqlite(t))
	none, yes := "", true
	s.ends(0)
	s.do(0, command.ContactPut{User: "ada", Address: &none})
	s.look() // its recipient is looked up when it is sent, too
	s.ends(0)
	s.look()
	back := "ada@example.org"
	s.do(0, command.ContactPut{User: "ada", Address: &back})
	k := s.submit()
	s.run(k, 1)
	s.exit(k, 1, 0)
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	s.look()
	s.do(0, command.UserPut{Name: "ada", Blocked: &yes})
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
	s.now.Add(hour)
	s.look()
	want(t, "mails", s.subjects())
	want(t, "rows", s.rows(), "job.3.end.u2 given up 1")
}

// A job's own name is told as it is, on one line.
func TestHostileNames(t *testing.T) {
	s := newSite(t, sqlite(t))
	s.ends(0, func(j *workload.Spec) { j.Name = "x\r\nBcc: all@example.org\r\n\r\nhello \u202eevil é" })
	s.look()
	m := s.box.Mails()[0]
	read, err := mail.ReadMessage(strings.NewReader(m.Data))
	if err != nil || read.Header.Get("Bcc") != "" || m.To != "ada@example.org" {
		t.Errorf("%v in %s", err, m.Data)
	}
}

// A mail server that is down for a day loses nothing: what was to be told is told when it is
// back, it is said in the log once, and it isn't pestered.
func TestDownForADay(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		opened := 0
		open := s.open
		s.loop = notify.New(with(s.config(), func(c *notify.Config) {
			c.Open = func(ctx context.Context) (notify.Session, error) { opened++; return open(ctx) }
		}))
		s.mu.Lock()
		s.down = true
		s.mu.Unlock()
		for range 3 {
			s.ends(0)
		}
		for end := s.now.Load() + 24*hour; s.now.Load() < end; s.now.Add(10e9) {
			if err := s.once(); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(s.log.String(), "level=WARN"); n != 1 || !strings.Contains(s.log.String(), "mail can't be sent") {
			t.Errorf("the log says %d times:\n%s", n, s.log.String())
		}
		if opened < 40 || opened > 60 {
			t.Errorf("it was tried %d times in a day", opened)
		}
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		s.now.Add(hour)
		s.look()
		s.look()
		got := s.subjects()
		slices.Sort(got)
		want(t, "mails", got, "ada@example.org: job 1 train has ended: completed", "ada@example.org: job 2 train has ended: completed", "ada@example.org: job 3 train has ended: completed")
		if !strings.Contains(s.log.String(), "mail is sent again") {
			t.Errorf("the log doesn't say that it is over:\n%s", s.log.String())
		}
	})
}

// One that is down for longer than notices are kept: they are given up, which one can see.
func TestGivenUp(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		s.mu.Lock()
		s.down = true
		s.mu.Unlock()
		for range 3 {
			s.ends(0)
		}
		s.look()
		s.now.Add(5*24*hour - 2*hour)
		s.ends(0)
		s.now.Add(2*hour + 60e9)
		s.look()
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		s.now.Add(hour)
		s.look()
		want(t, "mails", s.subjects(), "ada@example.org: job 4 train has ended: completed")
		var states []string
		for _, row := range s.rows() {
			states = append(states, strings.Join(strings.Fields(row)[:2], " "))
		}
		want(t, "rows", states, "job.1.end.u2 given", "job.2.end.u2 given", "job.3.end.u2 given", "job.4.end.u2 delivered")
		if !strings.Contains(s.log.String(), "given up") {
			t.Errorf("the log doesn't say so:\n%s", s.log.String())
		}
		all, err := s.db.Notices(t.Context(), store.NoticeFilter{States: []notice.State{notice.GivenUp}}, 0)
		if err != nil || len(all) != 3 || all[0].Why != "the mail server wasn't reached" || all[0].Body != "" {
			t.Errorf("%+v, %v", all, err)
		}
		// and in a month they are forgotten
		s.now.Add(31 * 24 * hour)
		s.look()
		want(t, "rows", s.rows())
	})
}

// What the server refuses for good is given up at once, and what it refuses for now is tried
// again, later each time, and doesn't keep others back.
func TestRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		to := func(name string) func(*workload.Spec) {
			return func(j *workload.Spec) { j.MailTo = name + "@example.org" }
		}
		busy := true
		s.rcpt = func(to string) error {
			switch {
			case to == "gone@example.org":
				return mailbox.Answer(550, "no such user: s3cret internals")
			case to == "busy@example.org" && busy:
				return mailbox.Answer(451, "later")
			}
			return nil
		}
		s.ends(0, to("gone"))
		s.ends(0, to("busy"))
		s.ends(0, to("ben"))
		s.look()
		want(t, "mails", s.subjects(), "ben@example.org: job 3 train has ended: completed")
		want(t, "rows", s.rows(), "job.1.end.u2 given up 1", "job.2.end.u2 waiting 1", "job.3.end.u2 delivered 1")
		all, err := s.db.Notices(t.Context(), store.NoticeFilter{User: s.user("ada")}, 0)
		if err != nil || all[2].Why != "the mail server refuses it (550)" {
			t.Errorf("%+v, %v", all, err)
		}
		tries := 0
		s.mu.Lock()
		before := s.rcpt
		s.rcpt = func(to string) error { tries++; return before(to) }
		s.mu.Unlock()
		for range 6 * 60 {
			s.now.Add(60e9)
			s.look()
		}
		if tries < 8 || tries > 14 {
			t.Errorf("in six hours it was tried %d times", tries)
		}
		s.mu.Lock()
		busy = false
		s.mu.Unlock()
		s.now.Add(hour)
		s.look()
		want(t, "mails", s.subjects(), "ben@example.org: job 3 train has ended: completed", "busy@example.org: job 2 train has ended: completed")
	})
}

// broken is an outbox that fails where it is told to, as a server does that is killed.
type broken struct {
	*store.Store
	keep, settle error
}

func (b *broken) KeepNotices(ctx context.Context, upTo int64, rows []notice.Notice) error {
	if b.keep != nil {
		return b.keep
	}
	return b.Store.KeepNotices(ctx, upTo, rows)
}

func (b *broken) SettleNotices(ctx context.Context, rows []notice.Notice) error {
	if b.settle != nil {
		return b.settle
	}
	return b.Store.SettleNotices(ctx, rows)
}

var errKilled = errors.New("killed")

// Wherever the server is killed, each notice arrives; if it comes twice, it is under the same
// Message-ID.
func TestKilled(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		b := &broken{Store: s.db}
		s.outbox = b
		s.restart()
		s.ends(0)
		b.keep = errKilled // before the notice was written
		if err := s.once(); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		b.keep = nil
		s.restart()
		b.settle = errKilled // after it was taken, before that was noted
		if err := s.once(); !errors.Is(err, errKilled) || len(s.box.Mails()) != 1 {
			t.Fatalf("%v, %d mails", err, len(s.box.Mails()))
		}
		b.settle = nil
		s.restart()
		s.look()
		s.look()
		if n := len(s.box.Mails()); n != 2 {
			t.Fatalf("%d mails", n)
		}
		var ids []string
		for _, m := range s.box.Mails() {
			read, err := mail.ReadMessage(strings.NewReader(m.Data))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, read.Header.Get("Message-ID"))
		}
		if ids[0] != ids[1] || ids[0] == "" {
			t.Errorf("the same mail came as %v", ids)
		}
		// the server says no after it has kept the mail: it comes twice, too
		s.mu.Lock()
		s.taken = func() error { return mailbox.Answer(451, "oh") }
		s.mu.Unlock()
		s.ends(0)
		s.look()
		s.mu.Lock()
		s.taken = nil
		s.mu.Unlock()
		s.now.Add(hour)
		s.look()
		want(t, "rows", s.rows(), "job.1.end.u2 delivered 1", "job.2.end.u2 delivered 2")
	})
}

// Who may not lead any more sends nothing and writes nothing.
func TestDeposed(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		s.ends(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.loop.Once(ctx); err == nil {
			t.Error("it goes on")
		}
		want(t, "mails", s.subjects())
		want(t, "rows", s.rows())
		s.look()
		want(t, "mails", s.subjects(), "ada@example.org: job 1 train has ended: completed")
	})
}

// More than so many mails in an hour wait for the next.
func TestMailBomb(t *testing.T) {
	s := newSite(t, sqlite(t))
	s.loop = notify.New(with(s.config(), func(c *notify.Config) { c.PerHour = 3 }))
	for range 8 {
		s.do(s.user("ada"), command.NoticeTest{})
	}
	s.do(s.user("mia"), command.NoticeTest{})
	s.look()
	for i, n := range []int{4, 7, 9, 9} {
		for range 3 {
			s.look()
		}
		if got := len(s.box.Mails()); got != n {
			t.Errorf("in hour %d: %d mails, want %d", i, got, n)
		}
		s.now.Add(hour)
	}
}

// An account's managers are told of its credits, once for each level; what is told to others
// isn't.
func TestBudget(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		s.do(0, command.AccountPut{Create: true, Name: "course", Parent: "nlp"})
		s.do(0, command.GrantGive{Account: "course", Amount: 10 * money.Credit, Source: "x"})
		s.do(0, command.MemberPut{Account: "course", User: "ada", Role: "member"})
		rich := func(cpu int64) {
			s.submit(func(j *workload.Spec) { j.Account, j.CPU, j.Mail = "nlp", cpu, "none" })
		}
		rich(60_000)
		s.now.Add(11e9)
		s.look()
		rich(20_000)
		s.now.Add(11e9)
		s.look()
		s.now.Add(11e9)
		s.look()
		rich(15_500)
		s.submit(func(j *workload.Spec) { j.Account, j.CPU, j.Mail = "course", 9_600, "none" })
		for range 3 {
			s.now.Add(11e9)
			s.look()
		}
		got := s.subjects()
		slices.Sort(got)
		want(t, "mails", got, "mia@example.org: course: 95 % of its credits are used up", "mia@example.org: nlp: 80 % of its credits are used up", "mia@example.org: nlp: 95 % of its credits are used up")
		if m := s.box.Mails()[0].Data; !strings.Contains(m, "used up or set aside: 20.000 of 100.000 are") {
			t.Errorf("%s", m)
		}
	})
}

// Managers are told when the overdraft of their account begins to be used, and what that means.
func TestOverdraft(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		over, bound := "overdraft", 1000*money.Credit
		s.do(0, command.AccountPut{Name: "nlp", OutOfCredit: &over, Overdraft: &bound})
		s.submit(func(j *workload.Spec) { j.Account, j.CPU, j.Mail = "nlp", 60_000, "none" })
		s.submit(func(j *workload.Spec) { j.Account, j.CPU, j.Mail = "nlp", 60_000, "none" })
		for range 3 {
			s.now.Add(11e9)
			s.look()
		}
		want(t, "mails", s.subjects(), "mia@example.org: nlp: its overdraft is used")
		if m := s.box.Mails()[0].Data; !strings.Contains(m, "20.000 of its overdraft of 1000.000") || !strings.Contains(m, "the next credits repay") {
			t.Errorf("%s", m)
		}
	})
}

// What is to be stopped by others is told while it isn't yet.
func TestStopping(t *testing.T) {
	s := newSite(t, sqlite(t))
	all := func(j *workload.Spec) { j.Mail = "stop,time_limit" }
	s.settle(idle.Policy{Mode: idle.Stop, After: hour, Notice: hour, KeepMax: hour, Signals: []idle.Signal{"cpu"}})
	k := s.submit(all)
	s.run(k, 1)
	s.do(0, command.JobNotice{Job: k, N: 1, Since: s.now.Load(), Idle: hour, StopAt: s.now.Load() + hour, Text: "idle"})
	s.look()
	j := s.submit(all)
	s.run(j, 1)
	s.now.Add(hour + 1e9)
	s.do(0, command.JobDue{Job: j})
	s.look()
	s.exit(j, 1, 1)
	s.look()
	r := s.submit(all, func(j *workload.Spec) { j.Deposit, j.CPU, j.Time = workload.DepositRolling, 60_000, 24*hour })
	s.run(r, 1)
	for range 3 {
		s.now.Add(46 * 60e9)
		s.do(0, command.JobTopUp{Job: r, N: 1})
		s.look()
	}
	want(t, "mails", s.subjects(),
		"ada@example.org: job 1 train is idle, and is to be stopped", "ada@example.org: job 2 train has used up its time", "ada@example.org: job 3 train is to be stopped",
		"mia@example.org: nlp: 95 % of its credits are used up")
}

// An array is told of as a whole, or element by element.
func TestArrays(t *testing.T) {
	s := newSite(t, sqlite(t))
	for _, w := range []notice.Wants{"end", "end,array_tasks"} {
		spec := func(j *workload.Spec) {
			j.Mail = w
			j.Array = workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 1, Step: 1}}}
		}
		k := s.submit(spec)
		for e := range int64(2) {
			got := s.do(0, command.JobStart{Job: k, Element: e}).(*workload.Job)
			s.do(0, command.JobObserved{Job: got.ID, N: 1, Running: true, Started: s.now.Load()})
			s.exit(got.ID, 1, 0)
			s.look()
		}
	}
	want(t, "mails", s.subjects(), "ada@example.org: job 1 train has ended: completed", "ada@example.org: job 4_0 train has ended: completed", "ada@example.org: job 4_1 train has ended: completed")
}

// Without a mail server nothing is made, and what was before there is one isn't told later.
func TestWithoutMail(t *testing.T) {
	s := newSite(t, sqlite(t))
	s.loop = notify.New(with(s.config(), func(c *notify.Config) { c.Open = nil }))
	s.ends(0)
	for range 6 {
		for range 500 {
			s.do(s.user("ada"), command.NoticeTest{})
		}
		s.look()
	}
	s.now.Add(60e9)
	s.look()
	s.restart()
	s.look()
	want(t, "mails", s.subjects())
	if at, err := s.db.NoticeCursor(t.Context()); err != nil || at < 3000 {
		t.Errorf("the log was looked through to %d, %v", at, err)
	}
}

func TestAgain(t *testing.T) {
	var got []string
	for n := range int64(10) {
		got = append(got, time.Duration(notice.Again(n+1)).String())
	}
	if fmt.Sprint(got) != "[1m0s 2m0s 4m0s 8m0s 16m0s 32m0s 1h0m0s 1h0m0s 1h0m0s 1h0m0s]" || notice.Again(1<<40) != hour {
		t.Error(got)
	}
}
