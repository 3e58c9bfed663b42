package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) imageCmd() *cobra.Command {
	return group("image", "Images saved from jobs", `  croft image save 118 env:v2
  croft image ls
  croft image share env:v2 nlp`,
		a.imageSaveCmd(), a.imageLsCmd(), a.imageShowCmd(), a.imageShareCmd(), a.imageRmCmd())
}

// imageName is the whole name of an image: a short one is the caller's own.
func (a *app) imageName(ctx context.Context, c *v1.Client, name string) (string, error) {
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, v1.ImageRegistry) {
			return "", usage("%s wasn't saved from a job: those are called %sUSER/NAME:TAG", clean(name), v1.ImageRegistry)
		}
		return name, nil
	}
	me, err := c.Me(ctx)
	return v1.ImageRegistry + me.User + "/" + name, err
}

func (a *app) imageSaveCmd() *cobra.Command {
	var in v1.ImageSave
	var detach bool
	cmd := &cobra.Command{
		Use:   "save [flags] JOB NAME[:TAG]",
		Short: "Save what a job has written in its container as an image",
		Long: `Save what a running job has written in its container, over the image that it was
started from, as an image of your own, croft.local/USER/NAME:TAG, which jobs can use at
once. The job goes on meanwhile: save when nothing is being installed. Nothing of what is
mounted is in it (your home, shared folders, volumes), nor what is in /tmp and /run.
Packages that were added are noted: croft image show.`,
		Example: `  croft image save 118 env:v2
  croft image save 118.2 env -m "with flash-attn"
  croft image save 118 env:v2 -A nlp`,
		Args: needArgs(2, 2, "JOB and NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, n, err := jobOrStep(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			in.Name, in.Step = args[1], n
			img, err := c.SaveImage(cmd.Context(), job, in)
			if err == nil && !detach {
				img, err = a.awaitImage(cmd.Context(), c, img)
			}
			if err != nil {
				return err
			}
			return a.print(img, func(w io.Writer) { a.savedText(w, img) })
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&in.Account, "account", "A", "", "let the members of this account use it too")
	fs.StringVarP(&in.Comment, "message", "m", "", "what it is")
	fs.BoolVarP(&detach, "detach", "d", false, "don't wait until it is there")
	a.completeFlag(cmd, "account", a.accountNames)
	return cmd
}

// imagePoll is how often an image is asked for that is being saved.
const imagePoll = 500 * time.Millisecond

// awaitImage shows how far an image is until it is there or can't be.
func (a *app) awaitImage(ctx context.Context, c *v1.Client, img *v1.Image) (*v1.Image, error) {
	bar := progress{w: a.env.Stderr, inPlace: a.env.Term.Err, now: a.env.Now}
	defer bar.clear()
	for img.State == "saving" {
		bar.show("saving "+clean(img.Name)+": "+clean(img.Progress), false)
		select {
		case <-ctx.Done():
			return img, ctx.Err()
		case <-time.After(imagePoll):
		}
		var err error
		if img, err = c.Image(ctx, img.Name); err != nil {
			return img, err
		}
	}
	if img.State == "failed" {
		bar.clear()
		return img, &v1.Problem{Title: "Not saved", Code: string(codes.Conflict), Detail: img.Name + " wasn't saved: " + img.Note}
	}
	return img, nil
}

func (a *app) savedText(w io.Writer, img *v1.Image) {
	if img.State != "ready" {
		fmt.Fprintf(w, "%s is being saved: croft image show %s\n", clean(img.Name), clean(img.Name))
		return
	}
	fmt.Fprintf(w, "saved %s: %s more than %s%s\n", clean(img.Name), clean(string(img.Size)), clean(img.Base), packageCounts(img.Packages))
}

// packageCounts is ", pip 3, apt 1" for the packages that an image changes.
func packageCounts(list []v1.Package) string {
	text, n := "", 0
	for i, p := range list { // by manager
		if n++; i+1 == len(list) || list[i+1].Manager != p.Manager {
			text += fmt.Sprintf(", %s %d", clean(p.Manager), n)
			n = 0
		}
	}
	return text
}

func (a *app) imageLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List images saved from jobs: yours, and those shared with you",
		Example: "  croft image ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Images(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~IMAGE", ">SIZE", "STATE", "~SHARED WITH", "~BASE", "SAVED", "~MESSAGE")
			for _, i := range list {
				state := i.State
				if i.Progress != "" {
					state = i.Progress
				}
				t.row(i.Name, string(i.Size), state, i.Account, i.Base, a.clock(i.Made), i.Comment)
			}
			return printList(a, list, "no images; save one from a running job: croft image save JOB NAME:TAG", t)
		},
	}
}

func (a *app) imageShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show IMAGE",
		Short:             "Show an image saved from a job, with the packages that it adds",
		Example:           "  croft image show env:v2\n  croft image show croft.local/ben/env:v1 -o json",
		Args:              needArgs(1, 1, "IMAGE"),
		ValidArgsFunction: firstArg(a.imageNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			name, err := a.imageName(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			img, err := c.Image(cmd.Context(), name)
			if err != nil {
				return err
			}
			return a.print(img, func(w io.Writer) { a.imageText(w, img) })
		},
	}
}

func (a *app) imageText(w io.Writer, img *v1.Image) {
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-10s %s\n", what, clean(text))
		}
	}
	line("image", img.Name)
	line("state", img.State)
	line("progress", img.Progress)
	line("why", img.Note)
	line("user", img.User)
	line("shared", img.Account)
	line("saved", a.clock(img.Made)+" from job "+img.Job)
	line("base", img.Base)
	line("size", string(img.Size)+" more than its base")
	line("digest", img.Digest)
	line("message", img.Comment)
	for _, p := range img.Packages {
		fmt.Fprintf(w, "%-10s %s\n", clean(p.Manager), clean(packageText(p)))
	}
}

// packageText is "numpy 1.26 → 2.1", "six 1.17" or "six removed".
func packageText(p v1.Package) string {
	switch {
	case p.Version == "":
		return p.Name + " removed, was " + p.Was
	case p.Was != "":
		return p.Name + " " + p.Was + " → " + p.Version
	}
	return p.Name + " " + p.Version
}

func (a *app) imageShareCmd() *cobra.Command {
	var end bool
	cmd := &cobra.Command{
		Use:               "share [flags] IMAGE [ACCOUNT]",
		Short:             "Let the members of an account use an image",
		Example:           "  croft image share env:v2 nlp\n  croft image share --end env:v2",
		Args:              needArgs(1, 2, "IMAGE and ACCOUNT"),
		ValidArgsFunction: firstArg(a.imageNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if end != (len(args) == 1) {
				return usage("with whom? croft image share IMAGE ACCOUNT, or --end IMAGE")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			name, err := a.imageName(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			img, err := c.ShareImage(cmd.Context(), name, v1.ImageShare{Account: strings.Join(args[1:], "")})
			if err != nil {
				return err
			}
			return a.print(img, func(w io.Writer) {
				if img.Account == "" {
					fmt.Fprintf(w, "%s is yours alone\n", clean(img.Name))
					return
				}
				fmt.Fprintf(w, "members of %s may use %s\n", clean(img.Account), clean(img.Name))
			})
		},
	}
	cmd.Flags().BoolVar(&end, "end", false, "let nobody else use it any more")
	return cmd
}

func (a *app) imageRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "rm IMAGE…",
		Short:             "Remove images saved from jobs that no job uses",
		Example:           "  croft image rm env:v1",
		Args:              needArgs(1, -1, "IMAGE"),
		ValidArgsFunction: firstArg(a.imageNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			for _, arg := range args {
				name, err := a.imageName(cmd.Context(), c, arg)
				if err != nil {
					return err
				}
				if err := c.RemoveImage(cmd.Context(), name); err != nil {
					return err
				}
				if err := a.done("removed %s", name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
