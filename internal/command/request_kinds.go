package command

import (
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func aimWall(w *world.World, at world.Context, r *approval.Request) error {
	x := *r.Wish.Wall
	j, err := readable(w, at, x.Job)
	if err != nil {
		return err
	}
	if t, _ := w.Tenancy.Tokens.Get(r.Token.ID); t.Caps.Ask != 0 {
		return fault.New(codes.Denied, "token %s asks its user for what costs more: he asks for more time himself", t.By())
	}
	if !w.CanJob(at.Principal, access.JobControl, j) {
		return fault.New(codes.Denied, "job %s isn't yours to ask that for%s", j.Name(), world.OnlyItsOwn(at.Principal, j))
	}
	x.Name, r.Account = j.Name(), j.Account
	r.Wish.Wall = &x
	return nil
}

// wallAsked extends a job that still runs.
func wallAsked(w *world.World, x approval.Wall) (world.Command, error) {
	if _, ok := w.Workload.Jobs.Get(x.Job); !ok {
		return nil, fault.New(codes.Conflict, "job %s has ended", x.Name)
	}
	return JobExtend{Job: x.Job, Time: x.Time}, nil
}

// maxAsked bounds the names of a kind that a request for a reservation keeps.
const maxAsked = 100

// aimReservation is for accounts that whoever asks is a member of, himself, and others of the
// account that pays.
func aimReservation(w *world.World, at world.Context, r *approval.Request) error {
	x := *r.Wish.Reservation
	x.OfAccounts, x.OfUsers = nil, nil
	if x.Payer == "" && len(x.Accounts) == 1 {
		x.Payer = x.Accounts[0]
	}
	for _, names := range [][]string{x.Accounts, x.Users, x.Nodes, x.Images} {
		if len(names) > maxAsked {
			return fault.Invalid("accounts", "a request names at most %d accounts, users, nodes or images each", maxAsked)
		}
	}
	if x.Payer == "" {
		return fault.Invalid("payer", "say which account pays for devices that stay unused")
	}
	for _, name := range append(slices.Clone(x.Accounts), x.Payer) {
		if err := ofMember(w, at, r, name); err != nil {
			return err
		}
		x.OfAccounts = append(x.OfAccounts, r.Account)
	}
	x.OfAccounts = x.OfAccounts[:len(x.Accounts)] // the last is who pays
	for _, name := range x.Users {
		u, ok := w.Tenancy.User(name)
		if !ok || w.Tenancy.Role(u.ID, r.Account, at.Now) < access.Member {
			return fault.Invalid("users", "%s is no member of %s", name, x.Payer)
		}
		x.OfUsers = append(x.OfUsers, u.ID)
	}
	if !concerned(w, &placement.Reservation{Accounts: x.OfAccounts, Users: x.OfUsers}, r.Account, at.Now) {
		return fault.Invalid("payer", "must be one of the accounts, or above them, or one that all the users are members of")
	}
	r.Wish.Reservation = &x
	return nil
}

// reservationAsked is for those whom it was asked for, as they are called now.
func reservationAsked(w *world.World, now int64, x approval.Reservation, payer string) (world.Command, error) {
	c := ReservationPut{
		Name: x.Name, Partition: x.Partition, Payer: payer, Count: x.Count, CPU: x.CPU, Mem: x.Mem, GPU: x.GPU, Model: x.Model, Where: x.Where, Nodes: x.Nodes,
		From: x.From, To: x.To, Length: x.Length, Repeat: placement.Repeat(x.Repeat), Until: x.Until, Join: x.Join, Each: x.Each, Images: x.Images, Reason: x.Reason,
	}
	for _, k := range x.OfAccounts {
		a, _ := w.Tenancy.Accounts.Get(k)
		if a.Retired != 0 {
			return nil, fault.New(codes.Conflict, "account %s isn't there any more", a.Name)
		}
		c.Accounts = append(c.Accounts, a.Name)
	}
	for _, k := range x.OfUsers {
		u, _ := w.Tenancy.Users.Get(k)
		if why := u.Barred(now); why != "" {
			return nil, fault.New(codes.Conflict, "user %s is %s", u.Name, why)
		}
		c.Users = append(c.Users, u.Name)
	}
	if x.From != 0 && x.From < now {
		return nil, fault.New(codes.Conflict, "its window has begun on %s: it is too late to set it aside", moment(x.From))
	}
	return c, nil
}

// aimAsset is for an account that whoever asks is a member of. Of what he doesn't see he learns
// nothing: the name is bound to what has it now, or to none.
func aimAsset(w *world.World, at world.Context, r *approval.Request) (seen bool, err error) {
	x := *r.Wish.Asset
	x.Of, x.Made = 0, 0
	if err := ofMember(w, at, r, x.Account); err != nil {
		return false, err
	}
	if (x.Image == "") == (x.Folder == "") || x.Owner != "" && x.Folder == "" {
		return false, fault.Invalid("image", "name one image, or one folder and whose it is")
	}
	if x.Image != "" {
		var local bool
		if x.Image, local = asset.Local(x.Image); !local || len(x.Image) > maxWords || !oneLine(x.Image, maxWords) {
			return false, fault.Invalid("image", "must be a saved image, as %s/ada/env:v2: others need no leave", asset.Registry)
		}
		row, ok := w.Assets.Images.Get(x.Image)
		x.Made, seen = row.Made, ok && w.SeesImage(at.Principal, row)
	} else {
		seen, err = aimFolder(w, at, &x)
	}
	r.Wish.Asset = &x
	return seen, err
}

func aimFolder(w *world.World, at world.Context, x *approval.Asset) (seen bool, err error) {
	if !workload.KnownVolume(x.Folder) {
		return false, fault.Invalid("folder", "must be at most 64 letters, digits and _ . -, the first a letter or digit")
	}
	sees := true
	if x.Owner != "" {
		if err := tenancy.CheckName(x.Owner); err != nil {
			return false, fault.Invalid("owner", "%v", err)
		}
		a, seesOwner, _ := standing(w, at, x.Owner)
		if x.Of, sees = a.ID, seesOwner; a.ID == 0 {
			return false, nil
		}
	}
	row, ok := w.Assets.Folder(x.Of, x.Folder)
	x.Made = row.Changed
	return ok && sees, nil
}

// assetAsked shares what was meant when it was asked for.
func assetAsked(w *world.World, x approval.Asset, account tenancy.Account) (world.Command, error) {
	if x.Image != "" {
		row, ok := w.Assets.Images.Get(x.Image)
		switch {
		case !ok || x.Made == 0 || row.Made != x.Made:
			return nil, fault.New(codes.Conflict, "the image that is meant isn't there: %s", x.Image)
		case row.Account == account.ID:
			return nil, fault.New(codes.Conflict, "%s is shared with %s already", x.Image, account.Name)
		case row.Account != 0:
			return nil, fault.New(codes.Conflict, "%s is shared with another account, and can be with one only", x.Image)
		}
		return ImageShare{Ref: row.Ref, Account: account.Name, asked: true}, nil
	}
	row, ok := w.Assets.Folder(x.Of, x.Folder)
	switch {
	case !ok || x.Made == 0 || row.Changed != x.Made:
		return nil, fault.New(codes.Conflict, "the folder that is meant isn't there, or has changed: %s", x.Folder)
	case x.Of == 0 || slices.Contains(w.Tenancy.Path(account.ID), x.Of):
		return nil, fault.New(codes.Conflict, "jobs of %s find folder %s already", account.Name, x.Folder)
	}
	if _, taken := w.Assets.Folder(account.ID, x.Folder); taken {
		return nil, fault.New(codes.Conflict, "%s has another folder that is called %s", account.Name, x.Folder)
	}
	return FolderPut{Account: account.Name, Name: row.Name, Path: row.Path, ReadOnly: true, Env: row.Env, Comment: row.Comment}, nil
}

// sharedAsked is the account that an image is asked for, which whoever shares it needn't be a
// member of.
func sharedAsked(w *world.World, name string) (id.Account, error) {
	a, ok := w.Tenancy.Account(name)
	if !ok {
		return 0, fault.Invalid("account", "no such account: %s", name)
	}
	return a.ID, nil
}
