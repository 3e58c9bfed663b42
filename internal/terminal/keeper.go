package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Start is how a keeper gets a shell for a terminal; the error is a *Refused where it can
// be told to whoever joins.
type Start func(name, term string, size Size) (Program, error)

// Keeper has the terminals of a step. The zero value isn't one: see NewKeeper.
type Keeper struct {
	start Start

	mu    sync.Mutex
	terms map[string]*held
	conns int       // connections that are being served
	idle  time.Time // since when there are neither these nor shells; zero: there are some
}

// NewKeeper returns a keeper without terminals.
func NewKeeper(start Start) *Keeper {
	return &Keeper{start: start, terms: map[string]*held{}, idle: time.Now()}
}

// Idle says for how long there has been neither a connection nor a shell; 0: there is one.
func (k *Keeper) Idle() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.terms {
		if h.running() {
			k.idle = time.Time{}
			return 0
		}
	}
	if k.conns > 0 {
		return 0
	}
	if k.idle.IsZero() {
		k.idle = time.Now()
	}
	return time.Since(k.idle)
}

// HangUp ends what runs in all terminals.
func (k *Keeper) HangUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.terms {
		h.program.HangUp()
	}
}

// Serve answers one who has connected, and closes the connection.
func (k *Keeper) Serve(conn io.ReadWriteCloser) {
	defer conn.Close()
	full := k.begin()
	if full == nil {
		defer k.done()
	}
	if _, err := io.WriteString(conn, Greeting); err != nil {
		return
	}
	if full != nil {
		refuse(conn, full)
		return
	}
	kind, data, err := ReadOne(conn)
	if err != nil {
		return
	}
	var ask Hello
	if kind != HelloAs || json.Unmarshal(data, &ask) != nil {
		refuse(conn, &Refused{Unclear, "say what you want first"})
		return
	}
	if err := ask.check(); err != nil {
		refuse(conn, err)
		return
	}
	switch ask.Ask {
	case ToJoin:
		k.join(conn, ask)
	case ToList:
		_ = WriteJSON(conn, Listing, k.list()) // whoever asked may have gone
	case ToEnd:
		k.end(conn, ask.Name)
	}
}

func (k *Keeper) begin() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conns >= MaxJoins {
		return &Refused{TooMany, fmt.Sprintf("there are %d connections with the terminals of this step already", MaxJoins)}
	}
	k.conns++
	k.idle = time.Time{}
	return nil
}

func (k *Keeper) done() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns--
	k.idle = time.Time{} // it is looked at again whether something runs
}

// refuse says why there is nothing.
func refuse(w io.Writer, err error) {
	r := new(Refused)
	if !errors.As(err, &r) {
		r = &Refused{Unusable, "no terminal could be opened: " + err.Error()}
	}
	_ = WriteJSON(w, RefusedFor, r) // whoever asked may have gone
}

// join serves one who joins a terminal until he goes or it ends.
func (k *Keeper) join(conn io.ReadWriteCloser, ask Hello) {
	h, fresh, err := k.find(ask)
	if err != nil {
		refuse(conn, err)
		return
	}
	j := &join{conn: conn, fresh: fresh}
	h.enter(j, ask)
	received := make(chan struct{})
	go func() {
		defer close(received)
		h.receive(j)
		h.leave(j)
	}()
	if h.send(j) == nil { // there is no more to hear
		conn.Close()
	}
	<-received // also from one who doesn't listen any more: what he has typed before counts
}

// find is the terminal to join; it is made if there is none and no certain one is meant.
func (k *Keeper) find(ask Hello) (h *held, fresh bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h = k.terms[ask.Name]
	if ask.ID != "" {
		if h == nil || h.id != ask.ID {
			return nil, false, &Refused{Missing, fmt.Sprintf("the terminal %s that you were in has ended", ask.Name)}
		}
		return h, false, nil
	}
	if h != nil && h.running() {
		return h, false, nil
	}
	if ask.View {
		return nil, false, &Refused{Missing, fmt.Sprintf("there is no terminal %s", ask.Name)}
	}
	if err := k.room(ask.Name); err != nil {
		return nil, false, err
	}
	size := ask.Size
	if size.Cols == 0 || size.Rows == 0 {
		size = Size{80, 24}
	}
	p, err := k.start(ask.Name, ask.Term, size)
	if err != nil {
		return nil, false, err
	}
	h = newHeld(ask.Name, fmt.Sprintf("%016x", rand.Uint64()), time.Now(), size, p)
	k.terms[ask.Name] = h
	go h.pump()
	return h, true, nil
}

// room makes room for a terminal: those that have ended go first, the longest ended before.
func (k *Keeper) room(name string) error {
	if _, ok := k.terms[name]; ok || len(k.terms) < MaxTerminals {
		return nil
	}
	var oldest *held
	for _, h := range k.terms {
		if !h.running() && (oldest == nil || h.endedAt.Before(oldest.endedAt)) {
			oldest = h
		}
	}
	if oldest == nil {
		return &Refused{TooMany, fmt.Sprintf("this step has %d terminals already: end one", MaxTerminals)}
	}
	delete(k.terms, oldest.name)
	return nil
}

// running reports whether the shell hasn't ended.
func (h *held) running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended == nil
}

func (k *Keeper) list() []Info {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]Info, 0, len(k.terms))
	for _, h := range k.terms {
		all = append(all, h.info())
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (h *held) info() Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Info{Name: h.name, ID: h.id, Started: h.started, Size: h.size, Joins: len(h.joins), Seq: h.out.end, Ended: h.ended}
}

// end ends what runs in a terminal, and answers when it has ended.
func (k *Keeper) end(conn io.Writer, name string) {
	k.mu.Lock()
	h := k.terms[name]
	k.mu.Unlock()
	if h == nil || !h.running() {
		refuse(conn, &Refused{Missing, fmt.Sprintf("there is no terminal %s", name)})
		return
	}
	h.program.HangUp()
	h.mu.Lock()
	for h.ended == nil {
		h.changed.Wait()
	}
	end := *h.ended
	h.mu.Unlock()
	_ = WriteJSON(conn, Exit, end) // whoever asked may have gone
}

// receive takes what one who has joined types, until he goes.
func (h *held) receive(j *join) {
	for {
		err := Read(j.conn, func(kind byte, data []byte) error {
			h.take(j, kind, data)
			return nil
		})
		if err != nil {
			return
		}
	}
}

// take is told what one who has joined does. Who only looks does nothing.
func (h *held) take(j *join, kind byte, data []byte) {
	if j.view {
		return
	}
	switch kind {
	case Input:
		h.mu.Lock()
		h.use(j)
		h.mu.Unlock()
		_, _ = h.program.Write(data) // what nothing reads is lost, as on any terminal
	case Resize:
		var size Size
		if json.Unmarshal(data, &size) != nil || size.Cols == 0 || size.Rows == 0 {
			return
		}
		h.mu.Lock()
		j.size = size
		h.use(j)
		h.mu.Unlock()
	}
}
