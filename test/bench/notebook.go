package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"time"
)

// notebook measures how long a person waits for a notebook: from the command until the
// first page is there, against the same image started by the runtime's own client.
func notebook(ctx context.Context, s settings) error {
	v, err := serve(ctx, s, "engine: {runtime_dir: "+s.runtime+", node_name: gpu1, bridge: croftbench0, image_high: 99, image_low: 98}\ndevices: {simulated: {count: 4, model: sim}}\nlisten: {http: \"127.0.0.1:0\"}\nlog: {level: warn}\n"+
		"templates: [{name: jupyter, image: \"jupyter:1\", cpu: 1, mem: 2G}]\n")
	if err != nil {
		return err
	}
	defer v.stop(true)
	if err := v.people(ctx); err != nil {
		return err
	}
	if err := v.daemon(ctx, "load", filepath.Join(s.images, "jupyter.tar")).Run(); err != nil {
		return err
	}
	peer, err := newCrictl(v, s.runtime)
	if err != nil {
		return err
	}
	i := 0
	return compare("croft notebook, from the command to its first page", "crictl run of the same image and command, to the same page", "1.2×", max(1, s.runs/3),
		func() (time.Duration, error) { return v.notebook(ctx) },
		func() (time.Duration, error) {
			i++
			return peer.notebook(ctx, i)
		})
}

// notebook starts one, opens its page as a browser does, and deletes it. It has no home: what
// it would write is this machine's.
func (v *server) notebook(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	cmd := v.croft(ctx, "notebook", "--no-home", "-o", "json")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("croft notebook: %w: %s", err, said.String())
	}
	var w struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	}
	if err := json.Unmarshal(out, &w); err != nil {
		return 0, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return 0, err
	}
	if err := page(ctx, &http.Client{Jar: jar, Transport: &http.Transport{DialContext: onLoopback, DisableKeepAlives: true}}, w.URL); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	return took, v.croft(ctx, "workspace", "rm", w.ID).Run()
}

// onLoopback finds names of this machine as browsers do (RFC 6761).
func onLoopback(ctx context.Context, network, addr string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

// page asks for a page until it is there.
func page(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			err = errors.Join(err, resp.Body.Close())
			if err == nil && resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", url, ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// notebook starts Jupyter in a pod, asks for its page until it is there, and removes the pod.
func (c *crictl) notebook(ctx context.Context, i int) (time.Duration, error) {
	name := fmt.Sprintf("notebook-%d", i)
	pod := map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "bench", "uid": name, "attempt": 1}, "log_directory": c.dir,
		"hostname": name, "linux": map[string]any{"cgroup_parent": "/croft"},
	}
	box := map[string]any{
		"metadata": map[string]any{"name": "main"}, "image": map[string]any{"image": "jupyter:1"}, "log_path": name + ".log",
		"command": []string{"jupyter-notebook", "--allow-root", "--no-browser", "--ip=0.0.0.0", "--port=8888", "--NotebookApp.token="},
		"linux":   map[string]any{"resources": map[string]any{"memory_limit_in_bytes": 2 << 30}},
	}
	podFile, boxFile := filepath.Join(c.dir, "pod.json"), filepath.Join(c.dir, "box.json")
	if err := errors.Join(writeJSON(podFile, pod), writeJSON(boxFile, box)); err != nil {
		return 0, err
	}
	begun := time.Now()
	if _, err := c.line(ctx, "run", "--no-pull", boxFile, podFile); err != nil {
		return 0, err
	}
	id, err := c.line(ctx, "pods", "-q", "--name", name)
	if err != nil {
		return 0, err
	}
	address, err := c.line(ctx, "inspectp", "-o", "go-template", "--template", "{{.status.network.ip}}", id)
	if err != nil {
		return 0, err
	}
	if err := page(ctx, &http.Client{}, "http://"+address+":8888/tree"); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	_, err = c.call(ctx, "rmp", "-f", id)
	return took, err
}
