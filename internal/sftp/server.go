package sftp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// version is the only one that clients use.
const version = 3

// extensions are those of OpenSSH that there are, with their versions.
var extensions = [][2]string{
	{"posix-rename@openssh.com", "1"}, {"statvfs@openssh.com", "2"}, {"fstatvfs@openssh.com", "2"}, {"hardlink@openssh.com", "1"},
	{"fsync@openssh.com", "1"}, {"lsetstat@openssh.com", "1"}, {"limits@openssh.com", "1"}, {"expand-path@openssh.com", "1"},
}

// maxHandles bounds the files and folders that are open at once.
const maxHandles = 512

// server is one client's.
type server struct {
	in      *bufio.Reader
	out     *bufio.Writer
	handles map[string]*handle
	last    int    // number of a handle
	data    []byte // what is read of a file
}

// handle is a file or a folder that is open.
type handle struct {
	*os.File
	append bool
	dir    bool
	path   string
}

// Serve answers a client until it goes. An error says that it spoke something else.
func Serve(in io.Reader, out io.Writer) error {
	s := &server{in: bufio.NewReaderSize(in, maxPacket), out: bufio.NewWriterSize(out, maxPacket+64), handles: map[string]*handle{}}
	defer func() {
		for _, h := range s.handles {
			h.Close()
		}
	}()
	err := s.serve()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func (s *server) serve() error {
	var buf []byte
	var err error
	if buf, err = readPacket(s.in, buf); err != nil {
		return err
	}
	if buf[0] != typeInit || len(buf) < 5 {
		return errPacket
	}
	hello := append(reply{0, 0, 0, 0, typeVersion}, 0, 0, 0, version)
	for _, e := range extensions {
		hello = hello.string(e[0]).string(e[1])
	}
	if _, err := s.out.Write(hello.whole()); err != nil {
		return err
	}
	for {
		if s.in.Buffered() == 0 { // nothing more is asked for now
			if err := s.out.Flush(); err != nil {
				return err
			}
		}
		if buf, err = readPacket(s.in, buf); err != nil {
			return err
		}
		if err := s.answer(buf); err != nil {
			return err
		}
	}
}

// answer answers a request.
func (s *server) answer(packet []byte) error {
	r := &request{b: packet[1:]}
	id := r.uint32()
	if r.bad {
		return errPacket
	}
	out, err := s.do(packet[0], id, r)
	if r.bad {
		out, err = nil, errBad
	}
	if err != nil || out == nil {
		out = status(id, err)
	}
	_, err = s.out.Write(out.whole())
	return err
}

var (
	errBad         = errors.New("bad message")
	errUnsupported = errors.New("operation unsupported")
)

// status says how a request went; nil is well.
func status(id uint32, err error) reply {
	code, text := uint32(statusFailure), "Success"
	if err != nil {
		text = err.Error()
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		text = path.Err.Error() // the client knows which
	}
	switch {
	case err == nil:
		code = statusOK
	case errors.Is(err, io.EOF):
		code = statusEOF
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		code = statusNoSuchFile
	case errors.Is(err, fs.ErrPermission):
		code = statusDenied
	case errors.Is(err, errBad):
		code = statusBadMessage
	case errors.Is(err, errUnsupported):
		code = statusUnsupported
	}
	return newReply(typeStatus, id).uint32(code).string(text).string("")
}

// do does what is asked for. Without a reply, how it went is told.
func (s *server) do(kind byte, id uint32, r *request) (reply, error) {
	switch kind {
	case typeOpen:
		return s.open(id, r.string(), r.uint32(), r.attrs())
	case typeOpendir:
		return s.opendir(id, r.string())
	case typeClose:
		return nil, s.closeHandle(r.string())
	case typeRead:
		return s.read(id, r.string(), r.uint64(), r.uint32())
	case typeWrite:
		return nil, s.write(r.string(), r.uint64(), r.bytes(), r)
	case typeReaddir:
		return s.readdir(id, r.string())
	case typeLstat:
		return described(id)(os.Lstat(r.string()))
	case typeStat:
		return described(id)(os.Stat(r.string()))
	case typeFstat:
		h, err := s.handle(r.string())
		if err != nil {
			return nil, err
		}
		return described(id)(h.Stat())
	case typeFsetstat:
		h, err := s.handle(r.string())
		if err != nil {
			return nil, err
		}
		return nil, setFile(h.File, r.attrs(), r)
	case typeExtended:
		return s.extended(id, r)
	}
	return named(kind, id, r)
}

// put keeps what was opened, and names it to the client.
func (s *server) put(id uint32, h *handle) reply {
	s.last++
	name := strconv.Itoa(s.last)
	s.handles[name] = h
	return newReply(typeHandle, id).string(name)
}

var errHandle = errors.New("no such handle")

func (s *server) handle(name string) (*handle, error) {
	if h, ok := s.handles[name]; ok {
		return h, nil
	}
	return nil, errHandle
}

func (s *server) closeHandle(name string) error {
	h, err := s.handle(name)
	if err != nil {
		return err
	}
	delete(s.handles, name)
	return h.Close()
}

// Flags of an open.
const (
	openRead   = 1
	openWrite  = 2
	openAppend = 4
	openCreate = 8
	openTrunc  = 0x10
	openExcl   = 0x20
)

func (s *server) open(id uint32, path string, flags uint32, a attrs) (reply, error) {
	if len(s.handles) >= maxHandles {
		return nil, syscall.EMFILE
	}
	how := os.O_RDONLY
	switch flags & (openRead | openWrite) {
	case openRead | openWrite:
		how = os.O_RDWR
	case openWrite:
		how = os.O_WRONLY
	}
	for _, f := range []struct {
		asked uint32
		flag  int
	}{{openAppend, os.O_APPEND}, {openCreate, os.O_CREATE}, {openTrunc, os.O_TRUNC}, {openExcl, os.O_EXCL}} {
		if flags&f.asked != 0 {
			how |= f.flag
		}
	}
	mode := fs.FileMode(0o666)
	if a.flags&hasMode != 0 {
		mode = fs.FileMode(a.mode & 0o777)
	}
	f, err := os.OpenFile(path, how, mode)
	if err != nil {
		return nil, err
	}
	return s.put(id, &handle{File: f, append: flags&openAppend != 0, path: path}), nil
}

func (s *server) read(id uint32, name string, offset uint64, n uint32) (reply, error) {
	h, err := s.handle(name)
	if err != nil {
		return nil, err
	}
	// The data goes to the right place at once: it is most of what is ever sent.
	const head = 4 + 1 + 4 + 4
	if s.data == nil {
		s.data = make([]byte, head+maxData)
	}
	got, err := h.ReadAt(s.data[head:head+min(n, maxData)], int64(offset))
	if got == 0 && err != nil {
		return nil, err
	}
	out := reply(s.data[:head+got])
	out[4] = typeData
	binary.BigEndian.PutUint32(out[5:], id)
	binary.BigEndian.PutUint32(out[9:], uint32(got))
	return out, nil
}

func (s *server) write(name string, offset uint64, data []byte, r *request) error {
	h, err := s.handle(name)
	if err != nil || r.bad {
		return err
	}
	if h.append {
		_, err = h.Write(data)
		return err
	}
	_, err = h.WriteAt(data, int64(offset))
	return err
}
