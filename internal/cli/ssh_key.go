package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) sshKeyCmd() *cobra.Command {
	return group("ssh-key", "Public keys, by which SSH knows you", `  croft ssh-key add ~/.ssh/id_ed25519.pub
  croft ssh-key ls
  croft ssh-key rm ada@laptop`,
		a.sshKeyAddCmd(), a.sshKeyLsCmd(), a.sshKeyRmCmd())
}

func (a *app) sshKeyAddCmd() *cobra.Command {
	var user, expires string
	var in v1.SSHKeyRequest
	cmd := &cobra.Command{
		Use:   "add [flags] FILE|-",
		Short: "Register a public key",
		Long: `Register a public key, so that whoever has its private half may log in to your jobs by
SSH. FILE is the public half, which ends in .pub; - reads it from standard input. A key
that is yours already gets the new name and end.`,
		Example: `  croft ssh-key add ~/.ssh/id_ed25519.pub
  ssh-add -L | head -1 | croft ssh-key add --name agent -`,
		Args: needArgs(1, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if in.Key, err = a.readPublicKey(args[0]); err != nil {
				return err
			}
			if in.Expires, err = a.whenFlag(expires, endOfDay); err != nil {
				return err
			}
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			got, err := c.AddSSHKey(cmd.Context(), name, in)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "%s of %s, %s, registered\n", clean(got.Fingerprint), clean(name), clean(got.Name))
			})
		},
	}
	a.sshKeyUserFlag(cmd, &user)
	cmd.Flags().StringVar(&in.Name, "name", "", "what you call it; by default the key's own comment")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: +90d or a date; by default never")
	return cmd
}

// maxPublicKey is more than the server takes, in bytes.
const maxPublicKey = 64 << 10

// readPublicKey reads a key from a file, or standard input. It goes nowhere if it is a
// private one, which is the file's name without its end.
func (a *app) readPublicKey(name string) (string, error) {
	from := a.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", usage("%v", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxPublicKey))
	if err != nil {
		return "", usage("nothing was read: %v", err)
	}
	if strings.Contains(string(text), "PRIVATE KEY-----") {
		return "", usage("%s is a private key, which stays here: give its public half, %s.pub", name, name)
	}
	return string(text), nil
}

func (a *app) sshKeyUserFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVarP(user, "user", "u", "", "whose key, by default yours")
	a.completeFlag(cmd, "user", a.userNames)
}

func (a *app) sshKeyLsCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List registered keys",
		Example: "  croft ssh-key ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.SSHKeys(cmd.Context(), name))
			if err != nil {
				return err
			}
			t := newTable("FINGERPRINT", "TYPE", "~NAME", "ADDED", "ENDS")
			for _, k := range list {
				ends := "never"
				if k.Expires != nil {
					ends = a.clock(*k.Expires)
				}
				t.row(k.Fingerprint, strings.TrimPrefix(k.Type, "ssh-"), k.Name, a.clock(k.Created), ends)
			}
			return printList(a, list, "no keys: croft ssh-key add ~/.ssh/id_ed25519.pub", t)
		},
	}
	a.sshKeyUserFlag(cmd, &user)
	return cmd
}

func (a *app) sshKeyRmCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "rm KEY",
		Short: "Remove a key, and end what is open by it",
		Example: `  croft ssh-key rm ada@laptop
  croft ssh-key rm SHA256:uDvLBnRDbZJ6pkWa8+Kx0r8qBl7oWjZ4VtkcMtrcCVk`,
		Args:              needArgs(1, 1, "KEY"),
		ValidArgsFunction: firstArg(a.sshKeyNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.SSHKeys(cmd.Context(), name))
			if err != nil {
				return err
			}
			key, err := keyNamed(list, args[0])
			if err != nil {
				return err
			}
			if err := c.RemoveSSHKey(cmd.Context(), name, key); err != nil {
				return err
			}
			return a.done("%s of %s removed", key, name)
		},
	}
	a.sshKeyUserFlag(cmd, &user)
	return cmd
}

// keyNamed is the fingerprint of the one key that a word means: by its fingerprint or by
// its name.
func keyNamed(list []v1.SSHKey, word string) (string, error) {
	var found []string
	for _, k := range list {
		if k.Fingerprint == word {
			return word, nil
		}
		if k.Name == word {
			found = append(found, k.Fingerprint)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", usage("no key is called %s: see croft ssh-key ls", cmp.Or(clean(word), `""`))
	}
	return "", usage("%d keys are called %s: give the fingerprint of one, %s", len(found), clean(word), clean(strings.Join(found, " or ")))
}
