package notify_test

import (
	"context"
	"strings"
	"testing"

	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Who may decide a request hears that it was made, and of reminders; who made it hears what
// became of it. Nobody else does, nor who wants to hear of other things only.
func TestRequestsAreTold(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		s.do(0, command.UserPut{Create: true, Name: "zoe"})
		address := "zoe@example.org"
		s.do(0, command.ContactPut{User: "zoe", Address: &address})
		root := "root@example.org"
		s.do(0, command.ContactPut{User: "root", Address: &root})
		ask := func(who string, wish approval.Wish, words string) approval.Request {
			return s.do(s.user(who), command.RequestMake{Wish: wish, Message: words}).(approval.Request)
		}
		join := ask("zoe", approval.Wish{Join: &approval.Join{Account: "nlp", Role: "member"}}, "my thesis")
		s.look()
		s.do(s.user("mia"), command.RequestApprove{Request: join.ID, Words: "welcome"})
		s.look()
		none := "budget"
		s.do(s.user("root"), command.ContactPut{User: "root", Wants: &none})
		credits := ask("ada", approval.Wish{Credits: &approval.Credits{Account: "nlp", Amount: 5 * money.Credit}}, "")
		s.look()
		s.now.Add(25 * hour)
		s.do(s.user("ada"), command.RequestRemind{Request: credits.ID})
		s.do(s.user("root"), command.RequestReject{Request: credits.ID, Words: "no\u2028more"})
		late := ask("ada", approval.Wish{Transfer: &approval.Transfer{From: "nlp", To: "other", Amount: money.Credit}}, "")
		s.do(s.user("ada"), command.RequestWithdraw{Request: late.ID})
		s.look()
		s.restart()
		s.look()
		want(t, "mails", s.subjects(),
			"root@example.org: request 1: zoe asks to be member of nlp",
			"mia@example.org: request 1: zoe asks to be member of nlp",
			"zoe@example.org: request 1 is approved, and done: it was to be member of nlp",
			"ada@example.org: request 2 is rejected: it was for 5.000 credits for nlp",
		)
		mails := s.box.Mails()
		for i, words := range map[int][]string{0: {"my thesis", "croft request approve 1"}, 2: {"welcome", "croft request show 1"}} {
			for _, w := range words {
				if i < len(mails) && !strings.Contains(mails[i].Data, w) {
					t.Errorf("%q isn't in\n%s", w, mails[i].Data)
				}
			}
		}
	})
}

// Whose token asks is told what for, and by which of them; not what he has answered himself.
func TestWhatATokenAsksIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg store.Config) {
		s := newSite(t, cfg)
		wants := "request"
		s.do(0, command.ContactPut{User: "ada", Wants: &wants})
		tok := s.do(s.user("ada"), command.TokenPut{User: "ada", Name: "agent", Hash: "agent", Caps: tenancy.Caps{Ask: tenancy.AskAll}}).(tenancy.Token)
		for range 2 {
			spec := workload.Spec{Name: "train", Kind: workload.KindContainer, Image: "train:1", Account: "nlp", CPU: 1000, Mem: 1 << 30, Time: hour, Pull: "missing"}
			if _, err := s.seq.Do(context.Background(), sequencer.Actor{User: s.user("ada"), Token: tok.ID}, command.Submit{Spec: spec}, sequencer.Key{}); err != nil {
				t.Fatal(err)
			}
		}
		s.look()
		s.do(s.user("ada"), command.RequestApprove{Request: 1})
		s.now.Add(approval.DefaultLife)
		s.do(0, command.RequestExpire{Request: 2})
		s.look()
		got := strings.Join(s.subjects(), "\n")
		for _, words := range []string{"request 1: ada asks to run job 1, train, for up to", "(token agent #", "request 2 has expired"} {
			if !strings.Contains(got, words) {
				t.Errorf("%q isn't in\n%s", words, got)
			}
		}
		if strings.Contains(got, "request 1 is approved") || strings.Contains(got, "root@") {
			t.Error(got)
		}
	})
}
