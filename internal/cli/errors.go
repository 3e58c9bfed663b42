package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// exitStatus ends the program with a code and prints nothing more.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usage is an error in how a command was called.
func usage(format string, args ...any) error {
	return &v1.Problem{Title: "Wrong usage", Code: string(codes.Invalid), Detail: fmt.Sprintf(format, args...)}
}

// exit prints err, if any, with what to do next, and returns the exit code.
func (a *app) exit(cmd *cobra.Command, err error) int {
	var status exitStatus
	switch {
	case err == nil:
		return codes.ExitOK
	case errors.As(err, &status):
		return int(status)
	case !a.running:
		// Cobra's own errors, and those of arguments and flags.
		fmt.Fprintf(a.env.Stderr, "%s: %s\n%s\n", called(cmd), clean(firstLine(err)), seeHelp(cmd))
		return codes.ExitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	var p *v1.Problem
	if !errors.As(err, &p) {
		p = &v1.Problem{Code: string(codes.Internal), Detail: err.Error()}
	}
	a.printProblem(called(cmd), p)
	return codes.Of(codes.Code(p.Code)).Exit
}

// exitInterrupted is what shells report of a program that SIGINT ended.
const exitInterrupted = 130

// called is the name that the program goes by.
func called(cmd *cobra.Command) string {
	if cmd == nil {
		return "croft"
	}
	return cmd.Root().Name()
}

func seeHelp(cmd *cobra.Command) string {
	if cmd == nil {
		return "see:  croft --help"
	}
	return "see:  " + cmd.CommandPath() + " --help"
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// printProblem prints an error and what to do next; to a script, the error as it
// came.
func (a *app) printProblem(program string, p *v1.Problem) {
	if a.output == "json" && writeJSON(a.env.Stderr, p, "  ") == nil {
		return
	}
	if codes.Code(p.Code) == codes.Refused {
		a.printRefusal(p)
		return
	}
	w := a.env.Stderr
	switch len(p.Fields) {
	case 0:
		fmt.Fprintf(w, "%s: %s\n", program, clean(p.Error()))
	case 1:
		fmt.Fprintf(w, "%s: %s: %s\n", program, clean(p.Fields[0].Path), clean(p.Fields[0].Message))
	default:
		fmt.Fprintln(w, program+": these fields are wrong:")
		for _, f := range p.Fields {
			fmt.Fprintf(w, "  %s: %s\n", clean(f.Path), clean(f.Message))
		}
	}
	if next := nextStep(p); next != "" {
		fmt.Fprintln(w, next)
	}
}

// nextStep says what a user may do about an error whose text doesn't say it.
func nextStep(p *v1.Problem) string {
	switch codes.Code(p.Code) {
	case codes.Unauthenticated:
		return "try:  croft login URL, or CROFT_TOKEN=… with a token of `croft user token create`"
	case codes.Denied:
		return "see:  croft status, for who you are"
	case codes.Internal:
		if p.Status != 0 {
			return "see:  the server's log has the cause"
		}
	case codes.TooMany:
		return "try:  again in a moment"
	}
	return ""
}

// printRefusal prints why a request was refused and what would be admitted.
func (a *app) printRefusal(p *v1.Problem) {
	head := "refused"
	if p.ID != "" {
		head += " " + clean(p.ID)
	}
	a.printReasons(a.env.Stderr, a.paint(styleBad, head)+": ", len([]rune(head))+2, p.Reasons, p.Error())
	a.printRemedy(a.env.Stderr, p.ID, p.Remedy)
	if p.Remedy != nil && p.Remedy.Flags != "" && p.ID != "" && !strings.HasPrefix(p.ID, "R-") {
		fmt.Fprintf(a.env.Stderr, "try:  croft workspace start %s %s\n", clean(p.ID), clean(p.Remedy.Flags))
	}
}

// printRemedy prints what would be admitted, and the command for it where the
// refused request has a name.
func (a *app) printRemedy(w io.Writer, id string, r *v1.Remedy) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "would be admitted: %s\n", a.remedy(r))
	if strings.HasPrefix(id, "R-") && r.Flags != "" {
		fmt.Fprintf(w, "try:  croft clone %s %s\n", clean(id), clean(r.Flags))
	}
}

// printReasons prints one reason a line after a head, the codes in a column.
func (a *app) printReasons(w io.Writer, head string, indent int, reasons []v1.Reason, otherwise string) {
	if len(reasons) == 0 {
		fmt.Fprintf(w, "%s%s\n", head, clean(otherwise))
		return
	}
	widest := 0
	for _, r := range reasons {
		widest = max(widest, displayWidth(clean(r.Message)))
	}
	widest = min(widest, tableWidth-indent-20)
	for i, r := range reasons {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		fmt.Fprintf(w, "%s%s  %s\n", head, pad(clean(r.Message), widest), clean(r.Code))
	}
}

// remedy is "--gpu 4, starts about 16:40".
func (a *app) remedy(r *v1.Remedy) string {
	what := clean(r.Flags)
	if what == "" {
		what = settings(r.Set)
	}
	if r.Start == nil {
		return what
	}
	return what + ", " + a.starts(*r.Start, r.Exact)
}
