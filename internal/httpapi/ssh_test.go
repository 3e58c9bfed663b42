package httpapi

import (
	"context"
	"io"
	"net"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
)

// fakeSSH says to everybody who may enter where he is, and repeats what he says.
type fakeSSH struct{ h *harness }

func (fakeSSH) Gate() v1.SSHGate {
	return v1.SSHGate{Listens: true, Port: 2222, Alias: "croft-0a1b2c3d", HostKeys: []string{"ssh-ed25519 AAAA"}}
}

func (f fakeSSH) Enter(ctx context.Context, p access.Principal, name string) (func(net.Conn), error) {
	j, err := f.h.reader.Find(ctx, p, name, access.JobEnter)
	if err != nil {
		return nil, err
	}
	if j.State != "running" {
		return nil, fault.New(codes.Conflict, "job %s isn't running: it is %s", name, j.State)
	}
	return func(nc net.Conn) {
		_, _ = io.WriteString(nc, p.Name+" in "+j.Name()+"\n")
		_, _ = io.Copy(nc, nc)
	}, nil
}

// What is said over the WebSocket goes through as it is, to whoever may enter.
func TestSSHOverTheAPI(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	if _, err := h.client("ada").SSH(t.Context(), job); v1.CodeOf(err) != codes.Conflict {
		t.Errorf("a job that waits: %v", err)
	}
	h.start(job)
	if _, err := h.client("zoe").SSH(t.Context(), job); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("a stranger: %v", err)
	}
	if got := h.send(request{method: "GET", path: "/v1/jobs/" + job + "/ssh", user: "ada"}); got.status != 422 {
		t.Errorf("without a WebSocket: %d %s", got.status, got.body)
	}
	nc, err := h.client("ada").SSH(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	want := "ada in " + job + "\n\x00\xff"
	if _, err := nc.Write([]byte("\x00\xff")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(nc, got); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if gate, err := h.client("zoe").SSHGate(t.Context()); err != nil || gate.Port != 2222 {
		t.Errorf("got %+v, %v", gate, err)
	}
}
