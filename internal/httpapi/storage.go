package httpapi

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/quota"
	"croft.dev/croft/internal/tenancy"
)

// Storage is what the machine's file systems say of folders, and bound there. A negative uid
// is nobody's: the folder is its project's.
type Storage interface {
	Of(ctx context.Context, path string, uid int64) (quota.Place, error)
	Set(ctx context.Context, path string, uid int64, limits quota.Use) (quota.Place, error)
}

func storageOperations() []operation {
	return []operation{
		ask("listStorage", "GET /v1/users/{name}/storage", "What a user's home and the folders of his accounts have in them, and may", access.UserSee, (*call).storage),
		tell("limitStorage", "POST /v1/storage", "Bound what may be in a user's home, or in a folder of an account", access.CatalogSet, ok, (*call).limitStorage),
	}
}

// nobodys stands for the uid where a folder is no user's home.
const nobodys = -1

func (c *call) storage() (v1.Page[v1.Storage], error) {
	user, folders, err := c.Reader.Stored(c.p, c.path("name"))
	if err != nil {
		return v1.Page[v1.Storage]{}, err
	}
	home, err := c.homeOf(user)
	if err != nil {
		return v1.Page[v1.Storage]{}, err
	}
	var out []v1.Storage
	uids := []int64{}
	if home != "" {
		out, uids = append(out, v1.Storage{User: user.Name, Path: home}), append(uids, user.UID)
	}
	for _, f := range folders {
		out, uids = append(out, c.Reader.StorageOf(c.p, f)), append(uids, nobodys)
	}
	var wg sync.WaitGroup
	for i := range out { // one file system that doesn't answer holds up no other
		wg.Go(func() { c.measure(&out[i], uids[i]) })
	}
	wg.Wait()
	return page(out, nil)
}

// homeOf is a user's home on the machine; empty: he has none, or no uid.
func (c *call) homeOf(user tenancy.User) (string, error) {
	if user.UID < 0 {
		return "", nil
	}
	who, known, err := c.person(user.Name)
	if err != nil || !known {
		return "", err
	}
	return who.Home, nil
}

// measure fills in what the file system says.
func (c *call) measure(s *v1.Storage, uid int64) {
	place, err := c.Storage.Of(c.r.Context(), s.Path, uid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Note = "it isn't there"
	case err != nil:
		c.Logger.Warn("a file system doesn't say what is used", "path", s.Path, "error", err)
		s.Note = "it can't be looked at, or doesn't answer"
	default:
		stored(s, place)
	}
}

// stored is a place as the API shows it.
func stored(s *v1.Storage, p quota.Place) {
	s.FileSystem, s.By, s.Note, s.Free = p.FileSystem, p.By, p.Why, left(p.Free)
	if p.By == "" {
		return
	}
	s.Used, s.Files, s.MaxFiles = used(p.Use.Bytes), p.Use.Files, p.Use.MaxFiles
	if p.Use.Limit > 0 {
		s.Limit = v1.Quantity(quantity.FormatBytes(p.Use.Limit))
	}
}

// used is an amount rounded up to KiB or, from 10 MiB on, to MiB.
func used(n int64) v1.Quantity {
	unit := int64(1 << 10)
	if n >= 10<<20 {
		unit = 1 << 20
	}
	return v1.Quantity(quantity.FormatBytes((n + unit - 1) / unit * unit))
}

// left is an amount rounded down to MiB or, from 10 GiB on, to GiB.
func left(n int64) v1.Quantity {
	unit := int64(1 << 20)
	if n >= 10<<30 {
		unit = 1 << 30
	}
	return v1.Quantity(quantity.FormatBytes(n / unit * unit))
}

func (c *call) limitStorage(in v1.StorageLimit) (v1.Storage, error) {
	cmd := command.StorageLimit{User: in.User, Account: in.Account, Folder: in.Folder, MaxFiles: in.MaxFiles}
	if in.Limit != "none" {
		var err error
		if cmd.Limit, err = quantity.ParseBytes(string(in.Limit)); err != nil || cmd.Limit == 0 {
			return v1.Storage{}, fault.Invalid("limit", "%q isn't an amount such as 500G, or none", string(in.Limit))
		}
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.Storage{}, err
	}
	out, uid := v1.Storage{}, int64(nobodys)
	switch row := got.Result.(type) {
	case asset.Folder:
		out = c.Reader.StorageOf(c.p, row)
	case tenancy.User:
		if out, uid = (v1.Storage{User: row.Name}), row.UID; uid < 0 {
			return out, fault.Invalid("user", "%s has no Unix uid: croft user set gives one", row.Name)
		}
		if out.Path, err = c.homeOf(row); err != nil || out.Path == "" {
			if err == nil {
				err = fault.Invalid("user", "%s has no home on this machine", row.Name)
			}
			return out, err
		}
	default:
		return out, unexpected(got)
	}
	place, err := c.Storage.Set(c.r.Context(), out.Path, uid, quota.Use{Limit: cmd.Limit, MaxFiles: cmd.MaxFiles})
	var none *quota.NoQuotaError
	switch {
	case errors.As(err, &none):
		return out, fault.New(codes.Conflict, "nothing would hold a limit on %s, which has %s", none.Path, none.Why)
	case errors.Is(err, fs.ErrNotExist):
		return out, fault.New(codes.Conflict, "%s isn't there", out.Path)
	case err != nil:
		return out, err
	}
	stored(&out, place)
	return out, nil
}
