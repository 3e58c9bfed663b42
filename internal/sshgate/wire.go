package sshgate

import (
	"errors"
	"math"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/engine"
)

// parseString reads a payload that is one string.
func parseString(payload []byte) (string, bool) {
	var v struct{ Text string }
	return v.Text, ssh.Unmarshal(payload, &v) == nil
}

// parsePTY reads a request for a terminal (RFC 4254, 6.2). Its modes are the terminal's
// business, which begins with sane ones.
func parsePTY(payload []byte) (term string, size engine.Size, ok bool) {
	var v struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if ssh.Unmarshal(payload, &v) != nil {
		return "", size, false
	}
	return v.Term, cells(v.Cols, v.Rows), true
}

// parseSize reads a new size of a terminal.
func parseSize(payload []byte) (engine.Size, bool) {
	var v struct{ Cols, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &v) != nil {
		return engine.Size{}, false
	}
	return cells(v.Cols, v.Rows), true
}

func cells(cols, rows uint32) engine.Size {
	return engine.Size{Cols: uint16(min(cols, math.MaxUint16)), Rows: uint16(min(rows, math.MaxUint16))}
}

var errBadRequest = errors.New("a request that can't be read")

// parseDirect reads where a connection is to lead (RFC 4254, 7.2).
func parseDirect(payload []byte) (host string, port uint16, ok bool) {
	var v struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if ssh.Unmarshal(payload, &v) != nil || v.Port == 0 || v.Port > math.MaxUint16 {
		return "", 0, false
	}
	return v.Host, uint16(v.Port), true
}

// parsePlace reads where is to be listened, or no longer (RFC 4254, 7.1).
func parsePlace(payload []byte) (place, bool) {
	var v struct {
		Host string
		Port uint32
	}
	if ssh.Unmarshal(payload, &v) != nil {
		return place{}, false
	}
	return place{v.Host, v.Port}, true
}
