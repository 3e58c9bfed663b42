package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Driver is a driver of dynamic resource allocation on a node, with devices that are character
// devices of no use: a container that was given the device a finds /dev/a.
type Driver struct {
	node   *Node
	name   string
	helper *kubeletplugin.Helper
}

// AddDriver publishes devices of a driver, such as "gpu.example.com". Close it.
func (n *Node) AddDriver(ctx context.Context, name string, devices ...resourcev1.Device) (*Driver, error) {
	config, err := clientcmd.BuildConfigFromFlags("", n.c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d := &Driver{node: n, name: name}
	var ids []string
	for _, one := range devices {
		ids = append(ids, one.Name)
	}
	data := n.in("kubelet", "plugins", name)
	if err := errors.Join(n.writeCDI(name, d.kind(), ids), os.MkdirAll(data, 0o750)); err != nil {
		return nil, err
	}
	d.helper, err = kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(name), kubeletplugin.KubeClient(client), kubeletplugin.NodeName(n.Name),
		kubeletplugin.RegistrarDirectoryPath(n.in("kubelet", "plugins_registry")), kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return nil, err
	}
	return d, d.Publish(ctx, devices...)
}

// Publish says which devices there are, in place of those before.
func (d *Driver) Publish(ctx context.Context, devices ...resourcev1.Device) error {
	return d.helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		d.node.Name: {Slices: []resourceslice.Slice{{Devices: devices}}},
	}})
}

// Close takes the driver away.
func (d *Driver) Close() error {
	d.helper.Stop()
	return os.Remove(filepath.Join(d.node.Dir, "cdi", d.name+".json"))
}

func (d *Driver) kind() string { return d.name + "/device" }

// PrepareResourceClaims implements the driver's service: devices are given by CDI.
func (d *Driver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := make(map[types.UID]kubeletplugin.PrepareResult)
	for _, c := range claims {
		var given kubeletplugin.PrepareResult
		for _, r := range c.Status.Allocation.Devices.Results {
			given.Devices = append(given.Devices, kubeletplugin.Device{
				Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, CDIDeviceIDs: []string{d.kind() + "=" + r.Device},
			})
		}
		out[c.UID] = given
	}
	return out, nil
}

// UnprepareResourceClaims implements the driver's service.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := make(map[types.UID]error)
	for _, c := range claims {
		out[c.UID] = nil
	}
	return out, nil
}

// HandleError implements the driver's service: what is wrong shows in what isn't published.
func (d *Driver) HandleError(context.Context, error, string) {}

// WatchHealthStatus implements the driver's service: what is ill says so by a taint.
func (d *Driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
