package certs

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"croft.dev/croft/internal/fault"
)

// recheck is how often the files are looked at at most.
const recheck = 10 * time.Second

// files is a certificate in two files, which may be renewed meanwhile.
type files struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu     sync.Mutex
	pair   *tls.Certificate
	seen   stamp
	looked time.Time
}

// stamp tells one state of the two files from another.
type stamp struct{ cert, key version }

type version struct {
	changed time.Time
	size    int64
}

func open(cert, key string, log *slog.Logger) (*files, error) {
	f := &files{cert: cert, key: key, log: log, now: time.Now}
	if err := f.read(); err != nil {
		return nil, err
	}
	f.looked = f.now()
	return f, nil
}

// read takes the pair over, if it is one.
func (f *files) read() error {
	seen, err := f.stamp()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fault.Invalid("tls.cert", "%s and %s are no certificate and its key: %v", f.cert, f.key, err)
	}
	f.pair, f.seen = &pair, seen
	switch end := pair.Leaf.NotAfter; {
	case end.Before(f.now()):
		f.log.Warn("the certificate has expired: browsers will refuse it", "file", f.cert, "expired", end)
	case end.Before(f.now().AddDate(0, 0, 14)):
		f.log.Warn("the certificate expires soon", "file", f.cert, "expires", end)
	}
	return nil
}

func (f *files) stamp() (s stamp, err error) {
	c, err := os.Stat(f.cert)
	if err != nil {
		return s, fault.Invalid("tls.cert", "%v", err)
	}
	k, err := os.Stat(f.key)
	if err != nil {
		return s, fault.Invalid("tls.key", "%v", err)
	}
	if k.Mode().Perm()&0o007 != 0 {
		return s, fault.Invalid("tls.key", "everybody may read or change %s: chmod o= it", f.key)
	}
	of := func(i fs.FileInfo) version { return version{i.ModTime(), i.Size()} }
	return stamp{of(c), of(k)}, nil
}

// certificate is the newest pair. A new one that is none yet, as amid a renewal, is
// looked at again; the one before serves meanwhile.
func (f *files) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.looked) >= recheck {
		f.looked = now
		if s, err := f.stamp(); err != nil || s != f.seen {
			if err == nil {
				err = f.read()
			}
			if err != nil {
				f.log.Warn("the changed certificate isn't used", "error", err)
			} else {
				f.log.Info("the certificate was read again", "file", f.cert, "expires", f.pair.Leaf.NotAfter)
			}
		}
	}
	return f.pair, nil
}
