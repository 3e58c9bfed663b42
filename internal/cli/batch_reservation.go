package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// reservationsToShow is one reservation, or all.
func reservationsToShow(ctx context.Context, c *v1.Client, name string) ([]v1.Reservation, error) {
	if name == "" {
		return v1.Collect(c.Reservations(ctx))
	}
	r, err := c.Reservation(ctx, name)
	if err != nil {
		return nil, err
	}
	return []v1.Reservation{*r}, nil
}

// reservationRecord is what scontrol shows of a reservation: of the window that lasts,
// or the next one.
func (a *app) reservationRecord(r v1.Reservation) record {
	win := v1.ReservationWindow{From: r.From}
	if i := slices.IndexFunc(r.Windows, func(w v1.ReservationWindow) bool { return w.State != "failed" }); i >= 0 {
		win = r.Windows[i]
	}
	var nodes []string
	var cpus, gpus int64
	for _, p := range win.Parts {
		nodes = append(nodes, p.Node)
		n, _ := strconv.ParseInt(wholeCPUs(string(p.CPU)), 10, 64) // what isn't a number counts nothing
		cpus += n
		for _, count := range p.Models {
			gpus += count
		}
	}
	when := func(t time.Time) string {
		if t.IsZero() {
			return "Unknown"
		}
		return t.In(a.env.Zone).Format("2006-01-02T15:04:05")
	}
	list := func(of []string) string { return otherwise(strings.Join(of, ","), "(null)") }
	length, _ := quantitySpan(string(r.Length))
	flags := []string{"SPEC_NODES"}
	if len(r.Nodes) == 0 {
		flags = nil
	}
	if r.Every != "" {
		flags = append(flags, strings.ToUpper(map[string]string{"day": "daily", "weekdays": "weekday"}[r.Every]))
		if flags[len(flags)-1] == "" {
			flags[len(flags)-1] = "WEEKLY"
		}
	}
	var rec record
	rec.line("ReservationName", r.Name, "StartTime", when(win.From), "EndTime", when(win.To), "Duration", spanLong(length))
	rec.line("Nodes", otherwise(foldHosts(nodes), "(null)"), "NodeCnt", strconv.Itoa(len(nodes)), "CoreCnt", strconv.FormatInt(cpus, 10),
		"Features", otherwise(r.Where, "(null)"), "PartitionName", r.Partition, "Flags", strings.Join(flags, ","))
	rec.line("TRES", "cpu="+strconv.FormatInt(cpus, 10)+",gres/gpu="+strconv.FormatInt(gpus, 10))
	rec.line("Users", list(r.Users), "Accounts", list(r.Accounts), "State", truth(r.State == "active", "ACTIVE", "INACTIVE"))
	return rec
}
