package kube

//lint:file-ignore SA1019 client-go's connections are of these types

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	streams "k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/tools/portforward"

	"croft.dev/croft/internal/engine"
)

// Where something on the way knows no WebSockets, a port is reached all the same.
func TestDialWithoutWebSockets(t *testing.T) {
	var p *corev1.Pod
	gone := make(chan bool)
	e := stubbed(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/portforward"):
			answer(t, w, p)
		case r.Method != http.MethodPost:
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
		default:
			echo(t, w, r)
			close(gone)
		}
	})
	a := job(e, 1, "true")
	p = attemptPod(t, e, a, runningState())
	conn, err := e.Dial(t.Context(), a.Attempt.Primary(), 80)
	must(t, err)
	_, err = io.WriteString(conn, "hello")
	must(t, err)
	text := make([]byte, len("hello"))
	if _, err := io.ReadFull(conn, text); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	must(t, conn.Close())
	select {
	case <-gone: // the program goes on, and the connection goes all the same
	case <-time.After(2 * lingering):
		t.Error("the connection stays")
	}
}

// echo gives back what a port is sent, and doesn't end its side.
func echo(t *testing.T, w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		t.Error(err)
		return
	}
	c := streams.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
			go func() { _, _ = io.Copy(s, s) }() // until the connection ends
		}
		return nil
	})
	if c != nil {
		<-c.CloseChan()
	}
}

// Whoever doesn't wait for a connection any more leaves none behind.
func TestDialIsGivenUp(t *testing.T) {
	var p *corev1.Pod
	asked, gone := make(chan bool), make(chan bool)
	e := stubbed(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/portforward") {
			answer(t, w, p)
			return
		}
		close(asked)
		<-r.Context().Done()
		close(gone)
	})
	a := job(e, 1, "true")
	p = attemptPod(t, e, a, runningState())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := e.Dial(ctx, a.Attempt.Primary(), 80)
	if err == nil || conn != nil {
		t.Errorf("%v, %v", conn, err)
	}
	<-asked
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the connection stays")
	}
}

// A connection that the far side has ended takes deadlines, as one of TCP does, and says at the
// first Read why it ended.
func TestDeadlinesOfWhatHasEnded(t *testing.T) {
	near, far := net.Pipe()
	f := &forwarded{Conn: near, port: 80}
	f.fail(&engine.DialError{Port: 80, Message: engine.NothingListens})
	far.Close()
	soon := time.Now().Add(time.Minute)
	for name, set := range map[string]func(time.Time) error{"both": f.SetDeadline, "read": f.SetReadDeadline, "write": f.SetWriteDeadline} {
		if err := set(soon); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var not *engine.DialError
	if _, err := f.Read(make([]byte, 1)); !errors.As(err, &not) {
		t.Errorf("Read: %v, want a DialError", err)
	}
}
