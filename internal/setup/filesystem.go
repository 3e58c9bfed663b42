package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"croft.dev/croft/internal/engine/cri/bind"
	"croft.dev/croft/internal/people"
	"croft.dev/croft/internal/quantity"
)

// kind is what is known of a file system's type.
type kind struct {
	name   string
	idmap  version // first with idmapped mounts of it; zero: none has
	remote bool    // asking it may hang, and locks and fsync aren't to be trusted
}

// kindOf has the types from mount_setattr(2) and those that clusters use.
// Overlayfs isn't among them: it takes idmapped layers, but is none itself.
func kindOf(magic int64) kind {
	switch magic {
	case 0xEF53:
		return kind{name: "ext4", idmap: version{5, 12}}
	case 0x58465342:
		return kind{name: "xfs", idmap: version{5, 12}}
	case 0x4D44:
		return kind{name: "vfat", idmap: version{5, 12}}
	case 0x9123683E:
		return kind{name: "btrfs", idmap: version{5, 15}}
	case 0x7366746E:
		return kind{name: "ntfs3", idmap: version{5, 15}}
	case 0xF2F52010:
		return kind{name: "f2fs", idmap: version{5, 18}}
	case 0xE0F5E1E2:
		return kind{name: "erofs", idmap: version{5, 19}}
	case 0x73717368:
		return kind{name: "squashfs", idmap: version{6, 2}}
	case 0x01021994:
		return kind{name: "tmpfs", idmap: version{6, 3}}
	case 0x00C36400:
		return kind{name: "CephFS", idmap: version{6, 7}, remote: true}
	case 0x794C7630:
		return kind{name: "overlayfs"}
	case 0x2FC12FC1:
		return kind{name: "ZFS"} // only some of its releases do: trying tells
	case 0x6969:
		return kind{name: "NFS", remote: true}
	case 0xFF534D42, 0xFE534D42, 0x517B:
		return kind{name: "SMB", remote: true}
	case 0x65735546:
		return kind{name: "FUSE", remote: true}
	case 0x0BD00BD0:
		return kind{name: "Lustre", remote: true}
	case 0x47504653:
		return kind{name: "GPFS", remote: true}
	case 0x19830326:
		return kind{name: "BeeGFS", remote: true}
	case 0x01021997:
		return kind{name: "9p", remote: true}
	case 0x5346414F:
		return kind{name: "AFS", remote: true}
	}
	return kind{name: fmt.Sprintf("file system %#x", magic)}
}

// mountRoots reports on the folders that jobs may mount, homes first: whether
// their files can be shown to a job under other ids.
func mountRoots(ctx context.Context, d *Deps) []Finding {
	paths, err := rootsOf(ctx, d)
	var out []Finding
	if err != nil {
		out = one(Warn, "users' homes aren't known: %v", err)
	}
	found := make([]chan []Finding, len(paths))
	for i, p := range paths {
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- guarded(func() []Finding { return mountRoot(d, p) }) }()
	}
	for i, p := range paths {
		f, ok := await(ctx, found[i])
		if !ok { // it is left behind
			f = fix(one(Warn, "%s doesn't answer", p), "see whether its server is up; jobs that mount it would hang")
		}
		out = append(out, f...)
	}
	if len(out) == 0 {
		return one(Note, "jobs may mount nothing (mounts is empty)")
	}
	return out
}

// await returns what c sends until ctx ends, or has sent by then.
func await(ctx context.Context, c <-chan []Finding) (f []Finding, ok bool) {
	select {
	case f = <-c:
		return f, true
	case <-ctx.Done():
	}
	select {
	case f = <-c:
		return f, true
	default:
		return nil, false
	}
}

// maxRoots bounds how many folders are looked at.
const maxRoots = 16

// rootsOf resolves "~" to the folders that homes are in.
func rootsOf(ctx context.Context, d *Deps) ([]string, error) {
	var out []string
	var failed error
	for _, r := range d.Config.Mounts {
		if r != "~" {
			out = append(out, r)
			continue
		}
		all, err := d.Users.Users(ctx)
		if err != nil {
			failed = err
			all = []people.User{{UID: firstUser, Home: "/home/x"}}
		}
		homes := make(map[string]int)
		for _, u := range all {
			if isPerson(u) && path.IsAbs(u.Home) && path.Clean(u.Home) != "/" {
				homes[path.Dir(path.Clean(u.Home))]++
			}
		}
		if len(homes) == 0 {
			homes["/home"] = 0
		}
		parents := make([]string, 0, len(homes))
		for h := range homes {
			parents = append(parents, h)
		}
		slices.SortFunc(parents, func(a, b string) int { // where most live first
			return cmp.Or(cmp.Compare(homes[b], homes[a]), cmp.Compare(a, b))
		})
		out = append(out, parents...)
	}
	return out[:min(len(out), maxRoots)], failed
}

func mountRoot(d *Deps, p string) []Finding {
	st, err := d.Machine.Statfs(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(Note, "%s doesn't exist", p)
	case err != nil:
		return one(Warn, "%s can't be read: %v", p, err)
	}
	k := kindOf(st.Type)
	if idmaps(d.Machine, p, k) {
		return one(OK, "%s %s, idmap", p, k.name)
	}
	return one(Note, "%s %s, no idmap: jobs use their owner's ids", p, k.name)
}

// idmaps tries an idmapped mount where it can, else asks the table.
func idmaps(m Machine, p string, k kind) bool {
	if m.IDMap != nil && !k.remote {
		switch err := m.IDMap(p); {
		case err == nil:
			return true
		case errors.Is(err, bind.ErrNoIDMap): // the file system says no
			return false
		}
	}
	text, err := m.Kernel()
	return err == nil && k.idmap != (version{}) && parseRelease(text).atLeast(k.idmap)
}

// Free space of the data directory below which images and logs soon don't fit,
// and below which nothing does; and inodes.
const (
	littleSpace = 20 << 30
	noSpace     = 1 << 30
	fewInodes   = 100_000
)

// disk reports on the file system of the data directory, or of the nearest folder
// above it that exists.
func disk(_ context.Context, d *Deps) []Finding {
	data := string(d.Config.Data)
	at := data
	st, err := d.Machine.Statfs(at)
	for errors.Is(err, fs.ErrNotExist) && at != "/" {
		at = path.Dir(at)
		st, err = d.Machine.Statfs(at)
	}
	if err != nil {
		return one(Warn, "%s can't be read: %v", at, err)
	}
	k := kindOf(st.Type)
	free := quantity.FormatBytes(st.Free>>30<<30) + " free of " + quantity.FormatBytes(st.Total>>30<<30)
	text := fmt.Sprintf("%s on %s, %s", data, k.name, free)
	if st.Free < noSpace {
		text = fmt.Sprintf("%s on %s, %s free", data, k.name, quantity.FormatBytes(st.Free>>20<<20))
	}
	const move = "make room, or set data to a larger disk"
	var out []Finding
	switch {
	case k.remote && d.Config.Database.DSN == "":
		out = fix(one(Fail, "%s: SQLite and the runtime need a local disk", text), "set data to a local disk")
	case st.Free < noSpace:
		out = fix(one(Fail, "%s", text), move)
	case st.Free < littleSpace:
		out = fix(one(Warn, "%s: images and logs need more", text), move)
	default:
		out = one(OK, "%s", text)
	}
	if st.Inodes > 0 && st.Spare < fewInodes {
		out = append(out, fix(one(Warn, "only %d files more can be made there", st.Spare), move)...)
	}
	return out
}
