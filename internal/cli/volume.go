package cli

import (
	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) volumeCmd() *cobra.Command {
	return group("volume", "Named volumes, which outlive jobs", `  croft volume ls
  croft volume rm cache`,
		a.volumeLsCmd(), a.volumeRmCmd())
}

// owner is whose volumes are meant: by default the caller's.
func (a *app) owner(cmd *cobra.Command, c *v1.Client, user string) (string, error) {
	if user != "" {
		return user, nil
	}
	me, err := c.Me(cmd.Context())
	if err != nil {
		return "", err
	}
	return me.User, nil
}

func (a *app) volumeLsCmd() *cobra.Command {
	user := ""
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List volumes, and what they take of the disk",
		Example: `  croft volume ls
  croft volume ls -u ada`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			name, err := a.owner(cmd, c, user)
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Volumes(cmd.Context(), name))
			if err != nil {
				return err
			}
			t := newTable("VOLUME", ">SIZE", "IN USE")
			for _, v := range list {
				t.row(v.Name, string(v.Size), truth(v.InUse, "yes", "no"))
			}
			return printList(a, list, "no volumes; a job makes one that mounts it: croft run -v NAME:/PATH", t)
		},
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "of another `USER`")
	return cmd
}

func (a *app) volumeRmCmd() *cobra.Command {
	user := ""
	cmd := &cobra.Command{
		Use:     "rm [flags] VOLUME…",
		Short:   "Delete volumes with all that is in them",
		Example: "  croft volume rm cache",
		Args:    needArgs(1, -1, "VOLUME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			name, err := a.owner(cmd, c, user)
			if err != nil {
				return err
			}
			for _, v := range args {
				if err := c.RemoveVolume(cmd.Context(), name, v); err != nil {
					return err
				}
				if err := a.done("removed volume %s", v); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "of another `USER`")
	return cmd
}
