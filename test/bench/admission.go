package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// admission measures durable admissions through the API on SQLite with full sync,
// and what quote and why cost, while many jobs wait. The fleet is virtual: what is
// measured ends before a container would start.
func admission(ctx context.Context, s settings) error {
	v, err := serve(ctx, s, "engine: {kind: sim, node_name: gpu1}\ndevices: {simulated: {count: 4, model: sim}}\nlisten: {http: \"off\"}\ndefaults: {user_jobs: 0}\nlog: {level: warn}\n")
	if err != nil {
		return err
	}
	defer v.stop(false)
	if err := v.people(ctx); err != nil {
		return err
	}
	if _, err := v.submit(ctx, 4); err != nil { // takes all devices
		return err
	}
	idle, err := v.memory()
	if err != nil {
		return err
	}
	n, took, err := v.admit(ctx, 64, int64(s.pending), 0)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("admissions, 64 clients, filling the queue to %d", n), rate(n, took), "")
	used, err := v.memory()
	if err != nil {
		return err
	}
	row(fmt.Sprintf("server memory, %d waiting (idle: %d MB)", n, idle/1e6), fmt.Sprintf("%d MB", used/1e6), "500 MB at 100,000")
	for _, clients := range []int{1, 8, 64} {
		n, took, err := v.admit(ctx, clients, 0, s.span)
		if err != nil {
			return err
		}
		aim := ""
		if clients == 64 {
			aim = "5000/s"
		}
		row(fmt.Sprintf("admissions, %d clients, %d waiting", clients, s.pending), rate(n, took), aim)
	}
	st, err := v.client.Status(ctx)
	if err != nil {
		return err
	}
	return v.questions(ctx, int(st.Queued))
}

func rate(n int64, took time.Duration) string {
	return fmt.Sprintf("%.0f/s", float64(n)/took.Seconds())
}

func (v *server) submit(ctx context.Context, gpu int) (*v1.Job, error) {
	return v.client.Submit(ctx, v1.JobSpec{
		Account: "bench", Image: "train:1", Command: []string{"python", "train.py"},
		GPU: v1.Quantity(strconv.Itoa(gpu)), CPU: "0.1", Mem: "1G", Time: "2h",
	})
}

// admit submits by so many clients until most jobs are admitted or span is over.
func (v *server) admit(ctx context.Context, clients int, most int64, span time.Duration) (n int64, took time.Duration, err error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	begun := time.Now()
	for range clients {
		wg.Go(func() {
			for failed.Load() == nil && ctx.Err() == nil {
				if span > 0 && time.Since(begun) >= span || most > 0 && done.Load() >= most {
					return
				}
				if _, err := v.submit(ctx, 1); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	took = time.Since(begun)
	if e := failed.Load(); e != nil {
		return 0, 0, *e
	}
	return done.Load(), took, ctx.Err()
}

// questions measures quote and why from one client, on jobs all over the queue.
func (v *server) questions(ctx context.Context, queued int) error {
	const samples = 500
	var quotes, whys []time.Duration
	rnd := rand.New(rand.NewPCG(1, 2))
	for range samples {
		begun := time.Now()
		if _, err := v.client.Quote(ctx, v1.JobSpec{Account: "bench", Image: "train:1", GPU: "2", CPU: "1", Mem: "4G", Time: "3h"}); err != nil {
			return err
		}
		quotes = append(quotes, time.Since(begun))
		begun = time.Now()
		if _, err := v.client.Why(ctx, strconv.Itoa(2+rnd.IntN(queued))); err != nil {
			return err
		}
		whys = append(whys, time.Since(begun))
	}
	row(fmt.Sprintf("quote, %d waiting, p50 / p99", queued), ms(quantile(quotes, 500))+" / "+ms(quantile(quotes, 990)), "p99 50 ms")
	row(fmt.Sprintf("why, %d waiting, p50 / p99", queued), ms(quantile(whys, 500))+" / "+ms(quantile(whys, 990)), "p99 50 ms")
	return nil
}
