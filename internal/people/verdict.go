package people

import (
	"context"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// Verdict says whether a name still stands for the uid that it was bound to.
type Verdict string

// The verdicts. Only with OK is the person surely the one who was bound.
const (
	// OK: the name has the uid.
	OK Verdict = "ok"
	// Renamed: the name is gone, and the uid has another name with the same home.
	Renamed Verdict = "renamed"
	// UIDReused: somebody else has the uid.
	UIDReused Verdict = "uid_reused"
	// Renumbered: the name has another uid, and nobody has the one it was bound to.
	// Either the user was given a new number or the name was given to someone new.
	Renumbered Verdict = "renumbered"
	// Gone: neither the name nor the uid is there.
	Gone Verdict = "gone"
)

// Binding is a user as Croft once bound it.
type Binding struct {
	Name string
	UID  int64
	Home string // at that time; empty: unknown, then a renamed user reads as UIDReused
}

// Checked is what was found for a Binding.
type Checked struct {
	Verdict Verdict
	// Holder is who has the uid now, but for Renumbered who has the name; zero for
	// Gone.
	Holder User
}

// Check compares a binding with the machine's users. The error is unavailable:
// then nothing is known, in particular not that the user is gone.
func (d *Directory) Check(ctx context.Context, b Binding) (Checked, error) {
	byName, named, err := found(d.ByName(ctx, b.Name))
	if err != nil {
		return Checked{}, err
	}
	if named && byName.UID == b.UID {
		return Checked{OK, byName}, nil
	}
	byUID, numbered, err := found(d.ByUID(ctx, b.UID))
	switch {
	case err != nil:
		return Checked{}, err
	case !named && !numbered:
		return Checked{Verdict: Gone}, nil
	case !numbered:
		return Checked{Renumbered, byName}, nil
	case strings.EqualFold(byUID.Name, b.Name):
		return Checked{OK, byUID}, nil // the two answers are of different times
	case !named && personal(b.Home) && byUID.Home == b.Home:
		return Checked{Renamed, byUID}, nil
	}
	return Checked{UIDReused, byUID}, nil
}

// personal reports whether a home says who somebody is: accounts without one of
// their own share / and the like.
func personal(home string) bool {
	return strings.Count(strings.TrimSuffix(home, "/"), "/") >= 2 && !strings.HasPrefix(home, "/nonexistent")
}

// found tells that there is none from not knowing.
func found(u User, err error) (User, bool, error) {
	if code := fault.Of(err); code == codes.NotFound || code == codes.Invalid {
		return User{}, false, nil
	}
	return u, err == nil, err
}
