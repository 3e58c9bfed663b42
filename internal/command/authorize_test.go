package command_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// giveApps gives job 1 an application, and shows it to the members of its account.
func (s *sim) giveApps() {
	j, _ := s.w.Workload.Jobs.Get(1)
	next := *j
	next.Spec.Apps = []workload.App{{Name: "web", Port: 80}}
	nlp, _ := s.w.Tenancy.Account("nlp")
	next.Shared = []workload.Shared{{Account: nlp.ID, Level: access.ShareView}}
	site := s.w.Site
	site.Apps.Shared = true
	s.w.Fold([]world.Change{workload.JobSet{Row: &next}, world.SiteSet{Row: site}})
}

// who are the callers of the table: nobody, somebody without any membership,
// members of nlp by role, and the platform's roles.
var who = []string{"nobody", "stranger", "viewer", "ada", "manager", "owner", "operator", "auditor", "root", "blocked", "system"}

// may lists who may do what. Where somebody is told that a thing isn't there
// rather than that he may not, the code says so.
var may = map[string]struct {
	cmd     func(s *sim) world.Command
	allowed []string
	denied  codes.Code            // what others are answered
	except  map[string]codes.Code // who is answered otherwise
}{
	"submit": {
		func(*sim) world.Command { j := example(); j.Account = "nlp"; return command.Submit{Spec: j} },
		[]string{"ada", "manager", "owner"}, codes.Invalid, map[string]codes.Code{"nobody": codes.Denied, "system": codes.Denied},
	},
	"job.stop": {
		func(*sim) world.Command { return command.JobStop{Job: 1} },
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied},
	},
	"workspace.start": {
		func(s *sim) world.Command { s.workspace(); return command.WorkspaceStart{Job: 1} },
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied},
	},
	"app.ready": {
		func(s *sim) world.Command { s.runStep(); return command.AppsReady{Job: 1, N: 1} },
		[]string{"system"}, codes.Denied, nil,
	},
	"job.hold": {
		func(*sim) world.Command { return command.JobHold{Job: 1} },
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied},
	},
	"job.release": {
		func(s *sim) world.Command { return s.held(workload.HeldByUser) },
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied},
	},
	"job.release an operator's": {
		func(s *sim) world.Command { return s.held(workload.HeldByOperator) },
		[]string{"operator", "root", "system"}, codes.NotFound,
		map[string]codes.Code{"ada": codes.Denied, "manager": codes.Denied, "owner": codes.Denied, "auditor": codes.Denied},
	},
	"job.requeue": {
		func(s *sim) world.Command {
			j, _ := s.w.Workload.Jobs.Get(1)
			next := *j
			next.State, next.Attempt = workload.Running, workload.Attempt{N: 1, Node: "gpu1", Started: s.now, Until: s.now + hour}
			s.w.Fold([]world.Change{workload.JobSet{Row: &next}})
			return command.JobRequeue{Job: 1}
		},
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied},
	},
	"job.keep": {
		func(s *sim) world.Command {
			s.runStep()
			s.policy(idle.Policy{Mode: idle.Stop, After: hour, KeepMax: hour})
			return command.JobKeep{Job: 1, For: hour}
		},
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied},
	},
	"job.idle": {
		func(s *sim) world.Command { s.runStep(); return command.JobIdle{Job: 1, N: 1, Idle: hour} },
		[]string{"system"}, codes.Denied, nil,
	},
	"job.notice": {
		func(s *sim) world.Command { s.runStep(); return command.JobNotice{Job: 1, N: 1} },
		[]string{"system"}, codes.Denied, nil,
	},
	"job.idle_stop": {
		func(s *sim) world.Command { s.runStep(); return command.JobIdleStop{Job: 1, N: 1} },
		[]string{"system"}, codes.Denied, nil,
	},
	"job.top_up": {
		func(s *sim) world.Command { s.runStep(); return command.JobTopUp{Job: 1, N: 1} },
		[]string{"system"}, codes.Denied, nil,
	},
	"job.extend": {
		func(s *sim) world.Command { s.runs1(); return command.JobExtend{Job: 1, Time: 3 * hour} },
		[]string{"operator", "root", "system"}, codes.NotFound,
		map[string]codes.Code{"ada": codes.Denied, "manager": codes.Denied, "owner": codes.Denied, "auditor": codes.Denied},
	},
	"job.prioritize": {
		func(*sim) world.Command { return command.JobPrioritize{Job: 1, Points: num(5)} },
		[]string{"operator", "root", "system"}, codes.Denied,
		map[string]codes.Code{"nobody": codes.NotFound, "stranger": codes.NotFound, "viewer": codes.NotFound, "blocked": codes.NotFound},
	},
	"job.exec": {
		func(s *sim) world.Command {
			s.runStep()
			return command.JobExec{Job: 1, Step: 1, Program: "sh", Words: 1}
		},
		[]string{"ada", "system"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied, "root": codes.Denied},
	},
	"job.attach": {
		func(s *sim) world.Command { s.runStep(); return command.JobAttach{Job: 1, Step: 1} },
		[]string{"ada", "system"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied, "root": codes.Denied},
	},
	"job.ssh": {
		func(s *sim) world.Command {
			s.runStep()
			return command.JobSSH{Job: 1, Step: 1, For: command.SSHShell, Key: "SHA256:x"}
		},
		[]string{"ada", "system"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied, "root": codes.Denied},
	},
	"job.share": {
		func(s *sim) world.Command {
			s.giveApps()
			return command.JobShare{Job: 1, User: "stranger", Level: access.ShareView}
		},
		[]string{"ada", "system"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied, "root": codes.Denied},
	},
	"job.unshare": {
		func(s *sim) world.Command {
			s.giveApps()
			return command.JobUnshare{Job: 1, Account: "nlp"}
		},
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied, "viewer": codes.Denied}, // it is shared with the viewer
	},
	"app.enter": {
		func(s *sim) world.Command { s.giveApps(); return command.AppEnter{Job: 1} },
		[]string{"ada", "viewer", "manager", "owner", "system"}, codes.NotFound, nil, // who is a member of the account that it is shared with
	},
	"job.terminal": {
		func(s *sim) world.Command { s.runStep(); return command.JobTerminal{Job: 1, Step: 1, Name: "main"} },
		[]string{"ada", "system"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied, "root": codes.Denied},
	},
	"step.add": {
		func(s *sim) world.Command { s.runStep(); return command.StepAdd{Job: 1} },
		[]string{"ada", "system"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied, "root": codes.Denied},
	},
	"step.stop": {
		func(s *sim) world.Command { s.runStep(); return command.StepStop{Job: 1, N: 2} },
		[]string{"ada", "manager", "owner", "operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"auditor": codes.Denied},
	},
	"step.start": {
		func(s *sim) world.Command { s.runStep(); return command.StepStart{Job: 1, N: 2} },
		[]string{"system"}, codes.Denied, nil,
	},
	"step.observed": {
		func(s *sim) world.Command { s.runStep(); return command.StepObserved{Job: 1, N: 2, Attempt: 1} },
		[]string{"system"}, codes.Denied, nil,
	},
	"step.fail": {
		func(s *sim) world.Command { s.runStep(); return command.StepFail{Job: 1, N: 2} },
		[]string{"system"}, codes.Denied, nil,
	},
	"step.due": {
		func(s *sim) world.Command { s.runStep(); return command.StepDue{Job: 1, N: 2} },
		[]string{"system"}, codes.Denied, nil,
	},
	"account.create": {
		func(*sim) world.Command { return command.AccountPut{Create: true, Name: "new"} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"account.create below": {
		func(*sim) world.Command { return command.AccountPut{Create: true, Name: "new", Parent: "nlp"} },
		[]string{"manager", "owner", "root", "system"}, codes.Denied,
		map[string]codes.Code{"nobody": codes.Invalid, "stranger": codes.Invalid, "blocked": codes.Invalid},
	},
	"account.set closed": {
		func(*sim) world.Command { return command.AccountPut{Name: "nlp", Closed: yes()} },
		[]string{"manager", "owner", "root", "system"}, codes.Denied, hidden(),
	},
	"account.set billing": {
		func(*sim) world.Command { return command.AccountPut{Name: "nlp", Billing: text("off")} },
		[]string{"root", "system"}, codes.Denied, hidden(),
	},
	"account.set weight": {
		func(*sim) world.Command { return command.AccountPut{Name: "nlp", Weight: num(2)} },
		[]string{"root", "system"}, codes.Denied, hidden(),
	},
	"account.set weight below": {
		func(*sim) world.Command { return command.AccountPut{Name: "vision", Weight: num(2)} },
		[]string{"manager", "owner", "root", "system"}, codes.Denied, hidden(),
	},
	"account.set group": {
		func(*sim) world.Command { return command.AccountPut{Name: "nlp", Group: text("wheel")} },
		[]string{"root", "system"}, codes.Denied, hidden(),
	},
	"member.set": {
		func(*sim) world.Command { return command.MemberPut{Account: "nlp", User: "stranger", Role: "member"} },
		[]string{"manager", "owner", "root", "system"}, codes.Denied, hidden(),
	},
	"member.set weight": {
		func(*sim) world.Command { return command.MemberPut{Account: "nlp", User: "ada", Weight: num(2)} },
		[]string{"manager", "owner", "root", "system"}, codes.Denied, hidden(),
	},
	"member.set owner": {
		func(*sim) world.Command { return command.MemberPut{Account: "nlp", User: "stranger", Role: "owner"} },
		[]string{"owner", "root", "system"}, codes.Denied, hidden(),
	},
	"member.remove owner": {
		func(*sim) world.Command { return command.MemberPut{Account: "nlp", User: "owner"} },
		[]string{"owner", "root", "system"}, codes.Denied, hidden(),
	},
	"user.create": {
		func(*sim) world.Command { return command.UserPut{Create: true, Name: "new"} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"user.set": {
		func(*sim) world.Command { return command.UserPut{Name: "stranger", Role: text("admin")} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"account.set ends": {
		func(s *sim) world.Command { end := s.now + hour; return command.AccountPut{Name: "nlp", Ends: &end} },
		[]string{"manager", "owner", "root", "system"}, codes.Denied, hidden(),
	},
	"account.move": {
		func(*sim) world.Command { return command.AccountMove{Name: "empty", Under: "nlp"} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"account.remove": {
		func(*sim) world.Command { return command.AccountRemove{Name: "empty"} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"member.import": {
		func(*sim) world.Command { return command.MembersImport{Account: "nlp", Entries: entries("stranger")} },
		[]string{"manager", "owner", "root", "system"}, codes.Denied, hidden(),
	},
	"user.retire": {
		func(*sim) world.Command { return command.UserRetire{Name: "ada", Stop: true} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"token.create": {
		func(*sim) world.Command { return command.TokenPut{User: "ada", Name: "x", Hash: "h"} },
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"token.revoke": {
		func(*sim) world.Command { return command.TokenRevoke{User: "ada", Token: 1} },
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"password.set": {
		func(*sim) world.Command { return command.PasswordPut{User: "ada", Hash: "h", Was: "old"} },
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"registry.login": {
		func(*sim) world.Command {
			return command.RegistryLogin{User: "ada", Registry: "ghcr.io", Username: "ada-l", Sealed: "s"}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"folder.set": {
		func(*sim) world.Command { return command.FolderPut{Account: "nlp", Name: "data", Path: "/srv/nlp"} },
		[]string{"operator", "root", "system"}, codes.Denied, hidden(),
	},
	"folder.set everybody's": {
		func(*sim) world.Command { return command.FolderPut{Name: "data", Path: "/srv/all"} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"folder.remove": {
		func(s *sim) world.Command {
			s.w.Fold([]world.Change{asset.FolderSet{Row: asset.Folder{Name: "data"}}})
			return command.FolderRemove{Name: "data"}
		},
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"image.save": {
		func(s *sim) world.Command {
			s.runStep()
			return command.ImageSave{Job: 1, Step: 1, Name: "env:1"}
		},
		[]string{"ada", "system"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied, "root": codes.Denied},
	},
	"image.share": {
		func(s *sim) world.Command { return command.ImageShare{Ref: s.savedBy("ada")} },
		[]string{"ada", "root", "system"}, codes.NotFound, map[string]codes.Code{"operator": codes.Denied, "auditor": codes.Denied},
	},
	"image.remove": {
		func(s *sim) world.Command { return command.ImageRemove{Ref: s.savedBy("ada")} },
		[]string{"ada", "root", "system"}, codes.NotFound, map[string]codes.Code{"operator": codes.Denied, "auditor": codes.Denied},
	},
	"storage.limit of a home": {
		func(*sim) world.Command { return command.StorageLimit{User: "ada", Limit: 1 << 30} },
		[]string{"operator", "root", "system"}, codes.NotFound, map[string]codes.Code{"ada": codes.Denied, "auditor": codes.Denied},
	},
	"storage.limit": {
		func(s *sim) world.Command {
			nlp, _ := s.w.Tenancy.Account("nlp")
			s.w.Fold([]world.Change{asset.FolderSet{Row: asset.Folder{Account: nlp.ID, Name: "data", Path: "/srv/nlp"}}})
			return command.StorageLimit{Account: "nlp", Limit: 1 << 30}
		},
		[]string{"operator", "root", "system"}, codes.Denied, hidden(),
	},
	"template.set": {
		func(*sim) world.Command {
			return command.TemplatePut{Name: "board", Spec: v1.JobSpec{Image: "board:1"}}
		},
		[]string{"stranger", "viewer", "ada", "manager", "owner", "operator", "auditor", "root"}, codes.Denied, nil,
	},
	"template.remove": {
		func(s *sim) world.Command {
			ada, _ := s.w.Tenancy.User("ada")
			s.w.Fold([]world.Change{asset.TemplateSet{Row: asset.Template{User: ada.ID, Name: "board"}}})
			return command.TemplateRemove{User: "ada", Name: "board"}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, map[string]codes.Code{"operator": codes.Denied, "auditor": codes.Denied},
	},
	"image.saved": server(command.ImageSaved{Ref: "croft.local/ada/env:1"}),
	"image.fail":  server(command.ImageFail{Ref: "croft.local/ada/env:1"}),
	"contact.set": {
		func(*sim) world.Command { return command.ContactPut{User: "ada", Address: text("ada@example.org")} },
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"webhook.set": {
		func(s *sim) world.Command {
			s.hooking("bot.example.org")
			return command.HookPut{User: "ada", Name: "bot", Create: true, URL: text("https://bot.example.org/x"), Sealed: "sealed"}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"webhook.remove": {
		func(s *sim) world.Command {
			s.hooked("ada", notice.Hook{Name: "bot"})
			return command.HookRemove{User: "ada", Name: "bot"}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"webhook.off": server(command.HookOff{Name: "bot"}),
	"notice.test": {
		func(s *sim) world.Command {
			s.mailing()
			for k := range s.w.Tenancy.Users.All() {
				s.w.Fold([]world.Change{notice.ContactSet{Row: notice.Contact{User: k, Address: "someone@example.org"}}})
			}
			return command.NoticeTest{}
		},
		[]string{"stranger", "viewer", "ada", "manager", "owner", "operator", "auditor", "root"}, codes.Denied, nil,
	},
	"credit.warn": {
		func(s *sim) world.Command {
			nlp, _ := s.w.Tenancy.Account("nlp")
			s.w.Fold([]world.Change{notice.LevelSet{Row: notice.Level{Account: nlp.ID, Percent: 80}}})
			return command.CreditWarn{Account: nlp.ID}
		},
		[]string{"system"}, codes.Denied, nil,
	},
	"sshkey.add": {
		func(*sim) world.Command {
			return command.SSHKeyAdd{User: "ada", Fingerprint: "SHA256:x", Type: "ssh-ed25519", Blob: "AAAA", Name: "laptop"}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"sshkey.remove": {
		func(s *sim) world.Command {
			ada, _ := s.w.Tenancy.User("ada")
			s.w.Fold([]world.Change{tenancy.SSHKeySet{Row: tenancy.SSHKey{Fingerprint: "SHA256:x", User: ada.ID, Blob: "AAAA"}}})
			return command.SSHKeyRemove{User: "ada", Fingerprint: "SHA256:x"}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"volume.remove": {
		func(*sim) world.Command { return command.VolumeRemove{User: "ada", Volume: "cache"} },
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"registry.logout": {
		func(s *sim) world.Command {
			ada, _ := s.w.Tenancy.User("ada")
			s.w.Fold([]world.Change{tenancy.CredentialSet{Row: tenancy.Credential{User: ada.ID, Registry: "ghcr.io", Sealed: "s"}}})
			return command.RegistryLogout{User: "ada", Registry: "ghcr.io"}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"repository.private": server(command.RepositoryPrivate{Name: "ghcr.io/lab/train"}),
	"session.open": {
		func(*sim) world.Command {
			return command.SessionOpen{User: "ada", Hash: "s", Verified: "old", Expires: 1 << 62, Idle: hour}
		},
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"session.by_links": {
		func(*sim) world.Command { return command.SessionByLinks{User: "ada", Expires: 1 << 62} },
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"session.end": {
		func(*sim) world.Command { return command.SessionsEnd{User: "ada"} },
		[]string{"ada", "root", "system"}, codes.NotFound, nil,
	},
	"session.use": server(command.SessionUse{Session: 2}),
	"grant.give": {
		func(*sim) world.Command { return command.GrantGive{Account: "nlp", Amount: 1, Source: "x"} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"grant.transfer": {
		func(s *sim) world.Command {
			if _, err := s.do(s.user("root"), command.AccountPut{Create: true, Name: "open"}); err != nil {
				panic(err)
			}
			for _, u := range []string{"manager", "owner", "operator", "ada"} {
				s.must(nil, s.user("root"), command.MemberPut{Account: "open", User: u, Role: "viewer"})
			}
			return command.GrantTransfer{From: "nlp", To: "open", Amount: 1}
		},
		[]string{"manager", "owner", "root", "system"}, codes.NotFound,
		map[string]codes.Code{"viewer": codes.Denied, "ada": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied},
	},
	"request.create": {
		func(*sim) world.Command { return command.RequestMake{Wish: joinWish("vision", "manager")} },
		[]string{"stranger", "viewer", "ada", "operator", "auditor", "root"}, codes.Denied, map[string]codes.Code{"manager": codes.Conflict, "owner": codes.Conflict},
	},
	"request.approve": {
		func(s *sim) world.Command { return command.RequestApprove{Request: s.asked("stranger")} },
		[]string{"manager", "owner", "root", "system"}, codes.NotFound, map[string]codes.Code{"stranger": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied},
	},
	"request.reject": {
		func(s *sim) world.Command { return command.RequestReject{Request: s.asked("stranger")} },
		[]string{"manager", "owner", "root", "system"}, codes.NotFound, map[string]codes.Code{"stranger": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied},
	},
	"request.withdraw": {
		func(s *sim) world.Command { return command.RequestWithdraw{Request: s.asked("stranger")} },
		[]string{"stranger"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "root": codes.Denied, "system": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied},
	},
	"request.remind": {
		func(s *sim) world.Command {
			k := s.asked("stranger")
			s.now += 25 * hour
			return command.RequestRemind{Request: k}
		},
		[]string{"stranger"}, codes.NotFound,
		map[string]codes.Code{"manager": codes.Denied, "owner": codes.Denied, "root": codes.Denied, "system": codes.Denied, "operator": codes.Denied, "auditor": codes.Denied},
	},
	"request.expire": server(command.RequestExpire{Request: 1}),
	"allowance.set": {
		func(*sim) world.Command { return command.AllowancePut{Account: "nlp", Amount: 1, Per: limits.Month} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"allowance.remove": {
		func(s *sim) world.Command {
			nlp, _ := s.w.Tenancy.Account("nlp")
			s.w.Fold([]world.Change{allowance.Set{Row: allowance.Allowance{ID: 9, Account: nlp.ID, Name: "x"}}})
			return command.AllowanceRemove{Account: "nlp", Name: "x"}
		},
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"allowance.due": server(command.AllowanceDue{Allowance: 1}),
	"price.set": {
		func(*sim) world.Command { return command.PricePut{CPU: 1} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"period.close": {
		func(*sim) world.Command { return command.PeriodClose{From: 0, To: int64(24 * time.Hour)} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"limit.periods": server(command.PeriodsDue{}),
	"limit.set": {
		func(*sim) world.Command { return command.LimitPut{Account: "nlp", Resource: "gpu", Max: 9} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"limit.remove": {
		func(*sim) world.Command { return command.LimitPut{Remove: 1} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"share.set": {
		func(*sim) world.Command {
			return command.SharePut{Account: "nlp", Partition: "main", Resource: "cpu", Guaranteed: 1000}
		},
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"share.remove": {
		func(*sim) world.Command { return command.SharePut{Remove: 1} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"node.drain": {
		func(*sim) world.Command { return command.NodeDrain{Node: "gpu1", Reason: "fans"} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"node.label": {
		func(*sim) world.Command {
			return command.NodeLabel{Node: "gpu1", Set: map[string]string{"nvlink": ""}}
		},
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"maintenance.set": {
		func(s *sim) world.Command { return command.MaintenancePut{Node: "*", From: s.now, To: s.now + hour} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"maintenance.cancel": {
		func(*sim) world.Command { return command.MaintenancePut{Cancel: 1} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"reservation.create": {
		func(s *sim) world.Command { return s.class() },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"reservation.create at the cost of others": {
		func(s *sim) world.Command { c := s.class(); c.Payer = "empty"; return c },
		[]string{"root", "system"}, codes.Denied, map[string]codes.Code{"operator": codes.Invalid},
	},
	"reservation.cancel": {
		func(*sim) world.Command { return command.ReservationCancel{Name: "lab"} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"reservation.due": server(command.ReservationsDue{}),
	"partition.create": {
		func(*sim) world.Command { return command.PartitionPut{Create: true, Name: "new"} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"partition.set": {
		func(*sim) world.Command { return command.PartitionPut{Name: "live", Accounts: &[]string{"nlp"}} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"partition.remove": {
		func(*sim) world.Command { return command.PartitionRemove{Name: "live"} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"qos.create": {
		func(*sim) world.Command { return command.QoSPut{Create: true, Name: "new"} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"qos.set": {
		func(*sim) world.Command { return command.QoSPut{Name: "live", Refuse: yes()} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"qos.set factor": {
		func(*sim) world.Command { return command.QoSPut{Name: "live", Factor: new(int64)} },
		[]string{"root", "system"}, codes.Denied, nil,
	},
	"qos.remove": {
		func(*sim) world.Command { return command.QoSRemove{Name: "live"} },
		[]string{"operator", "root", "system"}, codes.Denied, nil,
	},
	"job.preempt":   server(command.JobPreempt{Job: 1, For: 1}),
	"job.start":     server(command.JobStart{Job: 1}),
	"job.observed":  server(command.JobObserved{Job: 1}),
	"job.withdraw":  server(command.JobWithdraw{Job: 1}),
	"job.fail":      server(command.JobFail{Job: 1}),
	"job.due":       server(command.JobDue{Job: 1}),
	"meter.post":    server(command.Meter{}),
	"meter.tiles":   server(command.TilesDue{}),
	"plan.promises": server(command.PromisesMade{Promises: []command.Promised{{Job: 1, At: 5}}}),
	"node.contact":  server(command.Contact{Lost: true}),
	"node.observed": server(command.InventoryObserved{}),
	"site.set":      server(command.SitePut{}),
	"grant.expire":  server(command.GrantExpire{Grant: 1}),
}

type row = struct {
	cmd     func(s *sim) world.Command
	allowed []string
	denied  codes.Code
	except  map[string]codes.Code
}

// server is a row of what only the server itself may do.
func server(cmd world.Command) row {
	return row{func(*sim) world.Command { return cmd }, []string{"system"}, codes.Denied, nil}
}

// hidden answers those who may not see the account that there is none.
func hidden() map[string]codes.Code {
	return map[string]codes.Code{"nobody": codes.NotFound, "stranger": codes.NotFound, "blocked": codes.NotFound}
}

func yes() *bool { v := true; return &v }

// crowd is a machine with all callers on it, a job and a token of ada's, a limit
// and a maintenance window.
func crowd(t *testing.T) *sim {
	s := newSim(t)
	root := s.user("root")
	for name, role := range map[string]string{"stranger": "", "viewer": "viewer", "manager": "manager", "owner": "owner", "operator": "", "auditor": "", "blocked": "owner"} {
		cmd := command.UserPut{Create: true, Name: name}
		if name == "operator" || name == "auditor" {
			cmd.Role = text(name)
		}
		s.must(t, root, cmd)
		if role != "" {
			s.must(t, root, command.MemberPut{Account: "nlp", User: name, Role: role})
		}
	}
	s.must(t, root, command.UserPut{Name: "blocked", Role: text("admin"), Blocked: yes()})
	s.must(t, root, command.AccountPut{Create: true, Name: "empty"})
	s.must(t, s.user("ada"), command.Submit{Spec: example()})
	s.must(t, s.user("ada"), command.TokenPut{User: "ada", Name: "laptop", Hash: "hash"})
	s.must(t, s.user("ada"), command.PasswordPut{User: "ada", Hash: "old"})
	s.must(t, s.user("ada"), command.SessionOpen{User: "ada", Hash: "session", Verified: "old", Expires: s.now + 100*hour, Idle: hour})
	s.must(t, root, command.LimitPut{Account: "nlp", Resource: "cpu", Max: 1_000_000})
	s.share(t, "nlp", 1)
	s.must(t, root, command.PartitionPut{Create: true, Name: "live"})
	s.must(t, root, command.QoSPut{Create: true, Name: "live"})
	lab := s.class()
	lab.Name, lab.From, lab.To = "lab", s.now+200*hour, s.now+201*hour
	s.must(t, root, lab)
	s.must(t, root, command.MaintenancePut{Node: "gpu1", From: s.now + 100*hour, To: s.now + 101*hour})
	return s
}

// runs1 has job 1 run as the server has it run.
func (s *sim) runs1() {
	s.must(nil, system, command.JobStart{Job: 1})
	s.must(nil, system, command.JobObserved{Job: 1, N: 1, Running: true, Started: s.now})
}

// held makes job 1 held, and is the command that releases it.
func (s *sim) held(h workload.Hold) world.Command {
	j, _ := s.w.Workload.Jobs.Get(1)
	next := *j
	next.State, next.Hold = workload.Held, h
	s.w.Fold([]world.Change{workload.JobSet{Row: &next}})
	return command.JobRelease{Job: 1}
}

func (s *sim) caller(name string) access.Principal {
	switch name {
	case "nobody":
		return access.Principal{}
	case "system":
		return system
	}
	return s.user(name)
}

// Every command × everybody: who may, and what the others are answered. Who may
// not changes nothing.
func TestWhoMayDoWhat(t *testing.T) {
	for name, tt := range may {
		t.Run(name, func(t *testing.T) {
			base := crowd(t)
			for _, caller := range who {
				s := &sim{w: base.w.Copy(), now: base.now}
				cmd := tt.cmd(s)
				was := s.w
				_, err := s.do(s.caller(caller), cmd)
				if slices.Contains(tt.allowed, caller) {
					if err != nil {
						t.Errorf("%s may, but: %v", caller, err)
					}
					continue
				}
				want := tt.denied
				if c, ok := tt.except[caller]; ok {
					want = c
				}
				if err == nil || fault.Of(err) != want {
					t.Errorf("%s is answered %v (%s), want %s", caller, err, fault.Of(err), want)
				}
				if s.w != was {
					t.Errorf("%s changed something", caller)
				}
			}
		})
	}
}

// A user has a hundred tokens, of which the crowd has given ada one, and no more; those
// that are over do not count.
func TestTokensAreBounded(t *testing.T) {
	s := crowd(t)
	ada := s.user("ada")
	for i := range 150 {
		end := int64(0)
		if i%3 == 0 {
			end = s.now + hour
		}
		if _, err := s.do(ada, command.TokenPut{User: "ada", Name: "x", Hash: fmt.Sprint("h", i), Expires: end}); (err == nil) != (i < 99) || err != nil && fault.Of(err) != codes.Conflict {
			t.Fatalf("token %d: %v", i, err)
		}
	}
	s.now += 2 * hour
	if _, err := s.do(ada, command.TokenPut{User: "ada", Name: "x", Hash: "later"}); err != nil {
		t.Errorf("when some are over: %v", err)
	}
}

// The table has every command that this package's sources declare.
func TestTheTableIsWhole(t *testing.T) {
	asked := map[string]bool{}
	s := crowd(t)
	for _, tt := range may {
		asked[reflect.TypeOf(tt.cmd(s)).Name()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "Kind" || fn.Recv == nil {
				continue
			}
			found++
			if of, ok := fn.Recv.List[0].Type.(*ast.Ident); !ok || !asked[of.Name] {
				t.Errorf("%s: nobody looks at who may do what %v says", name, fn.Recv.List[0].Type)
			}
		}
	}
	if found != len(asked) {
		t.Errorf("%d commands are declared, the table has %d", found, len(asked))
	}
}

// TestVisitors are noted by the server alone, where whoever comes is let in.
func TestVisitors(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("ada"), command.Submit{Spec: example()})
	s.giveApps()
	note := command.AppEnter{Job: 1, Visitor: "192.0.2.7"}
	if _, err := s.do(s.user("ada"), note); fault.Of(err) != codes.Denied {
		t.Errorf("a user says it: %v", err)
	}
	if _, err := s.do(system, note); fault.Of(err) != codes.NotFound {
		t.Errorf("it isn't shared with everybody: %v", err)
	}
	site := s.w.Site
	site.Apps.Public = true
	next := *s.job(t, 1)
	next.Shared = []workload.Shared{{Level: access.ShareView}}
	s.w.Fold([]world.Change{workload.JobSet{Row: &next}, world.SiteSet{Row: site}})
	out, err := note.Decide(s.w, s.context(system))
	if err != nil || out.Event.Message != "application web opened by a visitor from 192.0.2.7" || len(out.Changes) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}
