package notice

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// maxAddress is the longest address that SMTP takes (RFC 5321, 4.5.3.1.3), in bytes.
const maxAddress = 254

// An address is what nearly all of them are: a dot-atom at a domain. Quoted names, comments
// and addresses of machines by number are left out: they are where programs read an
// address differently, and nobody's.
var (
	localPart = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$")
	domain    = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
)

// CheckAddress says what is wrong with an address of mail.
func CheckAddress(a string) error {
	at := strings.LastIndexByte(a, '@')
	switch {
	case at < 0:
		return errors.New("must be an address such as ada@example.org")
	case len(a) > maxAddress || at > 64:
		return errors.New("is longer than an address of mail may be")
	case !localPart.MatchString(a[:at]), !domain.MatchString(a[at+1:]):
		return errors.New("must be an address alone, such as ada@example.org, of ASCII and without a name")
	}
	return nil
}

// Rules is what a site says of mail.
type Rules struct {
	On      bool     `json:",omitempty"` // there is a server to send it by
	Domains []string `json:",omitempty"` // addresses must be in one of them; none: see Own
}

// Within reports whether an address is in one of the site's domains, or below one that
// begins with a dot.
func (r Rules) Within(address string) bool {
	_, host, _ := strings.Cut(address, "@")
	return among(r.Domains, host)
}

// among reports whether a host is one of the names, or below one that begins with a dot.
func among(names []string, host string) bool {
	host = strings.ToLower(host)
	return slices.ContainsFunc(names, func(n string) bool {
		n = strings.ToLower(n)
		return n == host || strings.HasPrefix(n, ".") && strings.HasSuffix(host, n)
	})
}

// Own says why a user may not have this address as his own.
func (r Rules) Own(address string) error {
	if err := CheckAddress(address); err != nil {
		return err
	}
	if len(r.Domains) > 0 && !r.Within(address) {
		return errors.New("must be in " + strings.Join(r.Domains, ", ") + ": this site sends mail nowhere else")
	}
	return nil
}

// Other says why mail about a job may not go to an address: it has to be its user's own or
// in one of the site's domains, or everybody could have the site write to anybody.
func (r Rules) Other(address, own string) error {
	if err := CheckAddress(address); err != nil {
		return err
	}
	switch {
	case own != "" && strings.EqualFold(address, own), r.Within(address):
		return nil
	case len(r.Domains) > 0:
		return errors.New("must be your own, or in " + strings.Join(r.Domains, ", ") + ": this site sends mail nowhere else")
	case own == "":
		return errors.New("isn't yours, as you have none here: croft notice address " + clip(address))
	}
	return errors.New("must be your own, " + own + ": this site sends mail to others' addresses only in domains that it names (notify.mail.domains)")
}

func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}
