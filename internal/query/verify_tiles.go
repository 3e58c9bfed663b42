package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// readTiles goes through each device's time as of S.
func (a *audit) readTiles(ctx context.Context) error {
	all, err := a.r.History.Tiles(ctx, store.TileFilter{}, 0)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(x, y ledger.Tile) int {
		return cmp.Or(cmp.Compare(x.Device, y.Device), cmp.Compare(x.From, y.From))
	})
	seen := map[string]bool{}
	for len(all) > 0 {
		device := all[0].Device
		n := slices.IndexFunc(all, func(t ledger.Tile) bool { return t.Device != device })
		if n < 0 {
			n = len(all)
		}
		if err := a.device(ctx, device, a.asOf(device, all[:n])); err != nil {
			return err
		}
		seen[device], all = true, all[n:]
	}
	for _, open := range a.w.Ledger.Tiles.All() {
		a.tiles.want(seen[open.Device], "%s has been %s since %s, of which nothing is recorded", open.Device, open.Cause, stamp(open.From))
	}
	return nil
}

// asOf is a device's tiles as they were at S: those that were open then, and those
// that were closed for good. What began later, of the same job or of the whole device,
// came later.
func (a *audit) asOf(device string, tiles []ledger.Tile) []ledger.Tile {
	open := a.w.Ledger.OpenTiles(device)
	out := slices.Clone(open)
	for _, t := range tiles {
		until := a.w.Now + 1
		for _, o := range open {
			if o.Job == t.Job || o.Milli == quantity.Device {
				until = min(until, o.From)
			}
		}
		if t.To != 0 && t.From < until {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(x, y ledger.Tile) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.Job, y.Job)) })
	return out
}

func (a *audit) device(ctx context.Context, device string, tiles []ledger.Tile) error {
	change := map[int64]int64{} // of what is recorded of the device, by time
	for _, t := range tiles {
		a.tiles.want(t.To == 0 || t.From <= t.To, "%s: %s from %s to %s", device, t.Cause, stamp(t.From), stamp(t.To))
		if change[t.From] += t.Milli; t.To != 0 {
			change[t.To] -= t.Milli
		}
		switch {
		case t.Cause == ledger.CauseUsed:
			key := id.Attempt{Job: t.Job, N: t.Attempt}
			a.used[key] = append(a.used[key], t)
		case t.To != 0:
			a.posted[t.Cause] += int64(t.Posted)
		}
	}
	return a.whole(ctx, device, change)
}

// whole checks that the tiles of a device come to all of it at every time from the
// first on, but for times in which the device wasn't offered.
func (a *audit) whole(ctx context.Context, device string, change map[int64]int64) error {
	var sum int64
	times := slices.Sorted(maps.Keys(change))
	for i, at := range times {
		sum += change[at]
		ok, until := sum == quantity.Device, int64(0)
		if i+1 < len(times) {
			until = times[i+1]
		}
		if sum == 0 {
			var err error
			if ok, err = a.withdrawn(ctx, device, at); err != nil {
				return err
			}
		}
		a.tiles.want(ok, "%s: %s of it is recorded from %s to %s", device, quantity.FormatDevices(sum), stamp(at), stamp(until))
	}
	return nil
}

// withdrawn reports whether the inventory of moment t was about the device. Time
// in the log never goes back, so the row is found by halving.
func (a *audit) withdrawn(ctx context.Context, device string, t int64) (bool, error) {
	var failed error
	n := sort.Search(int(a.w.Seq), func(i int) bool {
		rows, err := a.r.History.Log(ctx, store.LogFilter{After: int64(i)}, 1)
		if err != nil {
			failed = err
		}
		return len(rows) == 0 || rows[0].At >= t
	})
	if failed != nil {
		return false, failed
	}
	rows, err := a.r.History.Log(ctx, store.LogFilter{After: int64(n)}, pageRows)
	if err != nil {
		return false, err
	}
	for _, e := range rows {
		if e.At != t {
			break
		}
		if e.Kind == "node.observed" && slices.Contains(strings.Fields(e.Touched), "device:"+device) {
			return true, nil
		}
	}
	return false, nil
}

// usedTime checks that the used tiles of an attempt that is over cover, on each of
// its devices, exactly the time that its user paid for.
func (a *audit) usedTime(j *workload.Job, at workload.Attempt) {
	key := id.Attempt{Job: j.ID, N: at.N}
	from, to := metering.Billable(at, j.TermsOf(at).Grace, at.Ended)
	tiles := a.used[key]
	delete(a.used, key)
	devices := at.AllDevices()
	each := catalog.Counted(at.Models) / max(1, int64(len(devices)))
	for _, device := range devices {
		next := from
		for _, t := range tiles {
			if t.Device != device || t.From == t.To {
				continue
			}
			a.time.want(t.Milli == each, "%s: %s of %s is recorded as used, it has %s", key, quantity.FormatDevices(t.Milli), device, quantity.FormatDevices(each))
			a.time.want(t.Account == j.Account && t.User == j.User, "%s: time from %s is account %d's, the job is account %d's", key, stamp(t.From), t.Account, j.Account)
			if t.From == next {
				next = t.To
			}
		}
		a.time.want(next == to, "%s pays for %s from %s to %s; used time is recorded to %s", key, device, stamp(from), stamp(to), stamp(next))
	}
	for _, t := range tiles {
		ok := slices.Contains(devices, t.Device) && (t.From == t.To || t.From >= from && t.To <= to)
		a.time.want(ok, "%s: %s is recorded as used from %s to %s, paid for is %s to %s", key, t.Device, stamp(t.From), stamp(t.To), stamp(from), stamp(to))
	}
}

func stamp(ns int64) string {
	if ns == 0 {
		return "now"
	}
	return at(ns).Format(time.RFC3339Nano)
}
