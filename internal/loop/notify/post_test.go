package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/loop/notify"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// listener is where hooks lead to.
type listener struct {
	mu     sync.Mutex
	got    []string // "hook: type of event"
	ids    []string
	events []v1.WebhookEvent
	answer func(p notify.Post) error
}

func (l *listener) take(_ context.Context, p notify.Post) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer != nil {
		if err := l.answer(p); err != nil {
			return err
		}
	}
	var e v1.WebhookEvent
	d := json.NewDecoder(strings.NewReader(p.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		panic(fmt.Sprintf("api/v1 has an event otherwise: %v: %s", err, p.Body))
	}
	l.got, l.ids, l.events = append(l.got, p.Hook.Name+": "+e.Type), append(l.ids, p.ID), append(l.events, e)
	return nil
}

// taken is what was posted since the last time, sorted by hook: several are posted to at once.
func (l *listener) taken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = nil
	slices.SortStableFunc(got, func(a, b string) int {
		x, _, _ := strings.Cut(a, ":")
		y, _, _ := strings.Cut(b, ":")
		return strings.Compare(x, y)
	})
	return got
}

// hooking is a site that posts to whatever is listened at.
func hooking(t *testing.T, cfg store.Config) (*site, *listener) {
	t.Helper()
	s, l := newSite(t, cfg), &listener{}
	s.hosts = []string{"*"}
	s.settle(idle.Policy{})
	s.loop = notify.New(with(s.config(), func(c *notify.Config) { c.Hooks = true }))
	s.poster = notify.NewPoster(s.posterConfig(l))
	return s, l
}

func (s *site) posterConfig(l *listener) notify.PosterConfig {
	return notify.PosterConfig{Port: s, Outbox: s.db, Send: l.take, Instance: "0a1b2c3d-test", Keep: 5 * 24 * time.Hour, PerHour: 100, Log: slog.New(slog.NewTextHandler(&s.log, nil))}
}

// hook gives a user a hook.
func (s *site) hook(user, name, account, words string) {
	s.t.Helper()
	to := "https://bot.example.org/secret-path"
	s.do(s.user(user), command.HookPut{User: user, Name: name, Create: true, URL: &to, Wants: &words, Account: account, Sealed: "sealed"})
}

// passes lets both loops look, and time pass by so much.
func (s *site) passes(by time.Duration) {
	s.t.Helper()
	s.now.Add(int64(by))
	if err := errors.Join(s.once(), s.poster.Once(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
}

// A hook is told of what it asks for, whatever its user has mailed: of what is his, or of an
// account that he manages.
func TestWhatIsPosted(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s, l := hooking(t, cfg)
		s.hook("ada", "mine", "", "")
		s.hook("ada", "failures", "", "fail")
		s.hook("mia", "lab", "nlp", "begin,fail,budget")
		s.hook("mia", "own", "", "end,fail")
		quiet := func(j *workload.Spec) { j.Mail = notice.None }
		s.ends(7, quiet)
		s.passes(time.Second)
		want(t, "of a failure", l.taken(), "failures: job.fail", "lab: job.begin", "lab: job.fail", "mine: job.begin", "mine: job.fail")
		job := l.events[0].Data.Job
		if l.events[0].Data.User == "" || job.ID != "1" || job.User != "ada" || job.Account != "nlp" || job.State == "" || job.Submitted.IsZero() {
			t.Errorf("%+v %+v", l.events[0], job)
		}
		for _, e := range l.events {
			if e.Type == "job.fail" && (*e.Data.Job.ExitCode != 7 || e.Data.Job.Outcome != "failed" || e.Data.Job.Charged == "" || !strings.Contains(e.Data.Message, "exit code 7")) {
				t.Errorf("%+v %+v", e, e.Data.Job)
			}
		}
		if all := fmt.Sprint(l.events); strings.Contains(all, "secret") {
			t.Errorf("a secret is told: %s", all)
		}
		s.do(s.user("ada"), command.NoticeTest{})
		s.passes(time.Second)
		want(t, "of a test", l.taken(), "failures: test", "mine: test")

		s.do(0, command.MemberPut{Account: "nlp", User: "mia", Role: "member"})
		s.ends(0, quiet)
		s.passes(time.Second)
		want(t, "once she manages nothing", l.taken(), "mine: job.begin", "mine: job.end")
		s.do(s.user("ada"), command.HookRemove{User: "ada", Name: "mine"})
		s.ends(7, quiet)
		s.passes(time.Second)
		want(t, "once it is removed", l.taken(), "failures: job.fail")
		if s.passes(time.Hour); len(l.taken()) != 0 {
			t.Error("something is posted twice")
		}
		if bytes.Contains(s.log.Bytes(), []byte("secret")) {
			t.Errorf("the log has a secret: %s", s.log.Bytes())
		}
	})
}

// What a hook doesn't take is posted again, in order and with the same ID, and keeps nothing
// from the others; what it refuses for itself holds up nothing else.
func TestHookIsDown(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s, l := hooking(t, cfg)
		s.hook("ada", "down", "", "end,fail")
		s.hook("ada", "up", "", "end,fail")
		tries, code := 0, 503
		l.answer = func(p notify.Post) error {
			if p.Hook.Name != "down" || code == 0 || code == 422 && !strings.HasPrefix(p.ID, "job_1_") {
				return nil
			}
			tries++
			return &notify.Unposted{Code: code, Said: fmt.Sprint("its server answers with ", code), Err: errors.New("refused")}
		}
		for range 3 {
			s.ends(0)
		}
		s.passes(time.Second)
		want(t, "while one is down", l.taken(), "up: job.end", "up: job.end", "up: job.end")
		for range 12 * 60 {
			s.passes(time.Minute)
		}
		if tries < 10 || tries > 30 {
			t.Errorf("it was tried %d times in twelve hours", tries)
		}
		s.poster = notify.NewPoster(s.posterConfig(l)) // a server that has ended knows no more than the rows
		code, l.ids = 422, nil
		s.passes(time.Hour)
		want(t, "when it refuses one", l.taken(), "down: job.end", "down: job.end")
		code = 0
		s.passes(2 * time.Hour)
		want(t, "when it takes that too", l.taken(), "down: job.end")
		want(t, "in order", l.ids, "job_2_end_u2_down_0a1b2c3d-test", "job_3_end_u2_down_0a1b2c3d-test", "job_1_end_u2_down_0a1b2c3d-test")
		got, err := s.db.Notices(t.Context(), store.NoticeFilter{States: []notice.State{notice.Waiting}}, 0)
		if err != nil || slices.ContainsFunc(got, func(n notice.Notice) bool { return n.Hook != "" }) {
			t.Errorf("%v, %+v", err, got)
		}
	})
}

// One that is killed between a post and noting it posts it again, under the same ID.
func TestKilledWhilePosting(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s, l := hooking(t, cfg)
		s.hook("ada", "bot", "", "end")
		s.ends(0)
		if err := s.loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		config := s.posterConfig(l)
		config.Outbox = killed{s.db}
		s.now.Add(1e9)
		if err := notify.NewPoster(config).Once(t.Context()); err == nil {
			t.Fatal("it went on")
		}
		s.passes(time.Second)
		want(t, "twice", l.ids, "job_1_end_u2_bot_0a1b2c3d-test", "job_1_end_u2_bot_0a1b2c3d-test")
		s.passes(time.Hour)
		want(t, "and no more", l.ids[2:])
	})
}

// killed is the outbox of a server that ends before it notes anything.
type killed struct{ *store.Store }

func (killed) SettleNotices(context.Context, []notice.Notice) error { return errors.New("killed") }

// A hook that says that it is gone is switched off, and what isn't taken for days is given up.
func TestHookIsGone(t *testing.T) {
	s, l := hooking(t, sqlite(t))
	s.hook("ada", "gone", "", "end")
	s.hook("ada", "late", "", "end")
	l.answer = func(p notify.Post) error {
		if p.Hook.Name == "gone" {
			return &notify.Unposted{Code: 410, Err: errors.New("gone")}
		}
		return &notify.Unposted{Said: "its server wasn't reached", Err: errors.New("no route")}
	}
	s.ends(0)
	s.ends(0)
	s.passes(time.Second)
	h, _ := s.World().Notices.Hook(s.user("ada"), "gone")
	if !strings.Contains(h.Off, "410") {
		t.Fatalf("%+v", h)
	}
	for range 6 * 24 {
		s.passes(time.Hour)
	}
	var given []string
	got, err := s.db.Notices(t.Context(), store.NoticeFilter{States: []notice.State{notice.GivenUp}}, 0)
	for _, n := range got {
		if n.Hook != "" {
			given = append(given, n.Hook+": "+n.Why)
		}
	}
	want(t, "what is given up", given, "gone: the webhook is off: its server has answered that it is gone (410)", "late: its webhook took nothing in time",
		"gone: its server has answered that it is gone (410)", "late: its server wasn't reached")
	if err != nil {
		t.Error(err)
	}
	s.ends(0)
	s.passes(time.Second)
	s.mailsAside(t, "late")
}

// mailsAside fails if notices wait for other hooks than these.
func (s *site) mailsAside(t *testing.T, hooks ...string) {
	t.Helper()
	got, err := s.db.Notices(t.Context(), store.NoticeFilter{States: []notice.State{notice.Waiting}}, 0)
	for _, n := range got {
		if n.Hook != "" && !slices.Contains(hooks, n.Hook) {
			t.Errorf("%+v waits", n)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A hook is posted so much in an hour; the rest comes later, and none of it is lost.
func TestPostsAnHour(t *testing.T) {
	s, l := hooking(t, sqlite(t))
	config := s.posterConfig(l)
	config.PerHour = 3
	s.poster = notify.NewPoster(config)
	s.hook("ada", "bot", "", "end")
	for range 7 {
		s.ends(0)
	}
	s.passes(time.Second)
	if n := len(l.taken()); n != 3 {
		t.Errorf("%d were posted", n)
	}
	for range 10 {
		s.passes(time.Minute)
	}
	if n := len(l.taken()); n != 0 {
		t.Errorf("%d more within the hour", n)
	}
	for range 3 {
		s.passes(time.Hour)
	}
	if n := len(l.taken()); n != 4 {
		t.Errorf("%d in the hours after", n)
	}
}

// A site that posts nowhere any more makes nothing to be posted, and gives up what waits.
func TestHooksOff(t *testing.T) {
	s, l := hooking(t, sqlite(t))
	s.hook("ada", "bot", "", "end")
	s.ends(0)
	if err := s.loop.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.hosts = []string{"other.example.org"}
	s.settle(idle.Policy{})
	s.passes(time.Second)
	if len(l.taken()) != 0 {
		t.Error("it is posted nevertheless")
	}
	s.loop = notify.New(s.config())
	s.ends(0)
	s.passes(time.Second)
	s.mailsAside(t)
}

// Between the making of a notice and its post a hook may lose its right to it: then it isn't
// posted, and what was put off isn't put forward.
func TestHookLosesItsRight(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s, l := hooking(t, cfg)
		s.hook("mia", "lab", "nlp", "end")
		s.hook("ada", "off", "", "end")
		s.ends(0)
		if err := s.loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		no := false
		s.do(0, command.MemberPut{Account: "nlp", User: "mia", Role: "member"})
		s.do(s.user("ada"), command.HookPut{User: "ada", Name: "off", On: &no})
		s.passes(time.Second)
		want(t, "without a right to it", l.taken())
		s.mailsAside(t)

		yes := true
		s.do(s.user("ada"), command.HookPut{User: "ada", Name: "off", On: &yes})
		s.ends(0)
		if err := s.loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		late := s.now.Load() + 2*hour
		for _, until := range []int64{late, s.now.Load() + hour/2} {
			if err := s.db.PostponePosts(t.Context(), s.user("ada"), "off", until); err != nil {
				t.Fatal(err)
			}
		}
		s.passes(time.Hour)
		want(t, "before its time", l.taken())
		s.passes(time.Hour)
		want(t, "at its time", l.taken(), "off: job.end")
	})
}
