package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// cluster measures planning on a virtual fleet as large as that of the openb
// traces: how long a pass takes while many jobs wait, and why and ls meanwhile.
func cluster(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "croft-bench-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	nodes, jobs, from := s.nodes, madeUp(), "made up"
	if nodes == "" {
		if nodes, err = makeCluster(dir); err != nil {
			return err
		}
	}
	if s.pods != "" {
		if jobs, err = readMix(s.pods); err != nil {
			return err
		}
		from = "of the trace"
	}
	v, err := serve(ctx, s, "engine: {kind: sim, fleet: "+nodes+"}\nlisten: {http: \"off\"}\ndefaults: {user_jobs: 0}\nlog: {level: warn}\n")
	if err != nil {
		return err
	}
	defer v.stop(false)
	if err := v.people(ctx); err != nil {
		return err
	}
	begun := time.Now()
	refused, err := v.fill(ctx, jobs, int64(s.pending))
	if err != nil {
		return err
	}
	if err := v.settled(ctx); err != nil {
		return err
	}
	st, err := v.client.Status(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d nodes, %s devices, %d jobs %s waiting", st.Nodes, st.GPU.Total, st.Queued, from)
	row(what, fmt.Sprintf("%d running, %d refused, %.0f s", st.Running, refused, time.Since(begun).Seconds()), "")
	before, err := v.passes(ctx)
	if err != nil {
		return err
	}
	if err := v.whys(ctx, st); err != nil {
		return err
	}
	after, err := v.passes(ctx)
	if err != nil {
		return err
	}
	for after.count <= before.count {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		if after, err = v.passes(ctx); err != nil {
			return err
		}
	}
	took := (after.sum - before.sum) / float64(after.count-before.count)
	row(fmt.Sprintf("one planning pass meanwhile, mean of %d", after.count-before.count), ms(time.Duration(took*1e9)), "1 s")
	return nil
}

// fill submits jobs of the mix by eight clients until so many wait, and counts those
// that are refused since no node could ever run them.
func (v *server) fill(ctx context.Context, jobs mix, most int64) (refused int64, err error) {
	var next, no atomic.Int64
	for {
		st, err := v.client.Status(ctx)
		if err != nil || st.Queued >= most {
			return no.Load(), err
		}
		until := next.Load() + most - st.Queued
		var failed atomic.Pointer[error]
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for failed.Load() == nil && ctx.Err() == nil {
					i := next.Add(1)
					if i > until {
						return
					}
					spec := jobs[int(i)%len(jobs)]
					spec.Account, spec.Image, spec.Command = "bench", "train:1", []string{"python", "train.py"}
					var p *v1.Problem
					if _, err := v.client.Submit(ctx, spec); errors.As(err, &p) && p.Code == string(codes.Refused) {
						no.Add(1)
					} else if err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		wg.Wait()
		if e := failed.Load(); e != nil {
			return no.Load(), *e
		}
		next.Store(until)
	}
}

// settled waits until what fits has started.
func (v *server) settled(ctx context.Context) error {
	for last := int64(-1); ; {
		st, err := v.client.Status(ctx)
		if err != nil {
			return err
		}
		if st.Running == last {
			return nil
		}
		last = st.Running
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(15 * time.Second):
		}
	}
}

// whys asks why of jobs all over the queue.
func (v *server) whys(ctx context.Context, st *v1.Status) error {
	rnd := rand.New(rand.NewPCG(5, 6))
	all := st.Queued + st.Running
	var took []time.Duration
	for len(took) < 500 {
		begun := time.Now()
		if _, err := v.client.Why(ctx, strconv.FormatInt(1+rnd.Int64N(all), 10)); err != nil {
			return err
		}
		took = append(took, time.Since(begun))
	}
	row("why, jobs all over the queue, p50 / p99", ms(quantile(took, 500))+" / "+ms(quantile(took, 990)), "p99 50 ms")
	return nil
}

// passCount is how many passes were planned, and their time in seconds.
type passCount struct {
	count int64
	sum   float64
}

func (v *server) passes(ctx context.Context) (passCount, error) {
	text, err := v.metrics(ctx)
	if err != nil {
		return passCount{}, err
	}
	var p passCount
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "croft_plan_seconds_sum":
			p.sum, err = strconv.ParseFloat(value, 64)
		case "croft_plan_seconds_count":
			p.count, err = strconv.ParseInt(value, 10, 64)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}
