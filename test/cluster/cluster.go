package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Config says what a cluster is made of.
type Config struct {
	// Gates are feature gates of all components, beyond those that are on anyway.
	Gates map[string]bool
	// Groups are API groups that are served beyond those that are anyway, such as
	// "scheduling.k8s.io/v1beta1".
	Groups []string
	// Mirrors are URLs that nodes ask for images before a registry, by its host.
	Mirrors map[string]string
	// Kube and Runtime are where the programs are, Images where the archives of images;
	// by default where make setup links them.
	Kube, Runtime, Images string
}

// Cluster is a running cluster. Its methods aren't for use by several at a time.
type Cluster struct {
	cfg   Config
	dir   string
	ca    *authority
	etcd  string // URL
	port  string // of the API server
	parts []*process
	api   *process
	kueue kueue
	nodes []*Node
}

// Open starts a cluster without nodes. Close it, whatever it returns.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg}
	if err := c.find(); err != nil {
		return c, err
	}
	err := sweep()
	if err != nil {
		return c, fmt.Errorf("removing what an earlier run left: %w", err)
	}
	if c.dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return c, err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "owner"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return c, err
	}
	if c.ca, err = newAuthority(filepath.Join(c.dir, "pki")); err != nil {
		return c, err
	}
	for _, step := range []func(context.Context) error{c.certify, c.startEtcd, c.StartAPI, c.startControllers} {
		if err := step(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

// find fills in where the programs are.
func (c *Cluster) find() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for ; root != "/"; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
	}
	for _, p := range []struct {
		dir            *string
		variable, name string
	}{
		{&c.cfg.Kube, "CROFT_KUBE_DIR", "kube"}, {&c.cfg.Runtime, "CROFT_RUNTIME_DIR", "runtime"}, {&c.cfg.Images, "CROFT_TEST_IMAGES", "images"},
	} {
		if *p.dir == "" {
			*p.dir = os.Getenv(p.variable)
		}
		if *p.dir == "" {
			*p.dir = filepath.Join(root, ".tools", p.name)
		}
		if _, err := os.Stat(*p.dir); err != nil {
			return fmt.Errorf("%w: run make setup", err)
		}
	}
	return nil
}

// certify makes everybody's certificates and how they reach the API server.
func (c *Cluster) certify(context.Context) error {
	var err error
	if c.port, err = freePort(); err != nil {
		return err
	}
	err = c.ca.issue("apiserver", "kube-apiserver", []string{"system:masters"}, "127.0.0.1", "localhost", "kubernetes.default.svc")
	for file, who := range map[string][]string{
		"admin":              {"admin", "system:masters"},
		"controller-manager": {"system:kube-controller-manager"},
		"scheduler":          {"system:kube-scheduler"},
	} {
		err = errors.Join(err, c.ca.issue(file, who[0], who[1:]), c.kubeconfig(file))
	}
	return errors.Join(err, c.ca.issue("service-accounts", "service-accounts", nil))
}

// kubeconfig writes how the bearer of a certificate reaches the API server.
func (c *Cluster) kubeconfig(file string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:%s", certificate-authority: %s}}]
users: [{name: me, user: {client-certificate: %s, client-key: %s}}]
contexts: [{name: test, context: {cluster: test, user: me}}]
current-context: test
`, c.port, c.ca.crt("ca"), c.ca.crt(file), c.ca.sec(file))
	return os.WriteFile(c.kubeconfigOf(file), []byte(text), 0o600)
}

func (c *Cluster) kubeconfigOf(file string) string { return filepath.Join(c.dir, file+".kubeconfig") }

// Kubeconfig is the path of the file by which an administrator reaches the cluster.
func (c *Cluster) Kubeconfig() string { return c.kubeconfigOf("admin") }

func (c *Cluster) bin(name string) string { return filepath.Join(c.cfg.Kube, "bin", name) }

func (c *Cluster) startEtcd(ctx context.Context) error {
	client, err := freePort()
	if err != nil {
		return err
	}
	peer, err := freePort()
	if err != nil {
		return err
	}
	c.etcd = "http://127.0.0.1:" + client
	p, err := c.start("etcd", c.bin("etcd"), "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", c.etcd, "--advertise-client-urls", c.etcd,
		"--listen-peer-urls", "http://127.0.0.1:"+peer, "--initial-advertise-peer-urls", "http://127.0.0.1:"+peer,
		"--initial-cluster", "default=http://127.0.0.1:"+peer, "--log-level", "warn")
	if err != nil {
		return err
	}
	c.parts = append(c.parts, p)
	return p.await(ctx, "etcd", func(ctx context.Context) error { return get(ctx, http.DefaultClient, c.etcd+"/health") })
}

// StartAPI starts the API server and waits until it is ready.
func (c *Cluster) StartAPI(ctx context.Context) error {
	args := []string{
		"--etcd-servers", c.etcd, "--bind-address", "127.0.0.1", "--secure-port", c.port, "--advertise-address", "127.0.0.1",
		"--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/16", "--allow-privileged",
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--tls-cert-file", c.ca.crt("apiserver"), "--tls-private-key-file", c.ca.sec("apiserver"), "--client-ca-file", c.ca.crt("ca"),
		"--kubelet-client-certificate", c.ca.crt("apiserver"), "--kubelet-client-key", c.ca.sec("apiserver"),
		"--kubelet-certificate-authority", c.ca.crt("ca"), "--kubelet-preferred-address-types", "InternalIP",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", filepath.Join(c.ca.dir, "service-accounts.pub"), "--service-account-signing-key-file", c.ca.sec("service-accounts"),
	}
	if len(c.cfg.Groups) > 0 {
		args = append(args, "--runtime-config", strings.Join(c.cfg.Groups, "=true,")+"=true")
	}
	p, err := c.start("apiserver", c.bin("kube-apiserver"), append(args, c.gates()...)...)
	if err != nil {
		return err
	}
	c.api = p
	client, err := c.client()
	if err != nil {
		return err
	}
	return p.await(ctx, "the API server", func(ctx context.Context) error { return get(ctx, client, "https://127.0.0.1:"+c.port+"/readyz") })
}

// StopAPI ends the API server with SIGKILL.
func (c *Cluster) StopAPI() error {
	err := c.api.stop(syscall.SIGKILL)
	c.api = nil
	return err
}

func (c *Cluster) startControllers(context.Context) error {
	for name, args := range map[string][]string{
		"controller-manager": {
			"--service-account-private-key-file", c.ca.sec("service-accounts"), "--root-ca-file", c.ca.crt("ca"), "--use-service-account-credentials",
			"--node-monitor-grace-period", "15s",
		},
		"scheduler": nil,
	} {
		port, err := freePort()
		if err != nil {
			return err
		}
		args = append(args, "--kubeconfig", c.kubeconfigOf(name), "--leader-elect=false", "--bind-address", "127.0.0.1", "--secure-port", port)
		p, err := c.start(name, c.bin("kube-"+name), append(args, c.gates()...)...)
		if err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	return nil
}

func (c *Cluster) gates() []string {
	var all []string
	for name, on := range c.cfg.Gates {
		all = append(all, fmt.Sprintf("%s=%t", name, on))
	}
	if len(all) == 0 {
		return nil
	}
	return []string{"--feature-gates", strings.Join(all, ",")}
}

// client is an administrator's.
func (c *Cluster) client() (*http.Client, error) {
	text, err := os.ReadFile(c.ca.crt("ca"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	cert, err := tls.LoadX509KeyPair(c.ca.crt("admin"), c.ca.sec("admin"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}}}, nil
}

// get is nil if a URL answers well.
func get(ctx context.Context, client *http.Client, url string) error {
	_, err := fetch(ctx, client, url)
	return err
}

func fetch(ctx context.Context, client *http.Client, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", url, resp.Status, text)
	}
	return string(text), nil
}

// Tail is the end of what each part of the cluster has said.
func (c *Cluster) Tail() string {
	var all []string
	for _, p := range append(c.parts, c.api, c.kueue.process) {
		if p != nil {
			all = append(all, p.name+":\n"+p.tail())
		}
	}
	for _, n := range c.nodes {
		all = append(all, "kubelet of "+n.Name+":\n"+n.kubelet.tail())
	}
	return strings.Join(all, "\n\n")
}

// Close ends everything and takes it away.
func (c *Cluster) Close() error {
	if c.dir == "" {
		return nil
	}
	return clear(c.dir)
}

// freePort is a TCP port of loopback on which nobody listens now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// Images is the directory of the archives of images.
func (c *Cluster) Images() string { return c.cfg.Images }
