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
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// Addresses of the gateway and its peers, and of the server that all of them lead to, in the
// network of its job.
const (
	backend   = "127.0.0.1:8000"
	nginxAt   = "127.0.0.1:29001"
	chpAt     = "127.0.0.1:29002"
	chpAPI    = "29003"
	bareAt    = "127.0.0.1:29005"
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
	inside    []string // the command that puts a client into the network that the way is in
	header    []string // name, value, …
	pid       int      // of what carries; its children count
	rate      float64  // requests a second
	p99       time.Duration
	each      time.Duration // processor time of what carries, for each request
	behind    time.Duration // of the small server
	echoes    int64
	echo99    time.Duration
}

// gateway measures requests and WebSockets through the gateway, nginx, JupyterHub's
// configurable-http-proxy and a bare httputil.ReverseProxy in one run, to one small server in
// a job's container. What isn't the gateway runs in the job's network with its clients, since
// nothing else reaches the program.
func gateway(ctx context.Context, s settings) error {
	for _, tool := range []string{"nginx", "wrk", "node", "nsenter"} {
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
	v, err := serve(ctx, s, fmt.Sprintf("listen: {http: %s}\nengine: {runtime_dir: %s, bridge: croftbench}\nmounts: [%s]\napps: {connections: 4096}\n", gatewayAt, s.runtime, dir))
	if err != nil {
		return err
	}
	defer v.stop(true)
	croft, err := v.application(ctx, dir)
	if err != nil {
		return err
	}
	program, err := running("/bench/proxy\x00serve\x00" + backend + "\x00")
	if err != nil {
		return err
	}
	ways, stop, err := peers(ctx, s, dir, tool, []string{"nsenter", "--net", "--target", strconv.Itoa(program)})
	if err != nil {
		return err
	}
	defer stop()
	for _, w := range append(ways, croft) {
		if err := w.measure(ctx, s, tool, program); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	direct, nginx, chp, bare := ways[0], ways[1], ways[2], ways[3]
	row(fmt.Sprintf("requests through the gateway, %d connections, 1 KiB", clients),
		fmt.Sprintf("%.0f/s, p99 %s; %.2f × nginx (%.0f/s, p99 %s), %.1f × configurable-http-proxy (%.0f/s, p99 %s), %.2f × httputil.ReverseProxy (%.0f/s, p99 %s); direct %.0f/s",
			croft.rate, ms(croft.p99), croft.rate/nginx.rate, nginx.rate, ms(nginx.p99), croft.rate/chp.rate, chp.rate, ms(chp.p99), croft.rate/bare.rate, bare.rate, ms(bare.p99), direct.rate),
		"≥ 0.8 × nginx, ≥ 3 × configurable-http-proxy")
	row("processor time of each request: of what carries it, and of the program that answers",
		fmt.Sprintf("%d + %d µs; nginx %d + %d, configurable-http-proxy %d + %d, httputil.ReverseProxy %d + %d; direct %d",
			croft.each.Microseconds(), croft.behind.Microseconds(), nginx.each.Microseconds(), nginx.behind.Microseconds(), chp.each.Microseconds(), chp.behind.Microseconds(),
			bare.each.Microseconds(), bare.behind.Microseconds(), direct.behind.Microseconds()), "")
	row(fmt.Sprintf("WebSocket echoes through it, %d connections, 64 bytes", sockets),
		fmt.Sprintf("%d/s, p99 %s; %.2f × nginx (%d/s, p99 %s), %.1f × configurable-http-proxy (%d/s); direct %d/s",
			croft.echoes, ms(croft.echo99), float64(croft.echoes)/float64(nginx.echoes), nginx.echoes, ms(nginx.echo99), float64(croft.echoes)/float64(chp.echoes), chp.echoes, direct.echoes), "")
	return nil
}

// peers starts nginx, configurable-http-proxy and a bare proxy in the program's network, and
// returns the ways there: directly first.
func peers(ctx context.Context, s settings, dir, tool string, inside []string) (ways []*way, stop func(), err error) {
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(strings.ReplaceAll(nginxConf, "DIR", dir)), 0o600); err != nil {
		return nil, nil, err
	}
	var started []*exec.Cmd
	stop = func() {
		for _, c := range started {
			_ = c.Process.Signal(os.Interrupt) // it may be gone
			_ = c.Wait()
		}
	}
	ways = []*way{{name: "direct", url: "http://" + backend + "/", inside: inside}}
	for _, p := range []struct {
		name, at string
		argv     []string
	}{
		{"nginx", nginxAt, []string{"nginx", "-c", conf, "-p", dir}},
		{"configurable-http-proxy", chpAt, []string{"node", filepath.Join(s.chp, "node_modules", "configurable-http-proxy", "bin", "configurable-http-proxy"),
			"--ip", "127.0.0.1", "--port", chpAt[strings.LastIndexByte(chpAt, ':')+1:], "--api-ip", "127.0.0.1", "--api-port", chpAPI, "--default-target", "http://" + backend, "--log-level", "error"}},
		{"httputil.ReverseProxy", bareAt, []string{tool, "hand", bareAt, "http://" + backend}},
	} {
		argv := slices.Concat(inside, p.argv) // which each becomes: nsenter runs it in its place
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "CONFIGPROXY_AUTH_TOKEN=x"), os.Stderr
		if err := cmd.Start(); err != nil {
			stop()
			return nil, nil, err
		}
		started = append(started, cmd)
		ways = append(ways, &way{name: p.name, url: "http://" + p.at + "/", inside: inside, pid: cmd.Process.Pid})
	}
	for _, w := range ways {
		argv := slices.Concat(inside, []string{tool, "await", w.url})
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			stop()
			return nil, nil, fmt.Errorf("%s: %w: %s", w.name, err, out)
		}
	}
	return ways, stop, nil
}

// running is the process of a command line, of which there is one.
func running(line string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && string(text) == line {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("%q isn't running", line)
}

// spent is the processor time of a process and its children that live (proc_pid_stat(5)), in
// ticks of a hundredth of a second.
func spent(pid int) (ticks int64) {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64)
			system, _ := strconv.ParseInt(f[12], 10, 64)
			ticks = user + system
		}
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err == nil {
		for _, f := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				ticks += spent(child)
			}
		}
	}
	return ticks
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
	return &way{name: "gateway", url: "http://" + gatewayAt + "/", pid: v.cmd.Process.Pid, header: []string{"Host", u.Host, "Cookie", cookies[0].Name + "=" + cookies[0].Value}}, nil
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
	wrkAll  = regexp.MustCompile(`([0-9]+) requests in`)
	wrkRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrk99   = regexp.MustCompile(`99%\s+([0-9.]+)(us|ms|s)`)
	wrkBad  = regexp.MustCompile(`Non-2xx|Socket errors`)
)

// measure asks by wrk, whose work on the client's side is the least, and echoes.
func (w *way) measure(ctx context.Context, s settings, tool string, program int) error {
	args := []string{"wrk", "-t1", "-c" + strconv.Itoa(clients), "-d" + strconv.Itoa(int(s.span.Seconds())) + "s", "--latency"}
	for i := 0; i < len(w.header); i += 2 {
		args = append(args, "-H", w.header[i]+": "+w.header[i+1])
	}
	argv := slices.Concat(w.inside, args, []string{w.url})
	own, behind := -spent(w.pid), -spent(program)
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("wrk: %w: %s", err, out)
	}
	own, behind = own+spent(w.pid), behind+spent(program)
	all, rate, p99 := wrkAll.FindSubmatch(out), wrkRate.FindSubmatch(out), wrk99.FindSubmatch(out)
	if all == nil || rate == nil || p99 == nil || wrkBad.Match(out) {
		return fmt.Errorf("wrk: %s", out)
	}
	n, err := strconv.ParseInt(string(all[1]), 10, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("wrk: %s", out)
	}
	const tick = 10 * time.Millisecond
	w.each, w.behind = time.Duration(own)*tick/time.Duration(n), time.Duration(behind)*tick/time.Duration(n)
	if w.rate, err = strconv.ParseFloat(string(rate[1]), 64); err != nil {
		return err
	}
	if w.p99, err = time.ParseDuration(string(p99[1]) + string(p99[2])); err != nil {
		return err
	}
	argv = append(slices.Concat(w.inside, []string{tool, "echo", "ws" + strings.TrimPrefix(w.url, "http") + "ws", strconv.Itoa(sockets), strconv.Itoa(int(s.span.Seconds()))}), w.header...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
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
