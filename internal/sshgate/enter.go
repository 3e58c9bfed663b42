package sshgate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// entrance is where a connection leads, and by what right.
type entrance struct {
	p       access.Principal
	key     string // fingerprint; empty: known otherwise
	name    string // what the job was called
	job     *workload.Job
	attempt int32
	step    int32
	at      engine.StepID
}

// entranceKey is where the entrance stands in a connection's permissions.
type entranceKey struct{}

func permissions(in *entrance) *ssh.Permissions {
	return &ssh.Permissions{ExtraData: map[any]any{entranceKey{}: in}}
}

// errStranger is all that somebody is told who has no key here.
var errStranger = errors.New("unknown key")

// lookPatience bounds the search for a job while somebody waits to get in.
const lookPatience = 10 * time.Second

// publicKeys lets in who has the private half of a registered key. Whether a key is
// registered says nothing of jobs: which one is meant is looked at once the key is proven,
// and what is wrong with that is then told.
func (s *Server) publicKeys() *ssh.ServerConfig {
	cfg := s.config()
	cfg.PublicKeyCallback = func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if _, ok := s.owner(ssh.FingerprintSHA256(key), key.Marshal()); !ok {
			return nil, errStranger
		}
		return &ssh.Permissions{}, nil
	}
	cfg.VerifiedPublicKeyCallback = func(meta ssh.ConnMetadata, key ssh.PublicKey, _ *ssh.Permissions, _ string) (*ssh.Permissions, error) {
		print := ssh.FingerprintSHA256(key)
		p, ok := s.owner(print, key.Marshal())
		if !ok {
			return nil, errStranger
		}
		ctx, cancel := context.WithTimeout(s.closing, lookPatience)
		defer cancel()
		in, err := s.find(ctx, p, meta.User())
		if err != nil {
			return nil, &ssh.BannerError{Err: err, Message: "croft: " + s.words(err) + "\r\n"}
		}
		in.key = print
		return permissions(in), nil
	}
	return cfg
}

// owner is whom a key stands for now.
func (s *Server) owner(fingerprint string, blob []byte) (access.Principal, bool) {
	w := s.Sequencer.World()
	now := max(s.Now(), w.Now)
	key, ok := w.Tenancy.SSHKeys.Get(fingerprint)
	if !ok || !key.Usable(now) || key.Blob != base64.StdEncoding.EncodeToString(blob) {
		return access.Principal{}, false
	}
	p := w.Principal(key.User, 0, now)
	return p, p.User != 0 && !p.Blocked
}

// maxName bounds the name of a job, in bytes.
const maxName = 200

// find is where a user name of SSH leads: JOB or NAME, or JOB.STEP.
func (s *Server) find(ctx context.Context, p access.Principal, name string) (*entrance, error) {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.Invalid("user", "say which job: ssh JOB@…, by its number or its name")
	}
	job, step, err := s.meant(ctx, p, name)
	if err != nil {
		return nil, err
	}
	if job.State != workload.Running {
		return nil, job.NotRunning()
	}
	in := &entrance{p: p, name: name, job: job, attempt: job.Attempt.N, step: step, at: s.engineStep(job.ID, job.Attempt.N, step)}
	if step == workload.PrimaryStep {
		return in, nil
	}
	_, row, err := s.Reader.FindStep(ctx, p, job.Name(), step, access.JobEnter)
	if err != nil {
		return nil, err
	}
	if row.State != workload.Running {
		return nil, fault.New(codes.Conflict, "step %s.%d isn't running: it is %s", job.Name(), step, row.State)
	}
	in.at = s.engineStep(job.ID, row.Attempt, step)
	return in, nil
}

// meant is the job and the step that a name means: a number, or the name of one of the
// caller's own.
func (s *Server) meant(ctx context.Context, p access.Principal, name string) (*workload.Job, int32, error) {
	whole, step, split := splitStep(name)
	for _, as := range []struct {
		name string
		step int32
		ok   bool
	}{{name, workload.PrimaryStep, true}, {whole, step, split}} {
		if !as.ok {
			continue
		}
		if numbered(as.name) {
			job, err := s.Reader.Find(ctx, p, as.name, access.JobEnter)
			return job, as.step, err
		}
		job, err := s.Reader.OwnNamed(p, as.name)
		if err != nil || job != nil {
			return job, as.step, err
		}
	}
	return nil, 0, fault.New(codes.NotFound, "no job of yours that lives is called %s", name)
}

// numbered reports whether s names a job by its number, as 118 or 118_7.
func numbered(s string) bool {
	if _, ok := id.ParseJob(s); ok {
		return true
	}
	_, _, ok := id.ParseElement(s)
	return ok
}

// splitStep takes the number of a step off a name.
func splitStep(name string) (whole string, step int32, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return name, 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < workload.PrimaryStep || name[i+1] == '+' {
		return name, 0, false
	}
	return name[:i], int32(n), true
}

// words says to whoever asked what went wrong.
func (s *Server) words(err error) string {
	var refused *fault.Error
	var start *engine.StartError
	var attach *engine.AttachError
	var gone *engine.NotFoundError
	var dial *engine.DialError
	var listen *engine.ListenError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &start):
		return start.Message
	case errors.As(err, &attach):
		return attach.Message
	case errors.As(err, &gone):
		return "it has ended"
	case errors.As(err, &dial):
		return dial.Error()
	case errors.As(err, &listen):
		return listen.Error()
	case engine.IsUnavailable(err):
		return "the container runtime can't be reached right now"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the server is busy or stopping: try again"
	}
	s.Logger.Error("internal error over SSH", "error", err)
	return "internal error; the server's log says more"
}

// Why a connection ends that its client would have go on.
var (
	errWithdrawn = errors.New("you may no longer do this")
	errEnded     = errors.New("it has ended")
	errClosing   = errors.New("the server stops: the job runs on, log in again in a moment")
	errSilent    = errors.New("the client doesn't answer")
)

// still says why the entrance is none any more; nil: it is one.
func (s *Server) still(in *entrance) error {
	w := s.Sequencer.World()
	now := max(s.Now(), w.Now)
	if key, ok := w.Tenancy.SSHKeys.Get(in.key); in.key != "" && (!ok || !key.Usable(now) || int64(key.User) != in.p.User) {
		return errWithdrawn
	}
	p := w.Principal(id.User(in.p.User), id.Token(in.p.Narrow.Token), now)
	was := in.p
	was.Now = p.Now
	job, live := w.Workload.Jobs.Get(in.job.ID)
	switch {
	case p != was, live && !w.CanJob(p, access.JobEnter, job):
		return errWithdrawn
	case !live, job.Attempt.N != in.attempt, !slices.Contains([]workload.JobState{workload.Running, workload.Stopping}, job.State):
		return errEnded
	}
	if in.step != workload.PrimaryStep {
		if row, ok := w.Workload.Step(in.job.ID, in.step); !ok || row.State == workload.Ended {
			return errEnded
		}
	}
	return nil
}

func (in *entrance) String() string {
	if in.step == workload.PrimaryStep {
		return in.job.Name()
	}
	return fmt.Sprintf("%s.%d", in.job.Name(), in.step)
}
