package sshgate

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/sshkey"
	"croft.dev/croft/internal/workload"
)

// What a name leads to, and what whoever has a key is told where it leads nowhere.
func TestNames(t *testing.T) {
	h := newHarness(t)
	h.register("mia", 2)
	train := h.run("ada", "train")
	waiting := h.submit("ada", "later")
	dotted := h.run("ada", "v1.2")
	first, second := h.run("ada", "twin"), h.run("ada", "twin")
	theirs := h.run("mia", "secret")
	again := h.run("ada", "again")
	h.end(h.run("ada", "again")) // the one that runs is meant
	h.as("ada", command.StepAdd{Job: train, Spec: workload.StepSpec{Command: []string{"sh"}}})
	var asked engine.StepID
	h.engine.set(func(_ context.Context, step engine.StepID, _ engine.ExecRequest) (int, error) {
		asked = step
		return 0, nil
	})
	attempt := func(k id.Job) engine.AttemptID { return engine.AttemptID(fmt.Sprintf("0a1b2c3d-%d-1", k)) }
	for name, tt := range map[string]struct {
		want   engine.StepID // what is entered
		banner string        // or why nothing is
	}{
		"train":                     {engine.StepID{Attempt: attempt(train), N: 1}, ""},
		train.Name():                {engine.StepID{Attempt: attempt(train), N: 1}, ""},
		train.Name() + ".1":         {engine.StepID{Attempt: attempt(train), N: 1}, ""},
		"v1.2":                      {engine.StepID{Attempt: attempt(dotted), N: 1}, ""},
		"v1.2.1":                    {engine.StepID{Attempt: attempt(dotted), N: 1}, ""},
		"again":                     {engine.StepID{Attempt: attempt(again), N: 1}, ""},
		train.Name() + ".2":         {engine.StepID{}, "isn't running"},
		train.Name() + ".9":         {engine.StepID{}, "no such step"},
		"twin":                      {engine.StepID{}, fmt.Sprintf("2 jobs of yours that run are called twin: give the number of one, %d %d", second, first)},
		"later":                     {engine.StepID{}, "isn't running: it is queued"},
		waiting.Name():              {engine.StepID{}, "isn't running: it is queued"},
		"999":                       {engine.StepID{}, "no such job"},
		"secret":                    {engine.StepID{}, "no job of yours that lives is called secret"},
		theirs.Name():               {engine.StepID{}, "no such job: " + theirs.Name()},
		"root":                      {engine.StepID{}, "no job of yours"},
		"../../etc/passwd":          {engine.StepID{}, "no job of yours"},
		"a b":                       {engine.StepID{}, "say which job"},
		"":                          {engine.StepID{}, "say which job"},
		strings.Repeat("x", 100000): {engine.StepID{}, "say which job"},
	} {
		asked = engine.StepID{}
		c, banner, err := h.dial(name, 1)
		if tt.banner != "" {
			if err == nil || !strings.Contains(banner, tt.banner) || strings.Contains(banner, "mia") {
				t.Errorf("%.20q: %v, %q; want %q", name, err, banner, tt.banner)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v (%s)", name, err, banner)
			continue
		}
		if err := h.session(c).Run("id"); err != nil || asked != tt.want {
			t.Errorf("%q: entered %v, %v; want %v", name, asked, err, tt.want)
		}
		c.Close()
	}
}

// A stranger learns nothing, whichever name he gives.
func TestStrangers(t *testing.T) {
	h := newHarness(t)
	h.register("mia", 2)
	job := h.run("ada", "train")
	for _, name := range []string{"train", job.Name(), "999", "root", ""} {
		if _, banner, err := h.dial(name, 9); err == nil || banner != "" || !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("%s: %v, %q", name, err, banner)
		}
		for method, auth := range map[string]ssh.AuthMethod{
			"password": ssh.Password("x"), "keyboard": ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) { return []string{"x"}, nil }),
		} {
			c, err := ssh.Dial("tcp", h.addr, &ssh.ClientConfig{User: name, Auth: []ssh.AuthMethod{auth}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
			if err == nil {
				c.Close()
				t.Errorf("%s gets in by %s", name, method)
			}
		}
		if c, err := ssh.Dial("tcp", h.addr, &ssh.ClientConfig{User: name, HostKeyCallback: ssh.InsecureIgnoreHostKey()}); err == nil {
			c.Close()
			t.Errorf("%s gets in by nothing", name)
		}
	}
	if _, _, err := h.dial("train", 2); err == nil {
		t.Error("mia gets into ada's job")
	}
	// Somebody who shows ada's key without its private half.
	borrowed := struct{ ssh.Signer }{signer(9)}
	lie := &liar{borrowed, signer(1).PublicKey()}
	if c, err := ssh.Dial("tcp", h.addr, &ssh.ClientConfig{User: "train", Auth: []ssh.AuthMethod{ssh.PublicKeys(lie)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()}); err == nil {
		c.Close()
		t.Error("a key counts that isn't proven")
	}
	h.as("ada", command.SSHKeyRemove{User: "ada", Fingerprint: ssh.FingerprintSHA256(signer(1).PublicKey())})
	if _, banner, err := h.dial("train", 1); err == nil || banner != "" {
		t.Errorf("by a key that was removed: %v, %q", err, banner)
	}
}

// liar signs with another key than it shows.
type liar struct {
	ssh.Signer
	shows ssh.PublicKey
}

func (l *liar) PublicKey() ssh.PublicKey { return l.shows }

// What is open ends with the right that it is open by, at once.
func TestNothingOutlivesItsRight(t *testing.T) {
	for name, tt := range map[string]struct {
		withdraw func(h *harness, k id.Job)
		says     string
	}{
		"the key": {func(h *harness, _ id.Job) {
			h.as("ada", command.SSHKeyRemove{User: "ada", Fingerprint: ssh.FingerprintSHA256(signer(1).PublicKey())})
		}, "you may no longer"},
		"the key's end": {func(h *harness, k id.Job) {
			print, err := sshkey.Parse(string(ssh.MarshalAuthorizedKey(signer(1).PublicKey())))
			if err != nil {
				h.Fatal(err)
			}
			h.as("ada", command.SSHKeyAdd{User: "ada", Fingerprint: print.Fingerprint, Type: print.Type, Blob: print.Blob, Name: "x", Expires: h.now.Load() + hour})
			h.now.Add(2 * hour)
			h.system(command.UserPut{Create: true, Name: "zoe"}) // a publication: the clock moved by hand
		}, "you may no longer"},
		"the user": {func(h *harness, _ id.Job) {
			blocked := true
			h.system(command.UserPut{Name: "ada", Blocked: &blocked})
		}, "you may no longer"},
		"the job":    {func(h *harness, k id.Job) { h.end(k) }, "has ended"},
		"the server": {func(h *harness, _ id.Job) { h.gate.close() }, "the server stops"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			k := h.run("ada", "train")
			begun := make(chan struct{})
			h.engine.set(func(ctx context.Context, _ engine.StepID, req engine.ExecRequest) (int, error) {
				close(begun)
				<-ctx.Done()
				if _, err := req.Stdout.Write([]byte("late")); err == nil {
					t.Error("something is said after the end")
				}
				return 0, ctx.Err()
			})
			c := h.login("train", 1)
			s := h.session(c)
			var stdout, stderr bytes.Buffer
			s.Stdout, s.Stderr = &stdout, &stderr
			if err := s.Start("sleep 1000"); err != nil {
				t.Fatal(err)
			}
			<-begun
			tt.withdraw(h, k)
			if err := s.Wait(); ran(err) != 255 || stdout.Len() > 0 || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("%v, %q, %q; want %q", err, stdout.String(), stderr.String(), tt.says)
			}
			gone := make(chan error, 1)
			go func() { gone <- c.Wait() }()
			select {
			case <-gone:
			case <-time.After(20 * time.Second):
				t.Error("the connection stays")
			}
		})
	}
}

// The server's keys stay what they are over its restart, and nobody else may read them.
func TestHostKeys(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	was := h.gate.HostKeys
	h.login("train", 1).Close()
	h.gate.Close()
	h.open()
	if len(was) != 2 || len(h.gate.HostKeys) != 2 {
		t.Fatalf("%d and %d keys", len(was), len(h.gate.HostKeys))
	}
	for i, k := range was {
		if !bytes.Equal(k.PublicKey().Marshal(), h.gate.HostKeys[i].PublicKey().Marshal()) {
			t.Errorf("%s is another", k.PublicKey().Type())
		}
	}
	h.login("train", 1)
}

// A flood of connections, of channels and of nonsense leaves the others alone.
func TestFloods(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	h.engine.set(func(ctx context.Context, _ engine.StepID, req engine.ExecRequest) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	c := h.login("train", 1)
	opened := 0
	for range maxChannels + 10 {
		if _, _, err := c.OpenChannel("session", nil); err == nil {
			opened++
		} else if !strings.Contains(err.Error(), "too much goes on") {
			t.Fatal(err)
		}
	}
	if opened != maxChannels {
		t.Errorf("%d channels are open", opened)
	}
	for range 1000 {
		if _, _, err := c.SendRequest("nonsense", false, bytes.Repeat([]byte{1}, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	var silent []net.Conn
	for range handshakesByHost {
		nc, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		silent = append(silent, nc)
	}
	h.eventually("the strangers to be counted", func() bool { return !h.gate.arriving.take("127.0.0.1") || h.untake("127.0.0.1") })
	if _, _, err := h.dial("train", 1); err == nil {
		t.Error("one more gets in")
	}
	for _, nc := range silent {
		nc.Close()
	}
	h.engine.set(nil)
	h.eventually("the strangers to have gone", func() bool {
		c, _, err := h.dial("train", 1)
		if err != nil {
			return false
		}
		defer c.Close()
		return h.session(c).Run("true") == nil
	})
	nc, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = nc.Write(append([]byte("SSH-2.0-x\r\n"), bytes.Repeat([]byte{0xff}, 1<<20)...))
	h.login("train", 1)
}

// untake gives back what was taken by way of a look.
func (h *harness) untake(from string) bool {
	h.gate.arriving.release(from)
	return false
}

func TestConnectionsOfAUser(t *testing.T) {
	h := newHarness(t)
	h.run("ada", "train")
	h.gate.inside.each = 2
	a, _ := h.login("train", 1), h.login("train", 1)
	if err := h.session(a).Run("true"); err != nil {
		t.Fatal(err)
	}
	h.eventually("one too many to be turned away", func() bool {
		c, _, err := h.dial("train", 1)
		if err != nil {
			return true
		}
		defer c.Close()
		_, err = c.NewSession()
		return err != nil
	})
	a.Close()
	h.eventually("room", func() bool {
		c, _, err := h.dial("train", 1)
		if err != nil {
			return false
		}
		defer c.Close()
		s, err := c.NewSession()
		return err == nil && s.Run("true") == nil
	})
}
