package config

import (
	"net/url"
	"os"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// DatabaseAt is a database that somebody names: a PostgreSQL URL, whose password is in a
// file, or a SQLite file. The error is a *fault.Error.
func DatabaseAt(at, passwordFile string) (Database, error) {
	d := Database{Path: Path(at), PasswordFile: Path(passwordFile)}
	if strings.Contains(at, "://") || strings.Contains(at, "=") {
		d.Path, d.DSN = "", at
	}
	var f fault.Fields
	d.check(&f)
	return d, f.Err()
}

// ConnString returns DSN with the password from PasswordFile, or "" for SQLite.
// It reads the file at each call, so that a changed password needs no restart.
// The error is a *fault.Error and never holds the password.
func (d Database) ConnString() (string, error) {
	if d.DSN == "" || d.PasswordFile == "" {
		return d.DSN, nil
	}
	u, err := url.Parse(d.DSN)
	if err != nil {
		return "", fault.Invalid("database.dsn", "must be a URL such as postgres://croft@localhost/croft")
	}
	password, err := firstLine(d.PasswordFile)
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}

// firstLine is the password in a file that others can't read.
func firstLine(path Path) (string, error) {
	st, err := os.Stat(string(path))
	if err != nil {
		return "", unreadable(string(path), err)
	}
	if st.Mode().Perm()&0o007 != 0 {
		return "", fault.New(codes.Invalid, "%s: others can read the password: chmod o= it", path)
	}
	text, err := readFile(string(path))
	if err != nil {
		return "", err
	}
	password, _, _ := strings.Cut(string(text), "\n")
	password = strings.TrimSuffix(password, "\r")
	if password == "" {
		return "", fault.New(codes.Invalid, "%s: its first line is empty, it must be the password", path)
	}
	return password, nil
}
