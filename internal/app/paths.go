package app

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"croft.dev/croft/internal/engine"
)

// paths looks at files as a job's user sees them: the server is root and sees
// more, and a bind would carry a path past the folders above it that the user may
// not enter.
type paths struct{}

// lookPatience is how long a file system may take to answer.
const lookPatience = 10 * time.Second

// Real returns what path leads to, links resolved, if the user may get there and
// read it. The error is a *engine.StartError when he may not.
func (paths) Real(ctx context.Context, u engine.User, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	// two programs of coreutils, run as the user: what they may do, he may
	real, err := asUser(ctx, u, "realpath", "-e", "--", path)
	if err == nil {
		real = strings.TrimSuffix(real, "\n")
		_, err = asUser(ctx, u, "test", "-r", real)
	}
	var exit *exec.ExitError
	switch {
	case err == nil && strings.HasPrefix(real, "/"):
		return real, nil
	case errors.As(err, &exit) && ctx.Err() == nil:
		return "", &engine.StartError{Message: "mount " + path + ": it isn't there, or " + u.Name + " may not read it"}
	case err == nil:
		err = errors.New("realpath gave no path")
	}
	return "", &engine.UnavailableError{Cause: err}
}

func asUser(ctx context.Context, u engine.User, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cred := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	for _, g := range u.Groups {
		cred.Groups = append(cred.Groups, uint32(g.GID))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", []string{"PATH=/usr/bin:/bin"}, time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

// anyPath is for a virtual fleet, which mounts nothing.
type anyPath struct{}

func (anyPath) Real(_ context.Context, _ engine.User, path string) (string, error) { return path, nil }
