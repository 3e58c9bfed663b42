package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/internal/quantity"
)

// Cores are CPU in milli-cores, written as cores: 2, 0.5 or 500m.
type Cores int64

// Bytes are written as 512M, 1.5G or a plain number; the units are powers of 1024.
type Bytes int64

// Duration is a time in nanoseconds, written as 90s, 10m, 2h, 1d12h; a plain number
// is minutes.
type Duration int64

// Factor is a multiplier in thousandths, written as a decimal: 1, 0.5, 1.25.
type Factor int64

// Mode is the permissions of a file, written in octal.
type Mode uint32

// Path is an absolute path of the host.
type Path string

// ID is the number of a user or a group of the machine.
type ID int64

// maxID is the largest: the one above stands for none.
const maxID = 1<<32 - 2

// PortRange is the TCP ports from First to Last, written as 20000-29999, one alone, or
// none.
type PortRange uint32

// ports is the range from first to last.
func ports(first, last uint16) PortRange { return PortRange(first)<<16 | PortRange(last) }

// First is the least port; 0: there is none.
func (v PortRange) First() uint16 { return uint16(v >> 16) }

// Last is the largest port.
func (v PortRange) Last() uint16 { return uint16(v) }

const (
	mib    Bytes    = 1 << 20
	gib    Bytes    = 1 << 30
	second          = Duration(time.Second)
	minute          = Duration(time.Minute)
	hour            = Duration(time.Hour)
	day    Duration = 24 * hour
)

// Std returns d for the standard library.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// FileMode returns m for the standard library.
func (m Mode) FileMode() fs.FileMode { return fs.FileMode(m) }

// scalar is a value that is written as one word.
type scalar interface {
	parse(text string) error
	// format returns the text that parse reads; "" for a value that is left out.
	format() string
	// form says how it is written, for the reference and for messages.
	form() string
}

var (
	_ scalar = (*Cores)(nil)
	_ scalar = (*Bytes)(nil)
	_ scalar = (*Duration)(nil)
	_ scalar = (*Factor)(nil)
	_ scalar = (*Mode)(nil)
	_ scalar = (*Path)(nil)
	_ scalar = (*PortRange)(nil)
	_ scalar = (*ID)(nil)
)

func (v *Cores) parse(text string) error { return into(v, text, quantity.ParseCPU) }
func (v *Cores) format() string          { return quantity.FormatCPU(int64(*v)) }
func (*Cores) form() string              { return "cores, such as 2, 0.5 or 500m" }

func (v *Bytes) parse(text string) error { return into(v, text, quantity.ParseBytes) }
func (v *Bytes) format() string          { return quantity.FormatBytes(int64(*v)) }
func (*Bytes) form() string              { return "a size, such as 512M or 64G" }

func (v *Duration) parse(text string) error { return into(v, text, quantity.ParseDuration) }
func (*Duration) form() string              { return "a time, such as 90s, 30m, 2h or 1d12h" }
func (v *Duration) format() string {
	if *v == 0 {
		return "0"
	}
	return quantity.FormatDuration(int64(*v))
}

func (v *Factor) parse(text string) error { return into(v, text, thousandths) }
func (v *Factor) format() string          { return quantity.FormatDecimal(int64(*v), 3, 0) }
func (*Factor) form() string              { return "a factor, such as 1 or 0.25" }

func thousandths(text string) (int64, error) { return quantity.ParseDecimal(text, 3) }

func (v *Mode) parse(text string) error {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
	if err != nil || n > 0o777 {
		return errors.New("not permissions")
	}
	*v = Mode(n)
	return nil
}
func (v *Mode) format() string { return fmt.Sprintf("%04o", uint32(*v)) }
func (*Mode) form() string     { return "octal permissions, such as 0660" }

func (v *Path) parse(text string) error {
	if err := oneLine(text); err != nil {
		return err
	}
	if text == "" || filepath.IsAbs(text) {
		*v = Path(text)
		if text != "" {
			*v = Path(filepath.Clean(text))
		}
		return nil
	}
	return errors.New("not absolute")
}
func (v *Path) format() string { return string(*v) }
func (*Path) form() string     { return "an absolute path, such as /srv/croft" }

func (v *PortRange) parse(text string) error {
	if text == "none" {
		*v = 0
		return nil
	}
	first, last, two := strings.Cut(text, "-")
	if !two {
		last = first
	}
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || a > b {
		return errors.New("not ports")
	}
	*v = ports(uint16(a), uint16(b))
	return nil
}
func (v *PortRange) format() string {
	if *v == 0 {
		return "none"
	}
	return fmt.Sprintf("%d-%d", v.First(), v.Last())
}
func (*PortRange) form() string { return "ports, such as 20000-29999, or none" }

func (v *ID) parse(text string) error {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > maxID {
		return errors.New("no such id")
	}
	*v = ID(n)
	return nil
}
func (v *ID) format() string { return strconv.FormatInt(int64(*v), 10) }
func (*ID) form() string     { return "the number of a user or group, up to 4294967294" }

// into reads text by read and stores it in v.
func into[T ~int64](v *T, text string, read func(string) (int64, error)) error {
	n, err := read(text)
	if err != nil {
		return err
	}
	*v = T(n)
	return nil
}

// oneLine refuses what would break a log line, a header or a command's output.
func oneLine(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return errors.New("has a line break or control character in it")
	}
	return nil
}
