package config

import (
	"crypto/x509"
	"net/mail"
	"net/netip"
	"os"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// Notify says how people are told what happened to what is theirs.
type Notify struct {
	// The server that mail is handed to.
	Mail Mail `yaml:"mail"`
	// URLs that users have notices posted to.
	Webhook Webhook `yaml:"webhook"`
	// For how long a notice that no server takes is tried again, before it is given up.
	Keep Duration `yaml:"keep"`
}

// Webhook says where users may have notices posted to.
type Webhook struct {
	// Hosts that may be posted to; with a dot at its beginning, those below one; * for any.
	// Left out, nothing is posted anywhere.
	Hosts []string `yaml:"hosts" example:"bot.example.org, .example.org"`
	// Networks that aren't public and may be posted to nevertheless: whatever a host's name
	// leads to, other addresses than these and public ones aren't. Plain http goes to these
	// alone.
	Networks []string `yaml:"networks" example:"10.20.0.0/16"`
	// PEM file of the authority that certificates are checked against. Left out, the
	// machine's.
	CAFile Path `yaml:"ca_file" example:"/etc/croft/site-ca.pem"`
	// Posts to one webhook in an hour; more of them wait.
	Hourly int `yaml:"hourly"`
}

// Mail is the server that mail is handed to.
type Mail struct {
	// Its name. Left out, no mail is sent.
	Host string `yaml:"host" example:"smtp.example.org"`
	// TCP port.
	Port int `yaml:"port"`
	// How the connection is kept from others: starttls, which is TLS from its second line on
	// or no mail; implicit, TLS from the first byte, as on port 465; or none.
	TLS string `yaml:"tls"`
	// PEM file of the authority that its certificate is checked against. Left out, the
	// machine's.
	CAFile Path `yaml:"ca_file" example:"/etc/croft/site-ca.pem"`
	// Name to log in by. Left out, there is no login.
	Username string `yaml:"username" example:"croft"`
	// File whose first line is its password. Others than its owner and group must not be able
	// to read it. It is read at each connection.
	PasswordFile Path `yaml:"password_file" example:"/etc/croft/mail.password"`
	// Address that mail is from, perhaps with a name.
	From string `yaml:"from" example:"Croft <croft@example.org>"`
	// Domains that mail is sent to; with a dot at its beginning, those below one. Users then
	// have addresses in these alone, and may have mail about a job sent to others' there.
	// Left out, they have any address of their own, and mail goes to that alone.
	Domains []string `yaml:"domains" example:"example.org, .example.org"`
	// Mails to one address in an hour; more of them wait.
	Hourly int `yaml:"hourly"`
}

// Values of Mail.TLS.
const (
	MailStartTLS = "starttls"
	MailImplicit = "implicit"
	MailPlain    = "none"
)

func (n Notify) check(f *fault.Fields) {
	if n.Keep < hour || n.Keep > 30*day {
		f.Add("notify.keep", "%s must be between 1h and 30d", n.Keep.format())
	}
	n.Webhook.check(f)
	m := n.Mail
	between(f, "notify.mail.port", m.Port, 1, 65535)
	between(f, "notify.mail.hourly", m.Hourly, 1, 1_000_000)
	oneOf(f, "notify.mail.tls", m.TLS, MailStartTLS, MailImplicit, MailPlain)
	for i, d := range m.Domains {
		if !label(strings.ToLower(strings.TrimPrefix(d, "."))) {
			f.Add(element("notify.mail.domains", i), "%q must be a domain such as example.org, or .example.org for those below it", d)
		}
	}
	if (m.Username == "") != (m.PasswordFile == "") {
		f.Add("notify.mail.password_file", "goes with username: give both or neither")
	}
	if m.Host == "" {
		return
	}
	if addr, err := netip.ParseAddr(m.Host); err != nil && !label(strings.ToLower(m.Host)) {
		f.Add("notify.mail.host", "%q must be a host's name without a port, such as smtp.example.org", m.Host)
	} else if local := m.Host == "localhost" || addr.IsLoopback(); m.TLS == MailPlain && m.Username != "" && !local {
		f.Add("notify.mail.tls", "none would show the password to the network: use starttls or implicit, or leave username out")
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		f.Add("notify.mail.from", "%q must be an address such as croft@example.org, or Croft <croft@example.org>", m.From)
	}
}

func (w Webhook) check(f *fault.Fields) {
	between(f, "notify.webhook.hourly", w.Hourly, 1, 1_000_000)
	for i, h := range w.Hosts {
		if _, err := netip.ParseAddr(h); h != "*" && err != nil && !label(strings.ToLower(strings.TrimPrefix(h, "."))) {
			f.Add(element("notify.webhook.hosts", i), "%q must be a host such as bot.example.org, .example.org for those below one, or *", h)
		}
	}
	for i, n := range w.Networks {
		if p, err := netip.ParsePrefix(n); err != nil || p != p.Masked() || p.Addr().Is4In6() {
			f.Add(element("notify.webhook.networks", i), "%q must be a network such as 10.20.0.0/16", n)
		}
	}
}

// Prefixes are the networks; the configuration was checked.
func (w Webhook) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range w.Networks {
		if p, err := netip.ParsePrefix(n); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Roots is what certificates are checked against; nil: the machine's.
func (w Webhook) Roots() (*x509.CertPool, error) { return rootsIn("notify.webhook.ca_file", w.CAFile) }

// Password is the one to log in with; "" for none. The error is a *fault.Error and never
// holds it.
func (m Mail) Password() (string, error) {
	if m.PasswordFile == "" {
		return "", nil
	}
	return firstLine(m.PasswordFile)
}

// Roots is what the server's certificate is checked against; nil: the machine's.
func (m Mail) Roots() (*x509.CertPool, error) { return rootsIn("notify.mail.ca_file", m.CAFile) }

// rootsIn are the authorities in a file; nil: none is given. The error is a *fault.Error.
func rootsIn(field string, file Path) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(string(file))
	if err != nil {
		return nil, unreadable(string(file), err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fault.New(codes.Invalid, "%s: %s has no certificate in PEM", field, file)
	}
	return pool, nil
}
