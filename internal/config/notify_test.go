package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMailServer(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "",
		"{mail: {host: smtp.example.org, from: a@b.org}}":      "",
		"{mail: {host: smtp.example.org}}":                     "notify.mail.from",
		"{mail: {host: 'smtp.example.org:25', from: a@b.org}}": "without a port",
		"{mail: {tls: maybe}}":                                 "notify.mail.tls",
		"{mail: {port: 0}}":                                    "notify.mail.port",
		"{mail: {username: croft}}":                            "both or neither",
		"{mail: {domains: ['@example.org']}}":                  "must be a domain",
		"{mail: {domains: [example.org, .example.org]}}":       "",
		"{keep: 40d}": "notify.keep",
		"{mail: {host: smtp.example.org, from: a@b.org, tls: none}}":                                        "",
		"{mail: {host: smtp.example.org, from: a@b.org, tls: none, username: c, password_file: /etc/p}}":    "would show the password",
		"{mail: {host: 127.0.0.1, from: 'Croft <a@b.org>', tls: none, username: c, password_file: /etc/p}}": "",
	} {
		_, err := parse("x", []byte("notify: "+text), nil, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A password that others can read is refused, and no error tells it.
func TestMailPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	m := Mail{PasswordFile: Path(file)}
	for text, mode := range map[string]os.FileMode{"s3cret\nmore": 0o600, "s3cret": 0o644, "\ns3cret": 0o600} {
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		got, err := m.Password()
		if good := text == "s3cret\nmore"; good != (err == nil && got == "s3cret") || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q, %v: %q, %v", text, mode, got, err)
		}
	}
	if got, err := (Mail{}).Password(); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := (Mail{CAFile: Path(file)}).Roots(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("an authority without a certificate: %v", err)
	}
}
