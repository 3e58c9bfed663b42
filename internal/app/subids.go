package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/loop/run"
)

func subidsOf(c config.Subids) run.Subids {
	return run.Subids{First: int64(c.First), Users: int64(c.Users), Start: int64(c.Start), Size: int64(c.Size)}
}

// subidFiles are where the machine notes whose which subordinate ids are.
var subidFiles = []string{"/etc/subuid", "/etc/subgid"}

// subidRange is a line of one of those: count ids from start on are the owner's, who is
// given by name or number.
type subidRange struct {
	owner        string
	start, count int64
}

// parseSubids reads the form of subuid(5). What is none of its lines stands for no ids.
func parseSubids(text string) []subidRange {
	var out []subidRange
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] == "" || f[0][0] == '#' {
			continue
		}
		start, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 == nil && err2 == nil && count > 0 {
			out = append(out, subidRange{f[0], int64(start), int64(count)})
		}
	}
	return out
}

// checkSubids refuses ids for user namespaces that files or the machine's users say are
// somebody's already. A user may have his own ids noted there.
func checkSubids(ctx context.Context, ids run.Subids, files []string, m machine, log *slog.Logger) error {
	if ids.Users == 0 {
		return nil
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fault.Invalid("subids", "%s can't be read, which says what ids others have: %v", path, err)
		}
		for _, r := range parseSubids(string(text)) {
			if overlaps(ids, r) && !m.owns(ctx, ids, r) {
				return fault.Invalid("subids.start", "%s gives %s the ids %d to %d, of those from %d to %d: choose another start, or 0 users for no fake root",
					path, r.owner, r.start, r.start+r.count-1, ids.Start, ids.Start+ids.Users*ids.Size-1)
			}
		}
	}
	return m.checkUsers(ctx, ids, log)
}

func overlaps(ids run.Subids, r subidRange) bool {
	return r.start < ids.Start+ids.Users*ids.Size && ids.Start < r.start+r.count
}

// owns reports whether a range lies in that of its owner.
func (m machine) owns(ctx context.Context, ids run.Subids, r subidRange) bool {
	uid, err := strconv.ParseInt(r.owner, 10, 64)
	if err != nil {
		var known bool
		if uid, known, err = m.UID(ctx, r.owner); err != nil || !known {
			return false
		}
	}
	first, ok := ids.Of(uid)
	return ok && r.start >= first && r.start+r.count <= first+ids.Size
}

// checkUsers looks whether somebody's own number is among the ids. A directory may know
// more users than it lists, and one that is away must not keep the server down.
func (m machine) checkUsers(ctx context.Context, ids run.Subids, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	all, err := m.dir.Users(ctx)
	if err != nil {
		log.Warn("nobody could be asked whether a user's uid is among subids", "error", err)
		return nil
	}
	for _, u := range all {
		for _, id := range []int64{u.UID, u.GID} {
			if overlaps(ids, subidRange{start: id, count: 1}) {
				return fault.Invalid("subids.start", "the machine's user %s has the id %d, of those from %d to %d: choose another start, or 0 users for no fake root",
					u.Name, id, ids.Start, ids.Start+ids.Users*ids.Size-1)
			}
		}
	}
	return nil
}
