package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/clock"
)

func TestSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock = clock.System{}
		begin := c.Now()
		called := make(chan time.Time, 1)
		c.AfterFunc(time.Second, func() { called <- c.Now() })
		stopped := c.AfterFunc(time.Second, func() { t.Error("a stopped timer fired") })
		if !stopped.Stop() {
			t.Error("Stop reports false")
		}
		if at := <-c.NewTimer(time.Minute).C; at.Sub(begin) != time.Minute {
			t.Errorf("the timer fired after %v", at.Sub(begin))
		}
		if at := <-called; at.Sub(begin) != time.Second {
			t.Errorf("the function was called after %v", at.Sub(begin))
		}
	})
}

func TestReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := clock.Readings()
		a := read()
		<-clock.System{}.NewTimer(time.Hour).C
		b := read()
		if b.Wall-a.Wall != int64(time.Hour) || b.Mono-a.Mono != int64(time.Hour) {
			t.Errorf("an hour apart: %+v, %+v", a, b)
		}
	})
}
