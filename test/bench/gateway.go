package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// Addresses of the gateways' peers, and of the server that all of them lead to.
const (
	backend   = "127.0.0.1:29000"
	nginxAt   = "127.0.0.1:29001"
	chpAt     = "127.0.0.1:29002"
	chpAPI    = "29003"
	inJob     = 8000
	clients   = 32
	sockets   = 100
	gatewayAt = "127.0.0.1:29004"
)

const nginxConf = `worker_processes auto; pid DIR/nginx.pid; error_log DIR/nginx.log; daemon off;
events { worker_connections 4096; }
http { access_log off; client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
 upstream to { server ` + backend + `; keepalive 128; }
 map $http_upgrade $up { default upgrade; '' ''; }
 server { listen ` + nginxAt + `; keepalive_requests 1000000;
  location / { proxy_pass http://to; proxy_http_version 1.1; proxy_set_header Host $host; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $up; } } }
`

// way is one way to the same small server.
type way struct {
	name, url string
	header    []string // name, value, …
	rate      float64  // requests a second
	p99       time.Duration
	echoes    int64
	echo99    time.Duration
}

// gateway measures requests and WebSockets through the gateway, nginx and JupyterHub's
// configurable-http-proxy in one run, to one small server: in a container behind the gateway,
// else beside it.
func gateway(ctx context.Context, s settings) error {
	for _, tool := range []string{"nginx", "wrk", "node"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s isn't installed: run hack/setup --bench", tool)
		}
	}
	dir, err := os.MkdirTemp("", "croft-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	tool := filepath.Join(dir, "proxy")
	build := exec.CommandContext(ctx, "go", "build", "-o", tool, "./test/bench/proxy")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	stop, err := peers(ctx, s, dir, tool)
	if err != nil {
		return err
	}
	defer stop()
	v, err := serve(ctx, s, fmt.Sprintf("listen: {http: %s}\nengine: {runtime_dir: %s, bridge: croftbench}\nmounts: [%s]\napps: {connections: 4096}\n", gatewayAt, s.runtime, dir))
	if err != nil {
		return err
	}
	defer v.stop(true)
	croft, err := v.application(ctx, dir)
	if err != nil {
		return err
	}
	ways := []*way{{name: "direct", url: "http://" + backend + "/"}, {name: "nginx", url: "http://" + nginxAt + "/"}, {name: "configurable-http-proxy", url: "http://" + chpAt + "/"}, croft}
	for _, w := range ways {
		if err := w.measure(ctx, s, tool); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	nginx, chp := ways[1], ways[2]
	row(fmt.Sprintf("requests through the gateway, %d connections, 1 KiB", clients),
		fmt.Sprintf("%.0f/s, p99 %s; %.2f × nginx (%.0f/s, p99 %s), %.1f × configurable-http-proxy (%.0f/s, p99 %s); direct %.0f/s",
			croft.rate, ms(croft.p99), croft.rate/nginx.rate, nginx.rate, ms(nginx.p99), croft.rate/chp.rate, chp.rate, ms(chp.p99), ways[0].rate), "≥ 0.8 × nginx, ≥ 3 × configurable-http-proxy")
	row(fmt.Sprintf("WebSocket echoes through it, %d connections, 64 bytes", sockets),
		fmt.Sprintf("%d/s, p99 %s; %.2f × nginx (%d/s, p99 %s), %.1f × configurable-http-proxy (%d/s); direct %d/s",
			croft.echoes, ms(croft.echo99), float64(croft.echoes)/float64(nginx.echoes), nginx.echoes, ms(nginx.echo99), float64(croft.echoes)/float64(chp.echoes), chp.echoes, ways[0].echoes), "")
	return nil
}

// peers starts the small server, nginx and configurable-http-proxy.
func peers(ctx context.Context, s settings, dir, tool string) (stop func(), err error) {
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(strings.ReplaceAll(nginxConf, "DIR", dir)), 0o600); err != nil {
		return nil, err
	}
	var started []*exec.Cmd
	stop = func() {
		for _, c := range started {
			_ = c.Process.Signal(os.Interrupt) // it may be gone
			_ = c.Wait()
		}
	}
	for _, argv := range [][]string{
		{tool, "serve", backend},
		{"nginx", "-c", conf, "-p", dir},
		{"node", filepath.Join(s.chp, "node_modules", "configurable-http-proxy", "bin", "configurable-http-proxy"),
			"--ip", "127.0.0.1", "--port", chpAt[strings.LastIndexByte(chpAt, ':')+1:], "--api-ip", "127.0.0.1", "--api-port", chpAPI, "--default-target", "http://" + backend, "--log-level", "error"},
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "CONFIGPROXY_AUTH_TOKEN=x"), os.Stderr
		if err := cmd.Start(); err != nil {
			stop()
			return nil, err
		}
		started = append(started, cmd)
	}
	for _, at := range []string{backend, nginxAt, chpAt} {
		if err := answers(ctx, "http://"+at+"/"); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// answers waits until a server does.
func answers(ctx context.Context, url string) error {
	var err error
	for range 100 {
		var r *http.Response
		if r, err = http.Get(url); err == nil {
			r.Body.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

// application runs the small server in a job, and is the way there, known by a cookie.
func (v *server) application(ctx context.Context, dir string) (*way, error) {
	if err := v.people(ctx); err != nil {
		return nil, err
	}
	if err := v.daemon(ctx, "load", filepath.Join(v.s.images, "tiny.tar")).Run(); err != nil {
		return nil, err
	}
	job, err := v.client.Submit(ctx, v1.JobSpec{
		Image: "tiny:1", Command: []string{"/bench/proxy", "serve", "127.0.0.1:" + strconv.Itoa(inJob)}, Account: "bench", CPU: "2", Mem: "512M", Time: "1h",
		Mounts: []v1.Mount{{Source: dir, Target: "/bench", ReadOnly: true}}, Apps: []v1.App{{Port: inJob}},
	})
	if err != nil {
		return nil, err
	}
	if _, err := v.client.Wait(ctx, job.ID, v1.Running, v1.WaitOptions{}); err != nil {
		return nil, err
	}
	open, err := v.client.Open(ctx, job.ID, v1.OpenRequest{})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(open.URL)
	if err != nil {
		return nil, err
	}
	// The name is resolved by browsers; here the address is asked, by that name.
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gatewayAt+u.RequestURI(), nil)
	if err != nil {
		return nil, err
	}
	req.Host = u.Host
	r, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	if err := v.up(ctx, u.Host, r.Cookies()); err != nil {
		return nil, err
	}
	cookies := r.Cookies()
	if len(cookies) != 1 {
		return nil, fmt.Errorf("the gateway answered %s", r.Status)
	}
	return &way{name: "gateway", url: "http://" + gatewayAt + "/", header: []string{"Host", u.Host, "Cookie", cookies[0].Name + "=" + cookies[0].Value}}, nil
}

// up waits until the application answers.
func (v *server) up(ctx context.Context, host string, cookies []*http.Cookie) error {
	for range 100 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gatewayAt+"/", nil)
		if err != nil {
			return err
		}
		req.Host = host
		for _, c := range cookies {
			req.AddCookie(c)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("the application doesn't come up")
}

var (
	wrkRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrk99   = regexp.MustCompile(`99%\s+([0-9.]+)(us|ms|s)`)
	wrkBad  = regexp.MustCompile(`Non-2xx|Socket errors`)
)

// measure asks by wrk, whose work on the client's side is the least, and echoes.
func (w *way) measure(ctx context.Context, s settings, tool string) error {
	args := []string{"-t1", "-c" + strconv.Itoa(clients), "-d" + strconv.Itoa(int(s.span.Seconds())) + "s", "--latency"}
	for i := 0; i < len(w.header); i += 2 {
		args = append(args, "-H", w.header[i]+": "+w.header[i+1])
	}
	out, err := exec.CommandContext(ctx, "wrk", append(args, w.url)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("wrk: %w: %s", err, out)
	}
	rate, p99 := wrkRate.FindSubmatch(out), wrk99.FindSubmatch(out)
	if rate == nil || p99 == nil || wrkBad.Match(out) {
		return fmt.Errorf("wrk: %s", out)
	}
	if w.rate, err = strconv.ParseFloat(string(rate[1]), 64); err != nil {
		return err
	}
	if w.p99, err = time.ParseDuration(string(p99[1]) + string(p99[2])); err != nil {
		return err
	}
	echo := append([]string{"echo", "ws" + strings.TrimPrefix(w.url, "http") + "ws", strconv.Itoa(sockets), strconv.Itoa(int(s.span.Seconds()))}, w.header...)
	cmd := exec.CommandContext(ctx, tool, echo...)
	cmd.Stderr = os.Stderr
	if out, err = cmd.Output(); err != nil {
		return err
	}
	var micros int64
	if _, err := fmt.Sscan(string(out), &w.echoes, &micros); err != nil {
		return fmt.Errorf("%q: %w", out, err)
	}
	w.echo99 = time.Duration(micros) * time.Microsecond
	return nil
}
