package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/app"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/store"
)

// databaseCmd is croftd db. croft db runs it.
func (d *daemon) databaseCmd() *cobra.Command {
	db := &cobra.Command{Use: "db", Short: "Back up, restore and copy the database", Args: cobra.NoArgs}
	backup := &cobra.Command{
		Use: "backup FILE", Short: "Write the database to a file, while the server runs",
		Long: `Write the database to a new file as it is at this moment, while the server runs or
not, on SQLite and PostgreSQL alike. The file appears when all of it is on disk, and can
be read by you alone: it holds what the database does, hashes of passwords and tokens too.`,
		Example: "  croft db backup /backup/croft-2026-11-30\n  croft db backup /backup/croft-2026-11-30 -o json",
		Args:    cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			return d.database(func(ctx context.Context, c config.Config, p store.Progress) (app.Backup, error) {
				return app.BackUp(ctx, c, args[0], p)
			})
		},
	}
	check := &cobra.Command{
		Use: "check FILE", Short: "Read a backup to its end and say what it is of",
		Long:    "Read a backup to its end, compare it with its own SHA-256 and say what it is of.\nNo database is touched.",
		Example: "  croft db check /backup/croft-2026-11-30",
		Args:    cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			return d.database(func(context.Context, config.Config, store.Progress) (app.Backup, error) {
				return app.CheckBackup(args[0])
			})
		},
	}
	restore := &cobra.Command{
		Use: "restore FILE", Short: "Make the database from a backup; the server must not run",
		Long: `Make the database from a backup, which is read to its end and compared with its own
SHA-256 first. The server must not run. A SQLite database that is there is kept beside;
a PostgreSQL database has to be new. Until all is in it and was read again, nothing changes.`,
		Example: "  systemctl stop croft\n  croft db restore /backup/croft-2026-11-30\n  croft db restore --data /srv/croft /backup/croft-2026-11-30",
		Args:    cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			return d.database(func(ctx context.Context, c config.Config, p store.Progress) (app.Backup, error) {
				return app.Restore(ctx, c, args[0], p)
			})
		},
	}
	var to, password string
	duplicate := &cobra.Command{
		Use: "copy --to DATABASE", Short: "Copy the database to another, SQLite to PostgreSQL; the server must not run",
		Long: `Copy all rows of the configuration's database to another one, which must be new, and
compare both. The server must not run. Then name the other one in the configuration.`,
		Example: "  croft db copy --to postgres://croft@db.example.org/croft --password-file /etc/croft/database.password\n  croft db copy --to /var/lib/croft/croft.db    # back to SQLite",
		Args:    cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			target, err := config.DatabaseAt(to, password)
			if err != nil {
				return err
			}
			return d.database(func(ctx context.Context, c config.Config, p store.Progress) (app.Backup, error) {
				return app.CopyDatabase(ctx, c, target, p)
			})
		},
	}
	duplicate.Flags().StringVar(&to, "to", "", "where to: a PostgreSQL URL without a password, or a SQLite file")
	duplicate.Flags().StringVar(&password, "password-file", "", "file whose first line is the password")
	_ = duplicate.MarkFlagRequired("to") // it was defined just now
	for _, c := range []*cobra.Command{backup, check, restore, duplicate} {
		c.Flags().StringVarP(&d.asJSON, "output", "o", "text", "text or json")
		db.AddCommand(c)
	}
	return db
}

// database does something with the database and prints what came of it. Books that don't
// hold are an error, told after the rest.
func (d *daemon) database(do func(context.Context, config.Config, store.Progress) (app.Backup, error)) error {
	if d.asJSON != "text" && d.asJSON != "json" {
		return fault.Invalid("--output", "must be text or json")
	}
	cfg, err := d.config()
	if err != nil {
		return err
	}
	d.running = true
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	progress, clear := d.progress()
	b, err := do(ctx, cfg, progress)
	clear()
	if err != nil {
		return err
	}
	if d.asJSON == "json" {
		enc := json.NewEncoder(d.out)
		enc.SetIndent("", "  ")
		err = enc.Encode(b)
	} else {
		err = writeBackup(d.out, b)
	}
	if err == nil && b.Ledger != nil && !b.Ledger.OK {
		err = fmt.Errorf("the ledger differs: croft ledger verify says where")
	}
	return err
}

func writeBackup(w io.Writer, b app.Backup) error {
	m := b.Manifest
	lines := [][2]string{
		{"file", b.Path}, {"sha256", b.SHA256}, {"instance", m.Instance}, {"as of", time.Unix(0, m.At).UTC().Format(time.RFC3339)},
		{"log row", fmt.Sprint(m.Seq)}, {"rows", fmt.Sprint(m.Rows())}, {"schema", fmt.Sprint(m.Schema)}, {"kept aside", b.Kept},
	}
	if b.Ledger != nil {
		says := fmt.Sprintf("verified, %d transfers", b.Ledger.Transfers)
		for _, c := range b.Ledger.Checks {
			if !c.OK {
				says = "DIFFERS: " + c.Name + ": " + c.First
				break
			}
		}
		lines = append(lines, [2]string{"ledger", says})
	}
	for _, l := range lines {
		if l[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-11s %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// progress shows how far a backup is where somebody looks; clear takes that away.
func (d *daemon) progress() (show store.Progress, clear func()) {
	f, ok := d.err.(*os.File)
	if !ok {
		return nil, func() {}
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil, func() {}
	}
	last := time.Time{}
	show = func(done, total int64) {
		if total > 0 && time.Since(last) > 200*time.Millisecond {
			last = time.Now()
			fmt.Fprintf(f, "\r%3d %%  %d of %d rows\x1b[K", done*100/total, done, total)
		}
	}
	return show, func() { fmt.Fprint(f, "\r\x1b[K") }
}
