package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) kubeCmd() *cobra.Command {
	return group("kube", "The cluster that jobs run on", `  croft kube plan
  croft kube plan -o json`,
		a.kubePlanCmd())
}

func (a *app) kubePlanCmd() *cobra.Command {
	var status bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what Croft would change in the cluster's batch scheduler",
		Long: `Say what Croft would make, change or delete in the cluster's batch scheduler, so that its
queues are as partitions and shares are. Nothing is changed by it. The server makes these changes
by itself, unless engine.kube.queues is watch. Objects that aren't Croft's are never touched.`,
		Example: `  croft kube plan
  croft kube plan --exit-code -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			plan, err := c.QueuePlan(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.print(plan, func(w io.Writer) { a.queuePlan(w, plan) }); err != nil {
				return err
			}
			if status && len(plan.Changes) > 0 {
				return exitStatus(1)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&status, "exit-code", false, "end with 1 if something differs")
	return cmd
}

// queuePlan writes a plan for people.
func (a *app) queuePlan(w io.Writer, plan *v1.QueuePlan) {
	signs := map[string]string{"create": "+", "update": "~", "delete": "-", "conflict": "!"}
	for _, c := range plan.Changes {
		name := c.Name
		if c.Namespace != "" {
			name = c.Namespace + "/" + name
		}
		fmt.Fprintf(w, "%s %s %s\n", otherwise(signs[c.Action], "?"), clean(c.Kind), clean(name))
		for _, f := range c.Fields {
			fmt.Fprintf(w, "    %s: %s -> %s\n", clean(f.Path), clean(otherwise(f.From, "not set")), clean(otherwise(f.To, "not set")))
		}
		if c.Error != "" {
			fmt.Fprintf(w, "    %s\n", clean(c.Error))
		}
	}
	for _, n := range plan.Notes {
		fmt.Fprintln(w, clean(n))
	}
	switch n := len(plan.Changes); {
	case n == 0:
		fmt.Fprintf(w, "%s: nothing differs\n", clean(plan.Scheduler))
	case plan.Applies:
		fmt.Fprintf(w, "%s: %d to change, which the server does by itself\n", clean(plan.Scheduler), n)
	default:
		fmt.Fprintf(w, "%s: %d would change; engine.kube.queues: apply has the server do it\n", clean(plan.Scheduler), n)
	}
}
