package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
)

// Volumes are folders below Config.VolumeDir: UID/NAME, owned by that user, in a folder that
// only root may enter. That an attempt has one is noted in its scratch, from before it is
// mounted until the attempt is removed.

// volumeName is what a volume may be called: never a path, nor hidden.
var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// gone begins the names of volumes that are being removed.
const gone = ".removed-"

func (e *Engine) volumesOf(uid int64) string {
	return filepath.Join(e.cfg.VolumeDir, strconv.FormatInt(uid, 10))
}

// volumeMark is where it is noted that an attempt has a volume.
func (s scratch) volumeMark(uid int64, name string) string {
	return filepath.Join(string(s), "volumes", strconv.FormatInt(uid, 10)+":"+name)
}

// openVolume finds or makes a user's volume, and notes that the attempt has it.
func (e *Engine) openVolume(id engine.AttemptID, u engine.User, name string) (*bind.Tree, error) {
	if !volumeName.MatchString(name) {
		return nil, &engine.StartError{Message: "no volume can be called " + strconv.Quote(name)}
	}
	e.volumes.Lock() // so that none is removed between
	defer e.volumes.Unlock()
	mark := e.scratch(id).volumeMark(u.UID, name)
	if err := os.MkdirAll(filepath.Dir(mark), 0o711); err != nil {
		return nil, err
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(e.volumesOf(u.UID), 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(e.volumesOf(u.UID), name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	// Whoever made it may have been killed before it was given away.
	if err := unix.Fchownat(fd, "", int(u.UID), int(u.GID), unix.AT_EMPTY_PATH); err != nil {
		return nil, err
	}
	return bind.Clone(f)
}

// Volumes implements engine.Engine. A volume that changes while it is counted is counted as
// far as it was seen.
func (e *Engine) Volumes(ctx context.Context, uid int64) ([]engine.Volume, error) {
	entries, err := os.ReadDir(e.volumesOf(uid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cri: volumes: %w", err)
	}
	var out []engine.Volume
	for _, d := range entries {
		if !volumeName.MatchString(d.Name()) {
			continue
		}
		v := engine.Volume{Name: d.Name()}
		if v.Size, err = sizeOf(ctx, filepath.Join(e.volumesOf(uid), d.Name())); err != nil {
			return nil, err
		}
		if v.InUse, err = e.volumeInUse(uid, d.Name()); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// sizeOf is what a folder takes of the disk, in bytes; files with several names count once.
func sizeOf(ctx context.Context, dir string) (int64, error) {
	var sum int64
	seen := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // it went away
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && (st.Nlink < 2 || d.IsDir() || !seen[st.Ino]) {
			seen[st.Ino] = st.Nlink > 1
			sum += st.Blocks * 512
		}
		return nil
	})
	return sum, err
}

func (e *Engine) volumeInUse(uid int64, name string) (bool, error) {
	found, err := filepath.Glob(scratch(filepath.Join(e.cfg.StateDir, "attempts", "*")).volumeMark(uid, name))
	if err != nil {
		return false, fmt.Errorf("cri: volumes: %w", err)
	}
	return len(found) > 0, nil
}

// RemoveVolume implements engine.Engine. The volume is out of the way at once, and deleted
// then; what a crash leaves of it, sweepVolumes deletes.
func (e *Engine) RemoveVolume(_ context.Context, uid int64, name string) error {
	if !volumeName.MatchString(name) {
		return &engine.NoVolumeError{Name: name}
	}
	away := filepath.Join(e.cfg.VolumeDir, gone+strconv.FormatInt(uid, 10)+"-"+name+"-"+strconv.FormatInt(time.Now().UnixNano(), 10))
	err := func() error {
		e.volumes.Lock()
		defer e.volumes.Unlock()
		if used, err := e.volumeInUse(uid, name); err != nil {
			return err
		} else if used {
			return &engine.VolumeInUseError{Name: name}
		}
		return os.Rename(filepath.Join(e.volumesOf(uid), name), away)
	}()
	if errors.Is(err, fs.ErrNotExist) {
		return &engine.NoVolumeError{Name: name}
	}
	if err == nil {
		err = os.RemoveAll(away)
	}
	return err
}

// sweepVolumes deletes what is left of removed volumes.
func (e *Engine) sweepVolumes() error {
	entries, err := os.ReadDir(e.cfg.VolumeDir)
	if err != nil {
		return fmt.Errorf("cri: volumes: %w", err)
	}
	var errs []error
	for _, d := range entries {
		if strings.HasPrefix(d.Name(), gone) {
			errs = append(errs, os.RemoveAll(filepath.Join(e.cfg.VolumeDir, d.Name())))
		}
	}
	return errors.Join(errs...)
}
