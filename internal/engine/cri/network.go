package cri

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// hostnameOf is the name that the attempt's containers have for themselves; none of their
// own in the machine's network, as the runtime wants it.
func hostnameOf(a engine.Allocation) string {
	switch {
	case a.Pod.HostNetwork:
		return ""
	case a.Pod.Hostname != "":
		return a.Pod.Hostname
	}
	return hostname(a.Name, a.Job)
}

// hostname is the job's name as a DNS label (RFC 1123), or one made of its
// number.
func hostname(name string, job int64) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	label := strings.Trim(shorten(strings.Trim(b.String(), "-"), 63), "-")
	if label == "" {
		return fmt.Sprintf("job-%d", job)
	}
	return label
}

// ports leads ports of the machine, at the address that the site gives for that, into the
// attempt's network.
func (e *Engine) ports(p engine.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	for _, port := range p.Ports {
		out = append(out, &runtimeapi.PortMapping{
			Protocol: runtimeapi.Protocol_TCP, HostPort: int32(port.Host), ContainerPort: int32(port.Container), HostIp: e.cfg.PublishAddress,
		})
	}
	return out
}

// checkPorts refuses ports that a program of the machine listens on: rules of the firewall
// would take them away from it.
func (e *Engine) checkPorts(p engine.Pod) error {
	for _, port := range p.Ports {
		l, err := net.Listen("tcp4", net.JoinHostPort(e.cfg.PublishAddress, strconv.Itoa(int(port.Host))))
		if err != nil {
			return &engine.StartError{Message: fmt.Sprintf("port %d of %s is in use by a program of the machine: choose another", port.Host, e.cfg.NodeName)}
		}
		l.Close()
	}
	return nil
}

// withServers is a resolver's configuration with servers that are asked first.
func withServers(first []string, conf *runtimeapi.DNSConfig) *runtimeapi.DNSConfig {
	out := &runtimeapi.DNSConfig{Servers: slices.Clone(first), Searches: conf.GetSearches(), Options: conf.GetOptions()}
	for _, s := range conf.GetServers() {
		if ip, err := netip.ParseAddr(s); err == nil && !ip.IsLoopback() && len(out.Servers) < maxServers && !slices.Contains(out.Servers, s) {
			out.Servers = append(out.Servers, s)
		}
	}
	return out
}
