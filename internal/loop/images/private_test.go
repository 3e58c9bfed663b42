package images_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/images"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/tenancy"
)

const secretImage = "hub.lab/team/secret:1"

// inPrivate runs f with a registry that wants a password for one of its images, and ben
// besides ada.
func inPrivate(t *testing.T, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		fleet, err := sim.NewFleet(sim.Config{
			Clock: clock.System{}, Instance: looptest.Instance, Nodes: []engine.Node{{Name: "gpu1", CPU: 64_000, Memory: 512 << 30, Ready: true}},
			Images: []sim.Image{{Ref: secretImage, Size: 1000, Password: "good"}, {Ref: "hub.lab/team/public:1", Size: 1000}},
		})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, fleet: fleet}
		b.engine = &counting{Engine: fleet.Connect(), collected: map[string]bool{}}
		b.port = looptest.New(t, fleet)
		b.port.Do(t, command.UserPut{Create: true, Name: "ben"})
		b.port.Do(t, command.MemberPut{Account: "nlp", User: "ben", Role: "member"})
		b.store = images.New(images.Config{
			Engine: b.engine, Port: b.port, Parallel: 2, Retry: 10 * time.Second, Patience: time.Hour, Trust: 10 * time.Minute, Log: looptest.Log(),
			Open: func(c tenancy.Credential) (string, error) {
				text, ok := strings.CutPrefix(c.Sealed, "sealed ")
				if !ok {
					return "", errors.New("sealed with another key")
				}
				return text, nil
			},
		})
		f(b)
	})
}

// login keeps a user's password at the registry.
func (b *bench) login(user, sealed string) {
	b.Helper()
	b.port.Do(b.T, command.RegistryLogin{User: user, Registry: "hub.lab", Username: user, Sealed: sealed})
}

// waitAs submits a job of a user, asks for its image and lets the pull be over.
func (b *bench) waitAs(user, ref, pull string) id.Job {
	b.Helper()
	spec := looptest.Spec()
	spec.GPU = 0
	spec.Image, spec.Pull = ref, pull
	u, _ := b.port.World().Tenancy.User(user)
	got, err := b.port.As(b.port.World().Principal(u.ID, 0, time.Now().UnixNano()), command.Submit{Spec: spec})
	if err != nil {
		b.Fatalf("submit: %v", err)
	}
	k := got.(admission.Accepted).Job.ID
	b.have(k)
	pass(time.Second)
	return k
}

// outcome is "have" for a job whose image is there, or what ended it.
func (b *bench) outcome(k id.Job) string {
	b.Helper()
	j := b.port.Job(k)
	if j.Ended != 0 {
		return j.Message
	}
	if b.have(k) {
		return "have"
	}
	return "waits"
}

func (b *bench) want(k id.Job, want string) {
	b.Helper()
	if got := b.outcome(k); !strings.Contains(got, want) {
		b.Errorf("job %d: %q, want %q", k, got, want)
	}
}

// What was pulled with somebody's credentials isn't everybody's only because it is on the
// machine: each user is asked for at the registry.
func TestPrivateImage(t *testing.T) {
	inPrivate(t, func(b *bench) {
		b.want(b.waitAs("ben", secretImage, "missing"), "croft registry login hub.lab")
		b.login("ada", "sealed good")
		b.want(b.waitAs("ada", secretImage, "missing"), "have")
		if !b.port.World().Catalog.Private("hub.lab/team/secret") {
			t.Error("that it's private isn't noted")
		}
		b.want(b.waitAs("ben", secretImage, "missing"), "croft registry login hub.lab")
		b.want(b.waitAs("ben", secretImage, "always"), "croft registry login hub.lab")
		b.want(b.waitAs("ben", secretImage, "never"), "can't be asked whether you may have it")
		b.login("ben", "sealed bad")
		b.want(b.waitAs("ben", secretImage, "missing"), "access denied")
		b.login("ben", "sealed good")
		b.want(b.waitAs("ben", secretImage, "missing"), "have")
		b.want(b.waitAs("ada", secretImage, "missing"), "have")
	})
}

// An image that was saved from a job is for whom the world says, and is never pulled.
func TestLocalImage(t *testing.T) {
	inPrivate(t, func(b *bench) {
		const ref = "croft.local/ada/env:1"
		ada, _ := b.port.World().Tenancy.User("ada")
		nlp, _ := b.port.World().Tenancy.Account("nlp")
		k := b.waitAs("ben", "hub.lab/team/public:1", "missing")
		put := func(account id.Account) {
			b.port.World().Assets.Fold(asset.ImageSet{Row: asset.Image{Ref: ref, User: ada.ID, Account: account, State: asset.Ready}})
		}
		put(nlp.ID)
		b.want(b.waitAs("ada", ref, "always"), "it isn't on the machine any more")
		b.port.Do(b.T, command.JobStart{Job: k, Image: "sha256:0"})
		if err := b.engine.Start(b.Context(), engine.Allocation{Attempt: "a-1-1", Node: "gpu1", Instance: looptest.Instance, Container: engine.Container{Image: "hub.lab/team/public:1"}}); err != nil {
			b.Fatal(err)
		}
		if _, err := b.engine.SaveImage(b.Context(), engine.AttemptID("a-1-1").Primary(), engine.SaveRequest{Ref: ref}, nil); err != nil {
			b.Fatal(err)
		}
		pulls := len(b.engine.pulls)
		mine, his := b.waitAs("ada", ref, "always"), b.waitAs("ben", ref, "missing")
		b.want(mine, "have")
		b.want(his, "have")
		put(0)
		<-time.After(11 * time.Minute)
		b.have(his)
		b.have(mine)
		pass(time.Second)
		b.want(his, "no such image")
		b.want(mine, "have")
		if len(b.engine.pulls) != pulls {
			t.Errorf("pulled %v", b.engine.pulls[pulls:])
		}
	})
}

// Whom a registry has let have an image is asked for again after a while.
func TestTrustEnds(t *testing.T) {
	inPrivate(t, func(b *bench) {
		b.login("ada", "sealed good")
		k := b.waitAs("ada", secretImage, "missing")
		b.want(k, "have")
		b.login("ada", "sealed withdrawn")
		pulls := len(b.engine.pulls)
		b.want(b.waitAs("ada", secretImage, "missing"), "have")
		if len(b.engine.pulls) != pulls {
			t.Errorf("asked again at once: %v", b.engine.pulls)
		}
		pass(11 * time.Minute)
		b.have(k)
		pass(time.Second)
		b.want(k, "access denied")
	})
}

// A public image is pulled without credentials, and asks nobody for any.
func TestPublicImageStaysPublic(t *testing.T) {
	inPrivate(t, func(b *bench) {
		b.login("ada", "sealed good")
		b.want(b.waitAs("ada", "hub.lab/team/public:1", "missing"), "have")
		b.want(b.waitAs("ben", "hub.lab/team/public:1", "never"), "have")
		if diff := cmp.Diff([]string{"hub.lab/team/public:1"}, b.engine.pulls); diff != "" || b.port.World().Catalog.Repositories.Len() != 0 {
			t.Errorf("pulls (-want +got)\n%s", diff)
		}
	})
}

// A password that can't be read any more, as after a restore without its key, is said to
// be so; and nothing is pulled when it can't be noted that it is private.
func TestUnreadablePassword(t *testing.T) {
	inPrivate(t, func(b *bench) {
		b.login("ada", "by another key")
		b.want(b.waitAs("ada", secretImage, "missing"), "can't be read any more: croft registry login hub.lab")
		b.login("ada", "sealed good")
		b.port.Fail("repository.private", errors.New("the database is away"))
		k := b.waitAs("ada", secretImage, "missing")
		b.want(k, "waits")
		if _, there, err := b.engine.Image(t.Context(), secretImage); there || err != nil {
			t.Errorf("it came before it was noted: %v", err)
		}
		b.port.Fail("repository.private", nil)
		pass(11 * time.Second)
		b.have(k)
		pass(time.Second)
		b.want(k, "have")
	})
}
