package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usernsFlag is whether containers have fake root, also in the words of other programs'
// flags, which are boolean.
type usernsFlag string

// Set implements pflag.Value.
func (u *usernsFlag) Set(s string) error {
	value, ok := map[string]usernsFlag{"on": "on", "auto": "auto", "off": "off", "true": "on", "false": "off"}[s]
	if !ok {
		return errors.New("must be on, auto or off")
	}
	*u = value
	return nil
}

// String implements pflag.Value.
func (u *usernsFlag) String() string { return string(*u) }

// Type implements pflag.Value.
func (u *usernsFlag) Type() string { return "on|auto|off" }

// usernsFlags registers the flags for whom the containers run as.
func (f *specFlags) usernsFlags(fs *pflag.FlagSet, short string) {
	fs.Var((*usernsFlag)(&f.pod.Userns), "userns", "fake root in the containers; auto: where it can be, else as you")
	fs.Lookup("userns").NoOptDefVal = "on"
	fs.StringVarP(&f.pod.User, "user", short, "", "whom the containers run as, `UID[:GID]`: with fake root anybody")
}

// noUserns registers the flag that other programs have for it.
func (f *specFlags) noUserns(cmd *cobra.Command) {
	cmd.Flags().BoolFunc("no-userns", "run as you, with your own ids", func(string) error {
		f.pod.Userns = "off"
		return nil
	})
	cmd.MarkFlagsMutuallyExclusive("userns", "no-userns")
}
