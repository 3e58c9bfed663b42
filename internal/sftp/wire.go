package sftp

import (
	"encoding/binary"
	"errors"
	"io"
)

// Types of packets.
const (
	typeInit          = 1
	typeVersion       = 2
	typeOpen          = 3
	typeClose         = 4
	typeRead          = 5
	typeWrite         = 6
	typeLstat         = 7
	typeFstat         = 8
	typeSetstat       = 9
	typeFsetstat      = 10
	typeOpendir       = 11
	typeReaddir       = 12
	typeRemove        = 13
	typeMkdir         = 14
	typeRmdir         = 15
	typeRealpath      = 16
	typeStat          = 17
	typeRename        = 18
	typeReadlink      = 19
	typeSymlink       = 20
	typeStatus        = 101
	typeHandle        = 102
	typeData          = 103
	typeName          = 104
	typeAttrs         = 105
	typeExtended      = 200
	typeExtendedReply = 201
)

// Codes of a status.
const (
	statusOK          = 0
	statusEOF         = 1
	statusNoSuchFile  = 2
	statusDenied      = 3
	statusFailure     = 4
	statusBadMessage  = 5
	statusUnsupported = 8
)

// Bounds, in bytes: of a packet, and of what is read or written by one. They are
// OpenSSH's, and told to the client.
const (
	maxPacket = 256 << 10
	maxData   = maxPacket - 1024
)

var errPacket = errors.New("sftp: a packet that is too long or too short")

// readPacket reads the next packet into buf, which it may grow.
func readPacket(r io.Reader, buf []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return buf, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxPacket {
		return buf, errPacket
	}
	if cap(buf) < int(n) {
		buf = make([]byte, maxPacket)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf, io.ErrUnexpectedEOF
	}
	return buf, nil
}

// request is what is left to be read of a packet. One that is too short reads as zeros,
// and is bad from then on.
type request struct {
	b   []byte
	bad bool
}

func (r *request) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *request) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *request) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// bytes is a string that is good until the next packet.
func (r *request) bytes() []byte {
	n := r.uint32()
	if n > maxPacket {
		r.b, r.bad = nil, true
		return nil
	}
	return r.take(int(n))
}

func (r *request) string() string { return string(r.bytes()) }

// attrs are what is known or wanted of a file. What flags don't name isn't.
type attrs struct {
	flags        uint32
	size         uint64
	uid, gid     uint32
	mode         uint32
	atime, mtime uint32
}

const (
	hasSize     = 1
	hasOwner    = 2
	hasMode     = 4
	hasTimes    = 8
	hasExtended = 1 << 31
)

func (r *request) attrs() attrs {
	a := attrs{flags: r.uint32()}
	if a.flags&hasSize != 0 {
		a.size = r.uint64()
	}
	if a.flags&hasOwner != 0 {
		a.uid, a.gid = r.uint32(), r.uint32()
	}
	if a.flags&hasMode != 0 {
		a.mode = r.uint32()
	}
	if a.flags&hasTimes != 0 {
		a.atime, a.mtime = r.uint32(), r.uint32()
	}
	if a.flags&hasExtended != 0 {
		for n := r.uint32(); n > 0 && !r.bad; n-- {
			r.bytes()
			r.bytes()
		}
	}
	return a
}

// reply is a packet that is being put together. Its length comes first, at the end.
type reply []byte

func newReply(kind byte, id uint32) reply {
	r := append(make(reply, 0, 64), 0, 0, 0, 0, kind)
	return r.uint32(id)
}

func (r reply) uint32(n uint32) reply { return binary.BigEndian.AppendUint32(r, n) }
func (r reply) uint64(n uint64) reply { return binary.BigEndian.AppendUint64(r, n) }

func (r reply) string(s string) reply { return append(r.uint32(uint32(len(s))), s...) }

func (r reply) attrs(a attrs) reply {
	r = r.uint32(a.flags)
	if a.flags&hasSize != 0 {
		r = r.uint64(a.size)
	}
	if a.flags&hasOwner != 0 {
		r = r.uint32(a.uid).uint32(a.gid)
	}
	if a.flags&hasMode != 0 {
		r = r.uint32(a.mode)
	}
	if a.flags&hasTimes != 0 {
		r = r.uint32(a.atime).uint32(a.mtime)
	}
	return r
}

// whole is the packet with its length.
func (r reply) whole() []byte {
	binary.BigEndian.PutUint32(r, uint32(len(r)-4))
	return r
}
