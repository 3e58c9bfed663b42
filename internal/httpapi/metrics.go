package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"croft.dev/croft/internal/world"
)

// Metrics is what Prometheus is told. It names no user and no account: anybody on
// the machine may read it.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	batch    prometheus.Histogram
	commit   prometheus.Histogram
	plan     prometheus.Histogram
}

// NewMetrics returns metrics with a registry of their own. runtime says whether
// the container runtime answers; nil: not known.
func NewMetrics(worlds interface{ World() *world.World }, runtime func() (ok bool, what string)) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "croft_http_requests_total", Help: "Requests answered."}, []string{"route", "method", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "croft_http_request_seconds", Help: "Time to answer; waits and streams are as long as they last.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"route"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "croft_batch_commands", Help: "Commands decided in one transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "croft_commit_seconds", Help: "Time of a commit.", Buckets: prometheus.ExponentialBuckets(0.0002, 2, 15),
		}),
		plan: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "croft_plan_seconds", Help: "Time to plan the waiting jobs once.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
	}
	m.registry.MustRegister(m.requests, m.latency, m.batch, m.commit, m.plan, &worldCollector{worlds, runtime, describe()},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Committed notes a commit: how many commands it had and how long it took.
func (m *Metrics) Committed(commands int, took time.Duration) {
	m.batch.Observe(float64(commands))
	m.commit.Observe(took.Seconds())
}

// Planned notes how long planning the waiting jobs took.
func (m *Metrics) Planned(took time.Duration) { m.plan.Observe(took.Seconds()) }

func (m *Metrics) request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// worldCollector counts in the newest snapshot when it is asked.
type worldCollector struct {
	worlds  interface{ World() *world.World }
	runtime func() (bool, string)
	desc    descriptions
}

type descriptions struct{ jobs, devices, seq, contact *prometheus.Desc }

func describe() descriptions {
	return descriptions{
		jobs:    prometheus.NewDesc("croft_jobs", "Jobs that haven't ended.", []string{"state"}, nil),
		devices: prometheus.NewDesc("croft_devices", "Devices offered.", []string{"state"}, nil),
		seq:     prometheus.NewDesc("croft_log_seq", "Newest row of the log.", nil, nil),
		contact: prometheus.NewDesc("croft_runtime_up", "1 while the container runtime answers.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *worldCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.desc.jobs, c.desc.devices, c.desc.seq, c.desc.contact} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *worldCollector) Collect(ch chan<- prometheus.Metric) {
	w := c.worlds.World()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	active := map[string]int{"starting": 0, "running": 0, "stopping": 0}
	for _, j := range w.Workload.Active.All() {
		active[string(j.State)]++
	}
	for state, n := range active {
		gauge(c.desc.jobs, n, state)
	}
	queued := int(w.Workload.Waiting())
	gauge(c.desc.jobs, queued, "queued")
	gauge(c.desc.jobs, w.Workload.Jobs.Len()-queued-w.Workload.Active.Len(), "held")
	devices := map[string]int{"free": 0, "used": 0, "foreign": 0, "down": 0}
	for _, d := range w.Placement.Devices.All() {
		switch {
		case d.Gone:
		case len(d.Foreign) > 0:
			devices["foreign"]++
		case !d.Healthy:
			devices["down"]++
		case w.Placement.InUse(d.UUID) > 0:
			devices["used"]++
		default:
			devices["free"]++
		}
	}
	for state, n := range devices {
		gauge(c.desc.devices, n, state)
	}
	gauge(c.desc.seq, int(w.Seq))
	if c.runtime != nil {
		up := 0
		if ok, _ := c.runtime(); ok {
			up = 1
		}
		gauge(c.desc.contact, up)
	}
}
