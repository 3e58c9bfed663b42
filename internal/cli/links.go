package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// links are the programs that are croft under another name. Those of CraneSched's
// names come with croft; those of Slurm's only where a site wants them, since Slurm
// itself may be there too. The name crun is an OCI runtime's too, which is why links have
// a folder of their own.
func (a *app) links() (crane, slurm map[string]func() *cobra.Command) {
	crane = map[string]func() *cobra.Command{
		"cqueue": a.cqueueCmd, "cinfo": a.cinfoCmd, "ccancel": a.ccancelCmd, "cacct": a.cacctCmd, "ccontrol": a.ccontrolCmd,
		"cacctmgr": a.cacctmgrCmd, "creport": a.creportCmd, "ccon": a.cconCmd, "cbatch": a.cbatchCmd, "crun": a.crunCmd, "calloc": a.callocCmd, "cattach": a.cattachCmd,
	}
	slurm = map[string]func() *cobra.Command{
		"squeue": a.squeueCmd, "sinfo": a.sinfoCmd, "scancel": a.scancelCmd, "sacct": a.sacctCmd,
		"sbatch": a.sbatchCmd, "srun": a.srunCmd, "scontrol": a.scontrolCmd,
	}
	return crane, slurm
}

// linkNames are the names of the links to make, in order.
func (a *app) linkNames(withSlurm bool) []string {
	crane, slurm := a.links()
	var names []string
	for name := range crane {
		names = append(names, name)
	}
	for name := range slurm {
		if withSlurm {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *app) linksCmd() *cobra.Command {
	var slurm bool
	cmd := &cobra.Command{
		Use:   "links DIR",
		Short: "Make the commands of batch systems: cqueue, squeue and so on",
		Long: `Make a folder with links to croft under the names of CraneSched's commands and,
with --slurm, of Slurm's. Put the folder on PATH to have them. It should hold nothing
else: what isn't a link to croft is left alone, and no other program may have one of
the names.`,
		Example: `  croft setup links /usr/local/lib/croft/bin
  croft setup links --slurm ~/.local/lib/croft/bin`,
		Args: needArgs(1, 1, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			program, err := a.env.Program("croft")
			if err != nil {
				return &v1.Problem{Code: string(codes.Unavailable), Detail: "croft's own program isn't found"}
			}
			dir := args[0]
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(a.env.Dir, dir)
			}
			names := a.linkNames(slurm)
			if err := makeLinks(dir, program, names); err != nil {
				return err
			}
			fmt.Fprintf(a.env.Stdout, "%s: %s to %s\ntry:  PATH=%s:$PATH\n", dir, plural(len(names), "link"), program, dir)
			return nil
		},
	}
	cmd.Flags().BoolVar(&slurm, "slurm", false, "Slurm's names too")
	return cmd
}

// makeLinks makes links of the given names to program. One that is there already is
// made anew; anything else of the name is an error.
func makeLinks(dir, program string, names []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usage("%v", err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch info, err := os.Lstat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return usage("%v", err)
		case info.Mode()&fs.ModeSymlink == 0:
			return usage("%s is there and isn't a link: choose another folder", path)
		default:
			if err := os.Remove(path); err != nil {
				return usage("%v", err)
			}
		}
		if err := os.Symlink(program, path); err != nil {
			return usage("%v", err)
		}
	}
	return nil
}
