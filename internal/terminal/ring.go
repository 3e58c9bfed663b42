package terminal

// ring keeps the newest bytes of an output. Every byte has a number, from 0 on; those from
// start to end are there. It takes memory as it fills.
type ring struct {
	limit      int
	buf        []byte // the byte n is at n modulo its length
	start, end int64
}

// firstRing is what a ring takes at first, in bytes.
const firstRing = 4 << 10

// write adds bytes. What falls out for them is handed to lost, in order.
func (r *ring) write(b []byte, lost func([]byte)) {
	for len(b) > 0 {
		n := min(len(b), r.limit)
		r.reserve(n)
		if over := r.end + int64(n) - r.start - int64(len(r.buf)); over > 0 {
			r.each(r.start, r.start+over, lost)
			r.start += over
		}
		at := int(r.end % int64(len(r.buf)))
		first := copy(r.buf[at:], b[:n])
		copy(r.buf, b[first:n])
		r.end += int64(n)
		b = b[n:]
	}
}

// reserve makes room for n bytes more, as far as the limit lets it.
func (r *ring) reserve(n int) {
	size := max(len(r.buf), min(firstRing, r.limit))
	for size < r.limit && r.end-r.start+int64(n) > int64(size) {
		size = min(2*size, r.limit)
	}
	if size == len(r.buf) {
		return
	}
	grown := ring{limit: r.limit, buf: make([]byte, size), start: r.start, end: r.start}
	r.each(r.start, r.end, func(b []byte) {
		grown.write(b, nil)
	})
	*r = grown
}

// each hands over the bytes from one number to another, which are all there, in order.
func (r *ring) each(from, to int64, use func([]byte)) {
	for from < to {
		at := from % int64(len(r.buf))
		n := min(to-from, int64(len(r.buf))-at)
		use(r.buf[at : at+n])
		from += n
	}
}

// read copies bytes from a number on, which is there, and returns how many.
func (r *ring) read(from int64, into []byte) int {
	n := 0
	r.each(from, min(r.end, from+int64(len(into))), func(b []byte) { n += copy(into[n:], b) })
	return n
}
