package cluster

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
)

// DefineVolcano makes the kinds of Volcano, of which nothing runs.
func (c *Cluster) DefineVolcano(ctx context.Context) error {
	return c.Define(ctx, filepath.Join(c.cfg.Kube, "config", "volcano"))
}

// StartVolcano starts the Volcano that dir has, as vc-scheduler and vc-controller-manager,
// without its webhooks.
func (c *Cluster) StartVolcano(ctx context.Context, dir string) error {
	conf := filepath.Join(c.dir, "volcano.yaml")
	err := os.WriteFile(conf, []byte(`actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]
`), 0o600)
	if err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"vc-scheduler": {"--scheduler-conf", conf, "--enable-metrics=false"}, "vc-controller-manager": nil,
	} {
		port, err := freePort()
		if err != nil {
			return err
		}
		args = append(args, "--kubeconfig", c.Kubeconfig(), "--leader-elect=false", "--enable-healthz=true", "--healthz-address", "127.0.0.1:"+port)
		p, err := c.start(name, filepath.Join(dir, name), args...)
		if err != nil {
			return err
		}
		c.parts = append(c.parts, p)
		if err := p.await(ctx, name, func(ctx context.Context) error {
			return get(ctx, http.DefaultClient, "http://127.0.0.1:"+port+"/healthz")
		}); err != nil {
			return err
		}
	}
	return nil
}
