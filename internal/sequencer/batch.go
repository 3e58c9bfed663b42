package sequencer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/world"
)

// batch is commands decided one after the other on a copy of the world.
type batch struct {
	world   *world.World
	head    store.Head // after it
	rows    []store.Batch
	reqs    []*request
	replies []reply
}

// process decides, commits, publishes and answers. Its error ends the sequencer;
// the requests are answered in any case.
func (s *Sequencer) process(reqs []*request) error {
	if err := s.settle(); err != nil {
		answerAll(reqs, errUnavailable())
		return fatal(err)
	}
	b, err := s.decide(reqs)
	if err == nil && len(b.rows) > 0 {
		if err = s.store.Commit(context.Background(), b.rows); err != nil {
			s.log.Warn("commit failed", "first", b.rows[0].Entry.Seq, "rows", len(b.rows), "error", err)
			s.unsettled = b
			if unsure := s.settle(); unsure != nil {
				answerAll(reqs, errUnavailable())
				return fatal(unsure)
			}
			if s.head == b.head {
				err = nil // committed after all
			}
		} else {
			s.publish(b)
		}
	}
	switch {
	case err == nil:
		for i, r := range b.reqs {
			r.done <- b.replies[i]
		}
	case errors.Is(err, store.ErrUnavailable):
		answerAll(reqs, errUnavailable())
	case len(reqs) == 1:
		s.quarantine(reqs[0], err)
		answerAll(reqs, errInternal())
	default:
		return s.singly(reqs)
	}
	return nil
}

// singly gives every command of a failed batch a batch of its own.
func (s *Sequencer) singly(reqs []*request) error {
	for i := range reqs {
		if err := s.process(reqs[i : i+1]); err != nil {
			answerAll(reqs[i+1:], errUnavailable())
			return err
		}
	}
	return nil
}

// settle finds out what became of a batch whose commit failed. An error leaves it
// open.
func (s *Sequencer) settle() error {
	b := s.unsettled
	if b == nil {
		return nil
	}
	head, err := s.store.Head(context.Background())
	switch {
	case err != nil:
		return err
	case head == b.head:
		s.publish(b)
	case head != s.head:
		return fmt.Errorf("%w: at row %d, neither before nor after the batch up to %d", store.ErrStale, head.Seq, b.head.Seq)
	}
	s.unsettled = nil
	return nil
}

// fatal keeps the errors after which this server may not go on.
func fatal(err error) error {
	if errors.Is(err, store.ErrDeposed) || errors.Is(err, store.ErrStale) {
		return err
	}
	return nil
}

func answerAll(reqs []*request, err error) {
	for _, r := range reqs {
		r.done <- reply{err: err}
	}
}

// publish makes a committed batch the present. The published world is a copy of
// its own, so that what Run does to current is never seen.
func (s *Sequencer) publish(b *batch) {
	s.current, s.head = b.world, b.head
	s.published.Store(b.world.Copy())
	s.ring.append(b.rows)
}

// decide decides all commands on a copy of the world. An error says that the copy
// is of no use; what a command is refused for is in its reply.
func (s *Sequencer) decide(reqs []*request) (*batch, error) {
	b := &batch{world: s.current.Copy(), head: s.head, reqs: reqs, replies: make([]reply, len(reqs))}
	now := s.clock()
	for i, r := range reqs {
		var err error
		if b.replies[i], err = s.one(b, r, max(now, b.world.Now)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// one decides one command and folds what it changes.
func (s *Sequencer) one(b *batch, r *request, now int64) (reply, error) {
	if r.key != "" {
		if known, ok := b.world.Remembered(r.key); ok {
			return replay(known, r.digest), nil
		}
	}
	p := principal(b.world, r.actor, now)
	at := world.Context{Seq: b.world.Seq + 1, Now: now, Principal: p, Key: r.key, Digest: r.digest}
	out, err := s.decideOne(b.world, r, at)
	if err != nil {
		return reply{err: s.userError(r, err)}, nil
	}
	answer := reply{answer: Answer{Result: out.Result, At: now}}
	if out.Fault != nil {
		answer.err = out.Fault
	}
	if out.Event.Skip {
		return answer, nil
	}
	answer.answer.Seq = at.Seq
	row, err := entry(b, at, r, out)
	if err != nil {
		return reply{}, err
	}
	if err := fold(b.world, row); err != nil {
		return reply{}, err
	}
	b.rows = append(b.rows, row)
	b.head.Seq, b.head.At, b.head.Hash = row.Entry.Seq, row.Entry.At, row.Entry.Hash
	return answer, nil
}

// replay answers a command whose key has been used before.
func replay(known world.Key, digest string) reply {
	if known.Digest != digest {
		return reply{err: fault.New(codes.Conflict, "the key was used for another request")}
	}
	return reply{answer: Answer{Seq: known.Seq, At: known.At, Replayed: &known}}
}

func principal(w *world.World, a Actor, now int64) access.Principal {
	if !a.System {
		return w.Principal(a.User, a.Token, now)
	}
	name := a.Name
	if name == "" {
		name = "system"
	}
	return access.Principal{Now: now, Name: name, System: true}
}

// decideOne keeps a decision that panics from harming the others: a decision
// changes nothing, so the world is as it was.
func (s *Sequencer) decideOne(w *world.World, r *request, at world.Context) (out world.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{value: p, stack: debug.Stack()}
		}
	}()
	return r.cmd.Decide(w, at)
}

type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// userError lets a fault through and keeps everything else inside.
func (s *Sequencer) userError(r *request, err error) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Code != codes.Internal {
		return f
	}
	s.quarantine(r, err)
	return errInternal()
}

// quarantine notes a command that failed inside, for whoever mends it.
func (s *Sequencer) quarantine(r *request, err error) {
	var p *panicked
	stack := ""
	if errors.As(err, &p) {
		stack = string(p.stack)
	}
	s.log.Error("command failed", "kind", r.cmd.Kind(), "user", int64(r.actor.User), "error", err, "stack", stack)
	letter := deadLetter{At: s.current.Now, User: int64(r.actor.User), Kind: r.cmd.Kind(), Command: r.cmd, Error: err.Error()}
	line, err := json.Marshal(letter)
	if err == nil {
		_, err = s.dead.Write(append(line, '\n'))
	}
	if err != nil {
		s.log.Error("the dead letter wasn't kept", "kind", r.cmd.Kind(), "error", err)
	}
}

type deadLetter struct {
	At      int64         `json:"at"` // ns; the world's
	User    int64         `json:"user"`
	Kind    string        `json:"kind"`
	Command world.Command `json:"command"`
	Error   string        `json:"error"`
}

// entry makes the log row of a decision, and of its key a change.
func entry(b *batch, at world.Context, r *request, out world.Outcome) (store.Batch, error) {
	command, err := json.Marshal(r.cmd)
	if err != nil {
		return store.Batch{}, fmt.Errorf("command %s: %w", r.cmd.Kind(), err)
	}
	changed, err := store.Changed(b.world, out.Changes, !r.actor.System)
	if err != nil {
		return store.Batch{}, err
	}
	row := store.Batch{Changes: out.Changes, Entry: world.Entry{
		Seq: at.Seq, At: at.Now, User: r.actor.User, Principal: at.Principal.Signature(), Kind: r.cmd.Kind(), Command: command,
		Touched: store.Touched(out.Changes), Changed: changed, Event: clean(out.Event), Prev: b.head.Hash,
	}}
	if r.key != "" {
		key := world.Key{
			Name: r.key, Digest: r.digest, Seq: at.Seq, At: at.Now,
			Job: out.Event.Job, Refusal: out.Event.Refusal,
		}
		row.Entry.Key = &key
		row.Changes = append(row.Changes[:len(row.Changes):len(row.Changes)], world.KeySet{Row: key})
	}
	row.Entry.Hash, err = chain.Hash(row.Entry)
	return row, err
}

// fold applies a row's changes. It can't fail, but for a defect: then the copy is
// dropped.
func fold(w *world.World, row store.Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{value: p, stack: debug.Stack()}
		}
	}()
	w.Seq, w.Now = row.Entry.Seq, row.Entry.At
	w.Fold(row.Changes)
	return nil
}

// clean makes an event's text storable anywhere: an engine's message may be any
// bytes, and PostgreSQL takes neither a NUL nor what isn't UTF-8.
func clean(e world.Event) world.Event {
	e.State, e.Message = cleanText(e.State), cleanText(e.Message)
	if len(e.Reasons) == 0 {
		e.Reasons = nil
		return e
	}
	all := make([]fault.Reason, len(e.Reasons))
	for i, r := range e.Reasons {
		r.Message, r.Observed, r.Bound, r.Scope = cleanText(r.Message), cleanText(r.Observed), cleanText(r.Bound), cleanText(r.Scope)
		all[i] = r
	}
	e.Reasons = all
	return e
}

func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// joinKey makes the world's key: principal, operation and the caller's key.
func joinKey(a Actor, kind string, k Key) (name, digest string) {
	sum := sha256.Sum256(k.Body)
	return strconv.FormatInt(int64(a.User), 10) + " " + kind + " " + k.Name, hex.EncodeToString(sum[:])
}
