package cri

import (
	"net/netip"
	"os"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// resolvedConf is where systemd-resolved lists the real servers; the machine's
// own resolv.conf then names its stub on loopback.
const resolvedConf = "/run/systemd/resolve/resolv.conf"

// maxServers is how many name servers a resolver looks at.
const maxServers = 3

// dns returns the resolver for an attempt's containers, or nil to have the runtime copy
// the machine's.
func (e *Engine) dns(p engine.Pod) *runtimeapi.DNSConfig {
	switch {
	case len(p.DNS) > 0:
		conf := e.siteDNS()
		if conf == nil {
			text, _ := os.ReadFile("/etc/resolv.conf") // without one there is nothing to add
			conf = parseResolv(string(text))
		}
		return withServers(p.DNS, conf)
	case p.HostNetwork && len(e.cfg.DNSServers) == 0:
		return nil
	}
	return e.siteDNS()
}

// siteDNS is the resolver for those that ask for none. A server on loopback can't be
// reached from a network namespace.
func (e *Engine) siteDNS() *runtimeapi.DNSConfig {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		text = nil
	}
	conf := parseResolv(string(text))
	if len(e.cfg.DNSServers) > 0 {
		conf.Servers = e.cfg.DNSServers
		return conf
	}
	if reachable(conf.Servers) {
		return nil
	}
	if text, err := os.ReadFile(resolvedConf); err == nil {
		if real := parseResolv(string(text)); reachable(real.Servers) {
			return real
		}
	}
	return nil
}

// reachable reports whether a container can reach one of the servers.
func reachable(servers []string) bool {
	for _, s := range servers {
		ip, err := netip.ParseAddr(s)
		if err == nil && !ip.IsLoopback() {
			return true
		}
	}
	return false
}

// parseResolv reads the form of resolv.conf(5). As there, the last search or
// domain line wins, and no more than three servers count.
func parseResolv(text string) *runtimeapi.DNSConfig {
	var c runtimeapi.DNSConfig
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], ";") {
			continue
		}
		switch f[0] {
		case "nameserver":
			if len(c.Servers) < maxServers {
				c.Servers = append(c.Servers, f[1])
			}
		case "search", "domain":
			c.Searches = f[1:]
		case "options":
			c.Options = append(c.Options, f[1:]...)
		}
	}
	return &c
}
