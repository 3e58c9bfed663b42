package crash

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/test/site"
)

// TestReservations kills a server while windows are booked, begin and end. What runs inside
// starts within a window, what runs outside never has what a window has, and every
// device-second has its payer.
func TestReservations(t *testing.T) {
	const kills, windows, devices, reserved = 40, 4, 4, 3
	s := open(t, site.Config{Name: "reserve", Sim: true, Extra: "qos: [{name: normal, grace: 100ms}]\n"})
	populate(t, s.Client(), "root")
	c := s.Client()
	submit := func(name, reservation string) {
		must(t, v1.Retry(t.Context(), away, func() error {
			_, err := c.Submit(t.Context(), v1.JobSpec{
				Name: name, Account: account, Image: "tiny:1", CPU: "0.1", GPU: "1", Time: "1s", Command: []string{"sim", "run=40ms"},
				Reservation: reservation, Requeue: []string{"node"},
			}, v1.Key(name))
			return err
		}))
	}
	killed := make(chan error, 1)
	go func() {
		k := &killer{site: s, rand: seeded(t), least: 20 * time.Millisecond, most: 500 * time.Millisecond}
		killed <- k.run(t.Context(), kills)
	}()
	var booked []window
	for i := range windows {
		name := "w" + strconv.Itoa(i)
		r := v1.NewReservation{Name: name, Accounts: []string{account}, Count: reserved, GPU: "1", CPU: "0.1", Length: "1s"}
		if i%2 == 1 {
			r.Length = "1h"
		}
		w := reserve(t, c, r).Windows[0]
		booked = append(booked, window{w.From, w.To, w.To})
		for n := range 6 {
			submit(name+"-out-"+strconv.Itoa(n), "")
		}
		if i%2 == 0 { // it ends by itself
			must(t, after(time.Until(w.To))(t.Context()))
			continue
		}
		for n := range 6 {
			submit(name+"-in-"+strconv.Itoa(n), name)
		}
		must(t, after(time.Until(w.From.Add(time.Second)))(t.Context()))
		booked[i].to = time.Now()
		must(t, v1.Retry(t.Context(), away, func() error {
			if err := c.RemoveReservation(t.Context(), name, ""); !isCode(err, codes.NotFound) {
				return err
			}
			return nil // an earlier try did it
		}))
		booked[i].gone = time.Now()
	}
	must(t, <-killed)

	var outside []v1.Job
	inside := 0
	for job, err := range c.Jobs(t.Context(), v1.JobQuery{Account: account, State: "all", User: "*"}) {
		must(t, err)
		done := wait(t, c, job.ID, v1.Ended)
		given := begun(t, c, done)
		within := slices.ContainsFunc(booked, func(w window) bool {
			return done.Started != nil && !done.Started.Before(w.from) && given.Before(w.gone)
		})
		switch {
		case job.Spec.Reservation == "" && done.Started != nil:
			outside = append(outside, *done)
		case job.Spec.Reservation == "":
			t.Errorf("job %s, outside, is %s and never began: %s", job.ID, done.Outcome, done.Message)
		case done.Started == nil && done.Outcome != string(codes.Cancelled), done.Started != nil && !within:
			t.Errorf("job %s of %s is %s, began at %v: %s", job.ID, job.Spec.Reservation, done.Outcome, done.Started, done.Message)
		case done.Started != nil:
			inside++
		}
	}
	if inside == 0 || len(booked) != windows || len(outside) != 6*windows {
		t.Errorf("%d jobs ran in %d windows, %d beside them", inside, len(booked), len(outside))
	}
	for _, w := range booked {
		if n := atOnce(outside, w); n > devices-reserved {
			t.Errorf("from %v until %v jobs outside had %d devices at once", w.from, w.to, n)
		}
	}
	consistent(t, c)
	t.Logf("%d jobs inside, %d outside, %d kills", inside, len(outside), kills)
}

// window lasts from its begin to its end, or to a time while it is being cancelled.
type window struct{ from, to, gone time.Time }

// reserve books a window that begins soon, as soon as nothing is in its way.
func reserve(t *testing.T, c *v1.Client, r v1.NewReservation) *v1.Reservation {
	t.Helper()
	for try := 0; ; try++ {
		from := time.Now().Add(1500 * time.Millisecond)
		r.From = &from
		var out *v1.Reservation
		err := v1.Retry(t.Context(), away, func() (err error) {
			out, err = c.AddReservation(t.Context(), r, v1.Key(r.Name+strconv.Itoa(try)))
			return err
		})
		switch {
		case err == nil:
			return out
		case try == 50 || !isCode(err, codes.Conflict) && !isCode(err, codes.Invalid):
			t.Fatal(err)
		}
		must(t, after(100*time.Millisecond)(t.Context()))
	}
}

// begun is when a job got its devices for the last time: a server that is killed then starts it
// when it is up again, maybe after the window.
func begun(t *testing.T, c *v1.Client, j *v1.Job) (at time.Time) {
	t.Helper()
	page, err := c.EventPage(t.Context(), v1.EventQuery{Job: j.ID})
	must(t, err)
	for _, e := range page.Items {
		if e.State == "starting" {
			at = e.At
		}
	}
	if at.IsZero() && j.Started != nil {
		t.Fatalf("job %s has begun and was never given devices: %+v", j.ID, page.Items)
	}
	return at
}

// atOnce is how many of the jobs ran at one time in a window.
func atOnce(jobs []v1.Job, w window) int {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, j := range jobs {
		from, to := *j.Started, *j.Ended
		if from.Before(w.from) {
			from = w.from
		}
		if to.After(w.to) {
			to = w.to
		}
		if from.Before(to) {
			changes = append(changes, change{from, 1}, change{to, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	most, now := 0, 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}
