package workload

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math/bits"
	"sort"
	"strconv"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// The order of the queues changes all the time: priorities rise with age and fall
// with use. What is kept is therefore not the order, but what never changes. Jobs
// of one lane differ by age alone, so that the one that waits longer is first,
// whatever time it is. There are few lanes; what a lane is worth now is looked up
// when somebody asks, and the lanes are merged.

// Lane is what decides a waiting job's priority but for its age.
type Lane struct {
	Partition string
	In        id.Reservation
	Account   id.Account
	User      id.User
	QoS       string
	Own       int64 // the priority that its user gave it
	Size      Size
	Pinned    bool     // by an operator: its priority is Pin, and doesn't rise
	Pin       int64    // points
	Token     id.Token // whose cap on devices its jobs count for; 0: of none
}

// Size is how large a job is, in powers of two: 1 is up to one, 2 is two, 3 is up to
// four, and so on. A job that has devices isn't measured by its cores.
type Size struct{ Devices, Cores int8 }

// SizeOf returns the size of an amount of devices and, if there are none, cores, both
// in thousandths.
func SizeOf(milliDevices, milliCores int64) Size {
	if milliDevices > 0 {
		return Size{Devices: doublings((milliDevices + 999) / 1000)}
	}
	return Size{Cores: doublings((milliCores + 999) / 1000)}
}

func doublings(n int64) int8 { return int8(1 + bits.Len64(uint64(max(n, 1)-1))) }

// LaneOf is the lane that the job waits in.
func (j *Job) LaneOf() Lane {
	l := Lane{
		Partition: j.Spec.Partition, In: j.In, Account: j.Account, User: j.User, QoS: j.Spec.QoS, Own: j.Spec.Priority,
		Size: SizeOf(j.Spec.Ranks()*j.Spec.GPU, j.Spec.Ranks()*j.Spec.CPU), Pinned: j.Pinned, Pin: j.Pin,
	}
	if _, capped := j.Token.Caps.MostDevices(); capped {
		l.Token = j.Token.ID
	}
	return l
}

// QueueOf names the queue of a partition, or that of a reservation in it: those who
// wait for different things aren't in each other's way.
func QueueOf(partition string, in id.Reservation) string {
	if in == 0 {
		return partition
	}
	return partition + "\x02" + strconv.FormatInt(int64(in), 10)
}

func (j *Job) queue() string { return QueueOf(j.Spec.Partition, j.In) }

// Key is the lane as text, the same for no other, and in the order of queues.
func (l Lane) Key() string {
	k := make([]byte, 0, 64)
	k = append(append(k, QueueOf(l.Partition, l.In)...), 0)
	k = binary.BigEndian.AppendUint64(k, uint64(l.Account))
	k = binary.BigEndian.AppendUint64(k, uint64(l.User))
	k = binary.BigEndian.AppendUint64(k, uint64(l.Own))
	k = append(k, byte(l.Size.Devices), byte(l.Size.Cores), 0)
	flags := len(k) - 1
	if l.Pinned {
		k[flags] = 1
		k = binary.BigEndian.AppendUint64(k, uint64(l.Pin))
	}
	if l.Token != 0 {
		k[flags] |= 2
		k = binary.BigEndian.AppendUint64(k, uint64(l.Token))
	}
	return string(append(k, l.QoS...))
}

// Place is where a job stands in a queue at one time: by priority, then by since
// when it waits, then by id.
type Place struct {
	Priority int64 // points
	Since    int64 // ns
	Job      id.Job
}

// Compare is negative if p comes before o.
func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(o.Priority, p.Priority), cmp.Compare(p.Since, o.Since), cmp.Compare(p.Job, o.Job))
}

// Order is what puts jobs in order at one time.
type Order struct {
	Now  int64            // ns
	Age  Aging            // what waiting is worth
	Base func(Lane) int64 // what a job of the lane has beside that, in points
}

// Aging turns the time that a job has waited into points.
type Aging struct {
	Points int64 // for a wait of Cap or more; at least 0
	Cap    int64 // ns
}

// Of is the points for a wait, in ns, rounded down.
func (a Aging) Of(wait int64) int64 {
	if wait = min(wait, a.Cap); wait <= 0 || a.Points <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a.Points), uint64(wait))
	points, _ := bits.Div64(hi, lo, uint64(a.Cap))
	return int64(points)
}

// Place is where a job is, or would be, that waits in a lane.
func (o Order) Place(l Lane, since int64, job id.Job) Place {
	return o.place(l.Pinned, o.base(l), since, job)
}

func (o Order) base(l Lane) int64 {
	if l.Pinned {
		return l.Pin
	}
	return o.Base(l)
}

func (o Order) place(pinned bool, base, since int64, job id.Job) Place {
	if !pinned {
		base += o.Age.Of(o.Now - since)
	}
	return Place{base, since, job}
}

// waiting is a job in its lane.
type waiting struct {
	lane  string // its Key
	since int64
	job   id.Job
}

// lane is a Lane in which jobs wait.
type lane struct {
	Lane
	key  string
	jobs int
}

func (a waiting) before(b waiting) bool {
	if a.lane != b.lane {
		return a.lane < b.lane
	}
	return a.since < b.since || a.since == b.since && a.job < b.job
}

// enqueue and dequeue keep the lanes.
func (s *State) enqueue(j *Job) { s.pending.Add(waiting{s.count(j.LaneOf(), +1), j.Since(), j.ID}) }

func (s *State) dequeue(j *Job) { s.pending.Remove(waiting{s.count(j.LaneOf(), -1), j.Since(), j.ID}) }

// count changes the number of jobs in a lane and returns its key, which all of them
// share.
func (s *State) count(l Lane, n int) string {
	key := l.Key()
	row := lane{l, key, n}
	if old, ok := s.lanes.Get(key); ok {
		row.key, row.jobs = old.key, old.jobs+n
	}
	if row.jobs == 0 {
		s.lanes.Delete(key)
	} else {
		s.lanes.Set(key, row)
	}
	return row.key
}

// lanesOf yields the lanes of a queue, each with the index of its first job.
func (s *State) lanesOf(queue string) iter.Seq2[int, lane] {
	return func(yield func(int, lane) bool) {
		prefix := queue + "\x00"
		at := s.pending.Rank(waiting{lane: prefix})
		for key, l := range s.lanes.From(prefix) {
			if key >= queue+"\x01" || !yield(at, l) {
				return
			}
			at += l.jobs
		}
	}
}

// Waiting is how many jobs wait, an array's elements counted.
func (s *State) Waiting() int64 {
	n := int64(s.pending.Len())
	for _, j := range s.arrays.All() {
		n += j.Waits() - 1
	}
	return n
}

// Length is how many jobs wait in a queue, see QueueOf.
func (s *State) Length(queue string) int64 {
	var n int64
	for _, l := range s.lanesOf(queue) {
		n += int64(l.jobs)
	}
	for _, j := range s.arrays.All() {
		if j.queue() == queue {
			n += j.Waits() - 1
		}
	}
	return n
}

// Front is the part of a lane that comes before a place.
type Front struct {
	Lane   string // its Key
	Of     Lane
	Before int64 // so many of its jobs
	Jobs   int64 // of all
}

// Fronts yields the lanes of a queue that have jobs before a place. It takes a
// time proportional to the number of lanes, and to the logarithm of the jobs.
func (s *State) Fronts(o Order, queue string, p Place) iter.Seq[Front] {
	return func(yield func(Front) bool) {
		for at, l := range s.lanesOf(queue) {
			base := o.base(l.Lane)
			n := sort.Search(l.jobs, func(i int) bool {
				w, _ := s.pending.At(at + i)
				return o.place(l.Pinned, base, w.since, w.job).Compare(p) >= 0
			})
			if n > 0 && !yield(Front{l.key, l.Lane, int64(n), int64(l.jobs)}) {
				return
			}
		}
	}
}

// Ahead is how many jobs of a queue come before a place.
func (s *State) Ahead(o Order, queue string, p Place) int64 {
	var n int64
	for f := range s.Fronts(o, queue, p) {
		n += f.Before
	}
	for _, j := range s.arrays.All() {
		if j.queue() == queue && o.Place(j.LaneOf(), j.Since(), j.ID).Compare(p) < 0 {
			n += j.Waits() - 1
		}
	}
	return n
}

// Queue yields the waiting jobs of a queue in order, each with its place; of an
// array the elements that may be next, with the array's.
func (s *State) Queue(o Order, queue string) iter.Seq2[*Job, Place] {
	return func(yield func(*Job, Place) bool) {
		h := s.heads(o, queue)
		for len(h) > 0 {
			if j, ok := s.Jobs.Get(h[0].job); ok && !j.each(func(one *Job) bool { return yield(one, h[0].place) }) {
				return
			}
			if !h[0].next(s, o) {
				h[0] = h[len(h)-1]
				h = h[:len(h)-1]
			}
			h.down(0)
		}
	}
}

// each yields the jobs that a row in the queue stands for.
func (j *Job) each(yield func(*Job) bool) bool {
	if j.Array == nil {
		return yield(j)
	}
	for e := range j.Next {
		if !yield(e) {
			return false
		}
	}
	return true
}

// head is the first job of a lane that the merge hasn't yielded.
type head struct {
	waiting
	place  Place
	pinned bool
	base   int64
	left   int // jobs of the lane after it
	rest   *table.Cursor[waiting]
}

// heads are a binary heap by place.
type heads []head

func (s *State) heads(o Order, queue string) heads {
	var h heads
	for at, l := range s.lanesOf(queue) {
		w, _ := s.pending.At(at)
		base := o.base(l.Lane)
		h = append(h, head{
			waiting: w, pinned: l.Pinned, base: base, left: l.jobs - 1, place: o.place(l.Pinned, base, w.since, w.job),
		})
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	return h
}

// next moves on in the lane, if there is more. The cursor comes late, since most
// lanes are never gone into.
func (h *head) next(s *State, o Order) bool {
	if h.left == 0 {
		return false
	}
	if h.rest == nil {
		h.rest = s.pending.Seek(h.waiting)
		h.rest.Next()
	}
	h.waiting, _ = h.rest.Next()
	h.left--
	h.place = o.place(h.pinned, h.base, h.since, h.job)
	return true
}

// down restores the heap below i.
func (h heads) down(i int) {
	for {
		first := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(h) && h[c].place.Compare(h[first].place) < 0 {
				first = c
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}
