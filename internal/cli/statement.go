package cli

import (
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) statementCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "statement ACCOUNT [PERIOD]",
		Short: "Say where an account's credits went",
		Long: `Say where an account's credits went in a month, by default the current one; to
operators also where each node's device-hours went.`,
		Example: `  croft statement nlp
  croft statement nlp 2026-11`,
		Args:              needArgs(1, 2, "ACCOUNT"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			period := strings.Join(args[1:], "")
			c, err := a.client()
			if err != nil {
				return err
			}
			s, err := c.Statement(cmd.Context(), args[0], period)
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { a.writeStatement(w, s) })
		},
	}
}

func (a *app) writeStatement(w io.Writer, s *v1.Statement) {
	first, hours, amount := 8, 0, 0
	for _, g := range s.Grants {
		first = max(first, displayWidth(clean(g.Source)))
		amount = max(amount, displayWidth(clean(g.Amount)))
	}
	for _, u := range s.Users {
		first = max(first, 2+displayWidth(clean(u.User)))
		hours = max(hours, displayWidth(clean(u.GPUHours)))
		amount = max(amount, displayWidth(clean(u.Charged)))
	}
	for _, n := range s.Devices {
		first = max(first, displayWidth(clean(n.Node)))
	}
	first = min(first, 30)
	name := func(n string) string { return pad(cut(clean(n), first), first) }
	for _, g := range s.Grants {
		fmt.Fprintf(w, "%s  %s  spent %s  left %s%s\n", name(g.Source), left(clean(g.Amount), amount), clean(g.Spent), clean(g.Available), a.pace(s, g))
	}
	for _, u := range s.Users {
		fmt.Fprintf(w, "%s  %s gpu-h  %s  %s\n", name("  "+u.User), left(clean(u.GPUHours), hours), left(clean(u.Charged), amount), plural(int(u.Jobs), "job"))
	}
	for _, n := range s.Devices {
		fmt.Fprintf(w, "%s  %s gpu-h = %s\n", name(n.Node), clean(n.Total), causes(n.By))
	}
	if s.Verified {
		fmt.Fprintln(w, "verified: postings equal metered device-time")
	} else {
		fmt.Fprintln(w, "NOT verified: croft ledger verify")
	}
}

// left pads s on its left to n cells.
func left(s string, n int) string {
	return strings.Repeat(" ", max(0, n-displayWidth(s))) + s
}

// causes is "users 2431 + idle 402", what people used first.
func causes(by map[string]string) string {
	order := []string{"users", "idle", "foreign", "maintenance"}
	for _, k := range slices.Sorted(maps.Keys(by)) {
		if !slices.Contains(order, k) {
			order = append(order, k)
		}
	}
	var parts []string
	for _, k := range order {
		if v, ok := by[k]; ok {
			parts = append(parts, clean(k)+" "+clean(v))
		}
	}
	return strings.Join(parts, " + ")
}

// pace says how long what is left of a grant lasts when it is spent on as it was
// in the statement's period, or when the grant ends before that.
func (a *app) pace(s *v1.Statement, g v1.Grant) string {
	now := a.env.Now()
	from, to := s.From, s.To
	if g.Start != nil && g.Start.After(from) {
		from = *g.Start
	}
	if now.Before(to) {
		to = now
	}
	ends := before(", ends ", a.lastDay(g.End))
	spent, ok1 := new(big.Rat).SetString(g.Spent)
	rest, ok2 := new(big.Rat).SetString(g.Available)
	if !ok1 || !ok2 || spent.Sign() <= 0 || rest.Sign() < 0 || !to.After(from) || len(g.Spent)+len(g.Available) > 60 {
		return ends
	}
	lasts := rest.Mul(rest, new(big.Rat).SetInt64(int64(to.Sub(from))))
	lasts.Quo(lasts, spent)
	ns := new(big.Int).Quo(lasts.Num(), lasts.Denom())
	if !ns.IsInt64() || time.Duration(ns.Int64()) > 50*365*24*time.Hour {
		return ends
	}
	until := now.Add(time.Duration(ns.Int64()))
	if g.End != nil && !until.Before(*g.End) {
		return ends
	}
	return ", at this pace until " + until.In(a.env.Zone).Format(time.DateOnly)
}
