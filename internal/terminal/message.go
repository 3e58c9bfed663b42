package terminal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Kinds of messages. Those that the API has too have the same numbers there.
const (
	Input      byte = 0 // to the keeper: bytes that are typed
	Output     byte = 1 // from it: bytes that the shell writes, counted
	Exit       byte = 3 // an Ended; the last message
	Resize     byte = 4 // a Size: to the keeper that of who joined, from it the terminal's
	JoinedAs   byte = 6 // a Joined; again when a slow one has lost some
	Screen     byte = 7 // bytes that restore the screen before the output goes on, not counted
	HelloAs    byte = 8 // a Hello
	Listing    byte = 9 // a list of Info
	RefusedFor byte = 10
)

// MaxMessage bounds what a message carries, in bytes.
const MaxMessage = 64 << 10

// header is a message's length and kind.
const header = 5

// Write sends a message. Concurrent ones have to be kept apart.
func Write(w io.Writer, kind byte, data []byte) error {
	if len(data) > MaxMessage {
		return fmt.Errorf("terminal: a message of %d bytes", len(data))
	}
	buf := take()
	defer give(buf)
	b := binary.BigEndian.AppendUint32((*buf)[:0], uint32(len(data)))
	_, err := w.Write(append(append(b, kind), data...))
	return err
}

// WriteJSON sends a message that carries a value.
func WriteJSON(w io.Writer, kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Write(w, kind, b)
}

// Read takes a message and calls use with it; the data is valid during the call only. While
// it waits it holds no memory.
func Read(r io.Reader, use func(kind byte, data []byte) error) error {
	var head [header]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n > MaxMessage {
		return errors.New("terminal: a message that is too long")
	}
	buf := take()
	defer give(buf)
	data := (*buf)[:n]
	if _, err := io.ReadFull(r, data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return use(head[4], data)
}

// ReadOne takes a message whose data stays valid.
func ReadOne(r io.Reader) (kind byte, data []byte, err error) {
	err = Read(r, func(k byte, b []byte) error {
		kind, data = k, append([]byte(nil), b...)
		return nil
	})
	return kind, data, err
}

// buffers are for messages that are on their way: thousands wait, few move.
var buffers = sync.Pool{New: func() any { b := make([]byte, header+MaxMessage); return &b }}

func take() *[]byte  { return buffers.Get().(*[]byte) }
func give(b *[]byte) { buffers.Put(b) }
