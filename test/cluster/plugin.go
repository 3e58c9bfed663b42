package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	device "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Plugin is a device plugin of a node, with devices that are character devices of no use.
type Plugin struct {
	device.UnimplementedDevicePluginServer

	node     *Node
	resource string
	server   *grpc.Server

	mu      sync.Mutex
	healthy map[string]bool
	changed chan struct{} // closed when healthy has changed
}

// AddDevices announces devices of a resource, such as "example.com/gpu", to the node's
// kubelet. A container that was given the device a finds /dev/a. Close it.
func (n *Node) AddDevices(ctx context.Context, resource string, ids ...string) (*Plugin, error) {
	p := &Plugin{node: n, resource: resource, healthy: map[string]bool{}, changed: make(chan struct{})}
	for _, id := range ids {
		p.healthy[id] = true
	}
	if err := n.writeCDI(p.file(), resource, ids); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(n.Sockets, p.file()+".sock"))
	if err != nil {
		return nil, err
	}
	p.server = grpc.NewServer()
	device.RegisterDevicePluginServer(p.server, p)
	go func() { _ = p.server.Serve(l) }() // ends with Stop
	return p, p.register(ctx)
}

// writeCDI describes to the container runtime what it makes of devices of a kind.
func (n *Node) writeCDI(file, kind string, ids []string) error {
	type node struct {
		Path     string `json:"path"`
		HostPath string `json:"hostPath"`
		Mode     string `json:"permissions"`
	}
	type edits struct {
		DeviceNodes []node `json:"deviceNodes"`
	}
	type named struct {
		Name  string `json:"name"`
		Edits edits  `json:"containerEdits"`
	}
	var all []named
	for _, id := range ids {
		all = append(all, named{id, edits{[]node{{"/dev/" + id, "/dev/null", "rw"}}}})
	}
	text, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": kind, "devices": all})
	if err != nil {
		return err
	}
	return n.write("cdi/"+file+".json", string(text))
}

// file is the name of what is the plugin's.
func (p *Plugin) file() string { return strings.ReplaceAll(p.resource, "/", "-") }

// register tells the kubelet that the plugin is there.
func (p *Plugin) register(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.node.Sockets, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = device.NewRegistrationClient(conn).Register(ctx, &device.RegisterRequest{Version: device.Version, Endpoint: p.file() + ".sock", ResourceName: p.resource})
	return err
}

// SetHealth says of a device that it is well, or ill.
func (p *Plugin) SetHealth(id string, healthy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.healthy[id] = healthy
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close takes the plugin away.
func (p *Plugin) Close() error {
	p.server.Stop()
	return os.Remove(p.node.in("cdi", p.file()+".json"))
}

// GetDevicePluginOptions implements the plugin's service: it has none.
func (p *Plugin) GetDevicePluginOptions(context.Context, *device.Empty) (*device.DevicePluginOptions, error) {
	return &device.DevicePluginOptions{}, nil
}

// ListAndWatch implements the plugin's service.
func (p *Plugin) ListAndWatch(_ *device.Empty, stream grpc.ServerStreamingServer[device.ListAndWatchResponse]) error {
	for {
		list, changed := p.list()
		if err := stream.Send(list); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *Plugin) list() (*device.ListAndWatchResponse, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &device.ListAndWatchResponse{}
	for _, id := range slices.Sorted(maps.Keys(p.healthy)) {
		health := device.Unhealthy
		if p.healthy[id] {
			health = device.Healthy
		}
		out.Devices = append(out.Devices, &device.Device{ID: id, Health: health})
	}
	return out, p.changed
}

// Allocate implements the plugin's service: devices are given by CDI.
func (p *Plugin) Allocate(_ context.Context, r *device.AllocateRequest) (*device.AllocateResponse, error) {
	out := &device.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		one := &device.ContainerAllocateResponse{}
		for _, id := range c.DevicesIds {
			one.CdiDevices = append(one.CdiDevices, &device.CDIDevice{Name: p.resource + "=" + id})
		}
		out.ContainerResponses = append(out.ContainerResponses, one)
	}
	return out, nil
}

// Await waits until the kubelet says that so many devices of the resource may be given.
func (p *Plugin) Await(ctx context.Context, healthy int) error {
	client, err := p.node.c.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.node.kubelet.await(ctx, fmt.Sprintf("%d devices", healthy), func(ctx context.Context) error {
		text, err := fetch(ctx, client, "https://127.0.0.1:"+p.node.c.port+"/api/v1/nodes/"+p.node.Name)
		if err != nil {
			return err
		}
		var n struct {
			Status struct {
				Allocatable map[string]string `json:"allocatable"`
			} `json:"status"`
		}
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return err
		}
		if got := n.Status.Allocatable[p.resource]; got != fmt.Sprint(healthy) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
}
