package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// kueue is Kueue's controller manager.
type kueue struct {
	process        *process
	webhook, probe string // ports
}

// StartKueue starts Kueue with its definitions and webhooks, or again after StopKueue. It
// needs root.
func (c *Cluster) StartKueue(ctx context.Context) error {
	if c.kueue.webhook == "" {
		if err := c.installKueue(ctx); err != nil {
			return fmt.Errorf("installing kueue: %w", err)
		}
	}
	// Where it looks for a certificate can't be said: it gets an /etc of its own.
	p, err := c.start("kueue", "unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" /etc && exec "$@"`, filepath.Join(c.dir, "kueue"),
		c.bin("kueue"), "--config", filepath.Join(c.dir, "kueue", "kueue.yaml"), "--kubeconfig", c.Kubeconfig(), "--feature-gates", "VisibilityOnDemand=false", "--zap-log-level", "1")
	if err != nil {
		return err
	}
	c.kueue.process = p
	return p.await(ctx, "kueue", func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, "http://127.0.0.1:"+c.kueue.probe+"/readyz")
	})
}

// StopKueue ends Kueue with SIGKILL: its webhooks answer no more.
func (c *Cluster) StopKueue() error { return c.kueue.process.stop(syscall.SIGKILL) }

// RemoveKueue ends Kueue and takes its webhooks away, so that Pods need it no more.
func (c *Cluster) RemoveKueue(ctx context.Context) error {
	err := c.StopKueue()
	for _, kind := range []string{"validating", "mutating"} {
		err = errors.Join(err, c.request(ctx, http.MethodDelete, hooksPath+kind+"webhookconfigurations/"+kind+"-webhook-configuration", nil))
	}
	c.kueue.webhook = ""
	return err
}

const hooksPath = "/apis/admissionregistration.k8s.io/v1/"

// service is how the webhooks are said to be reached in a cluster.
var service = regexp.MustCompile(`(?m)^    service:\n      name: .*\n      namespace: .*\n      path: (.*)$`)

func (c *Cluster) installKueue(ctx context.Context) error {
	webhook, err := freePort()
	if err != nil {
		return err
	}
	probe, err := freePort()
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "kueue")
	certs := filepath.Join(dir, "kueue", "metrics", "certs")
	if err := errors.Join(os.MkdirAll(certs, 0o700), c.ca.issue("kueue", "kueue", nil, "127.0.0.1")); err != nil {
		return err
	}
	for from, to := range map[string]string{c.ca.crt("kueue"): "tls.crt", c.ca.sec("kueue"): "tls.key"} {
		if err := os.Link(from, filepath.Join(certs, to)); err != nil {
			return err
		}
	}
	text := fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "127.0.0.1:%s"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %s, certDir: %s}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
clientConnection: {qps: 300, burst: 600}
integrations: {frameworks: [batch/job, pod]}
`, probe, webhook, certs)
	if err := os.WriteFile(filepath.Join(dir, "kueue.yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	definitions := filepath.Join(c.cfg.Kube, "config", "kueue")
	if err := c.Define(ctx, filepath.Join(definitions, "crd", "bases")); err != nil {
		return err
	}
	hooks, err := os.ReadFile(filepath.Join(definitions, "webhook", "manifests.yaml"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(c.ca.crt("ca"))
	if err != nil {
		return err
	}
	hooks = service.ReplaceAll(hooks, []byte("    caBundle: "+base64.StdEncoding.EncodeToString(ca)+"\n    url: https://127.0.0.1:"+webhook+"${1}"))
	for doc := range bytes.SplitSeq(hooks, []byte("---\n")) {
		kind := "validating"
		if bytes.Contains(doc, []byte("kind: Mutating")) {
			kind = "mutating"
		}
		if len(bytes.TrimSpace(doc)) > 0 {
			if err := c.request(ctx, http.MethodPost, hooksPath+kind+"webhookconfigurations", doc); err != nil {
				return err
			}
		}
	}
	c.kueue.webhook, c.kueue.probe = webhook, probe
	return nil
}

// Define makes the kinds that the files in a folder define.
func (c *Cluster) Define(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("no definitions in %s: run make setup", dir))
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := c.request(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := c.served(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// What a definition calls its kind, and the versions of it.
var (
	definedName    = regexp.MustCompile(`(?m)^  name: (\w+)\.(\S+)$`)
	definedVersion = regexp.MustCompile(`(?m)^  (?:- |  )name: (v\w+)$`)
)

// served awaits that the kind that a file defines is served.
func (c *Cluster) served(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := definedName.FindSubmatch(text)
	if name == nil {
		return fmt.Errorf("%s defines nothing", file)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	for _, v := range definedVersion.FindAllSubmatch(text, -1) {
		err := c.api.await(ctx, string(name[0]), func(ctx context.Context) error {
			kinds, err := fetch(ctx, client, fmt.Sprintf("https://127.0.0.1:%s/apis/%s/%s", c.port, name[2], v[1]))
			if err == nil && !strings.Contains(kinds, `"name":"`+string(name[1])+`"`) {
				err = errors.New("it isn't served")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// request makes an object that is written as YAML, or deletes one.
func (c *Cluster) request(ctx context.Context, method, path string, text []byte) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:"+c.port+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/yaml")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	again := method == http.MethodPost && resp.StatusCode == http.StatusConflict // it is there already
	if err == nil && resp.StatusCode >= 300 && !again {
		err = fmt.Errorf("%s: %s: %.1000s", path, resp.Status, answer)
	}
	return err
}
