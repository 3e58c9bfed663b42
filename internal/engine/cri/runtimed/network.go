package runtimed

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/cri/firewall"
)

// network is what is remembered of the pods' network: it must not move while
// there are pods in it.
type network struct {
	Bridge string       `json:"bridge"`
	Subnet netip.Prefix `json:"subnet"`
}

// prepareNetwork chooses the subnet once, writes the CNI configuration and lets
// the firewall forward for the bridge.
func (r *Runtime) prepareNetwork(ctx context.Context) error {
	n, err := r.network()
	if err != nil {
		return err
	}
	// One rule for the subnet, made here, spares each pod a chain of its own and
	// the ten runs of iptables that it takes. Without iptables the plugin does it
	// by nftables.
	masquerade := firewall.Program("iptables") == "" && firewall.Program("nft") != ""
	text, err := json.MarshalIndent(conflist(n, r.path("cni", "ipam"), masquerade), "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(r.path("cni", "conf", "10-croft.conflist"), text, 0o644); err != nil {
		return err
	}
	r.openFirewall(ctx, n)
	return nil
}

// network returns the remembered network, or chooses one and remembers it.
func (r *Runtime) network() (network, error) {
	n, known, err := r.planned()
	if err != nil || known {
		return n, err
	}
	text, err := json.Marshal(n)
	if err != nil {
		return n, err
	}
	return n, writeFile(r.path("network.json"), text, 0o644)
}

// planned is the remembered network (known), or the one that would be chosen.
func (r *Runtime) planned() (n network, known bool, err error) {
	n = network{Bridge: r.cfg.Bridge}
	text, err := os.ReadFile(r.path("network.json"))
	if err == nil {
		var old network
		if err := json.Unmarshal(text, &old); err == nil && old.Bridge == n.Bridge && old.Subnet.IsValid() {
			if r.cfg.Subnet == "" || r.cfg.Subnet == old.Subnet.String() {
				return old, true, nil
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return n, false, fmt.Errorf("runtimed: %w", err)
	}
	n.Subnet, err = r.chooseSubnet()
	return n, false, err
}

// Subnet returns the containers' subnet, also before the first start. It changes
// nothing.
func (r *Runtime) Subnet() (netip.Prefix, error) {
	n, _, err := r.planned()
	return n.Subnet, err
}

func (r *Runtime) chooseSubnet() (netip.Prefix, error) {
	if r.cfg.Subnet != "" {
		p, err := netip.ParsePrefix(r.cfg.Subnet)
		if err != nil || !p.Addr().Is4() || p.Bits() > 28 {
			return p, fmt.Errorf("runtimed: %q is no IPv4 subnet of at least 16 addresses", r.cfg.Subnet)
		}
		return p.Masked(), nil
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("runtimed: %w", err)
	}
	used := append(parseRoutes(string(routes)), interfacePrefixes()...)
	h := fnv.New32a()
	h.Write([]byte(r.cfg.Dir))
	return freeSubnet(used, h.Sum32())
}

// freeSubnet returns a /20 of 10.192.0.0/10 that overlaps none of used. Where
// the search begins depends on seed, so that two runtimes that start together,
// before either has a route, rarely choose the same.
func freeSubnet(used []netip.Prefix, seed uint32) (netip.Prefix, error) {
	const (
		base  = 10<<24 | 192<<16
		bits  = 20
		count = 1 << (bits - 10)
	)
candidates:
	for i := range uint32(count) {
		var addr [4]byte
		binary.BigEndian.PutUint32(addr[:], base|(seed+i)%count<<(32-bits))
		p := netip.PrefixFrom(netip.AddrFrom4(addr), bits)
		for _, u := range used {
			if u.Overlaps(p) {
				continue candidates
			}
		}
		return p, nil
	}
	return netip.Prefix{}, errors.New("runtimed: no free subnet in 10.192.0.0/10: name one in the configuration")
}

// parseRoutes returns the destinations in text, the contents of /proc/net/route
// (addresses as little-endian hexadecimal), without the default route.
func parseRoutes(text string) []netip.Prefix {
	var out []netip.Prefix
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		dst, err1 := hex.DecodeString(f[1])
		mask, err2 := hex.DecodeString(f[7])
		if err1 != nil || err2 != nil || len(dst) != 4 || len(mask) != 4 {
			continue
		}
		ones, size := net.IPMask{mask[3], mask[2], mask[1], mask[0]}.Size()
		if size == 0 || ones == 0 {
			continue
		}
		out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{dst[3], dst[2], dst[1], dst[0]}), ones).Masked())
	}
	return out
}

func interfacePrefixes() []netip.Prefix {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Prefix
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			out = append(out, p.Masked())
		}
	}
	return out
}

// conflist is the CNI configuration of the pods' network.
func conflist(n network, ipam string, masquerade bool) table {
	return table{
		"cniVersion": "1.0.0",
		"name":       n.Bridge,
		"plugins": []table{{
			"type":        "bridge",
			"bridge":      n.Bridge,
			"isGateway":   true,
			"ipMasq":      masquerade,
			"hairpinMode": true,
			"ipam": table{
				"type":    "host-local",
				"dataDir": ipam,
				"ranges":  [][]table{{{"subnet": n.Subnet.String()}}},
				"routes":  []table{{"dst": "0.0.0.0/0"}},
			},
		}, {
			// It costs a pod without ports nothing but its start.
			"type":         "portmap",
			"snat":         true, // so that a port on loopback leads anywhere
			"capabilities": table{"portMappings": true},
		}},
	}
}

// openFirewall lets packets from and to the bridge be forwarded, and those that
// leave the subnet go out under the machine's address. Docker sets the policy of
// FORWARD to DROP; its chain DOCKER-USER is the place for rules of others.
// Without iptables there is nothing in the way that we could open.
func (r *Runtime) openFirewall(ctx context.Context, n network) {
	iptables := firewall.Program("iptables")
	if iptables == "" {
		return
	}
	chain := "FORWARD"
	if exec.CommandContext(ctx, iptables, "-w", "5", "-n", "-L", "DOCKER-USER").Run() == nil {
		chain = "DOCKER-USER"
	}
	for _, rule := range firewallRules(n, chain) {
		if exec.CommandContext(ctx, iptables, rule.args("-C")...).Run() == nil {
			continue
		}
		out, err := exec.CommandContext(ctx, iptables, rule.args("-I")...).CombinedOutput()
		if err != nil {
			r.log.Warn("firewall rule not added; containers may be without network",
				"rule", strings.Join(rule.args("-I"), " "), "error", err, "output", strings.TrimSpace(string(out)))
		}
	}
}

func (r *Runtime) removeFirewall(ctx context.Context) error {
	iptables := firewall.Program("iptables")
	if iptables == "" {
		return nil
	}
	n, err := r.network()
	if err != nil {
		return err
	}
	for _, chain := range []string{"FORWARD", "DOCKER-USER"} {
		for _, rule := range firewallRules(n, chain) {
			// Fails where the rule isn't, which is what is wanted.
			_ = exec.CommandContext(ctx, iptables, rule.args("-D")...).Run()
		}
	}
	return nil
}

// firewallRule is a rule of iptables.
type firewallRule struct {
	table, chain string
	match        []string
}

// args are iptables' arguments to check (-C), insert (-I) or delete (-D) it.
func (f firewallRule) args(verb string) []string {
	return append([]string{"-w", "5", "-t", f.table, verb, f.chain}, f.match...)
}

// firewallRules let out what comes from the bridge, in what answers it or comes by a
// published port, and give
// what leaves the subnet the machine's address. chain is where others may put
// rules about forwarding.
func firewallRules(n network, chain string) []firewallRule {
	subnet := n.Subnet.String()
	return []firewallRule{
		{"filter", chain, []string{"-i", n.Bridge, "-j", "ACCEPT"}},
		{"filter", chain, []string{"-o", n.Bridge, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"}},
		{"filter", chain, []string{"-o", n.Bridge, "-m", "conntrack", "--ctstate", "DNAT", "-j", "ACCEPT"}},
		{"nat", "POSTROUTING", []string{"-s", subnet, "!", "-d", subnet, "-j", "MASQUERADE"}},
	}
}

// removeBridge takes the bridge down and away, if it is there.
func removeBridge(name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	ifr.SetUint16(0) // no flags: down
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	var buf [unix.IFNAMSIZ]byte
	copy(buf[:], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCBRDELBR, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
		return fmt.Errorf("bridge %s: %w", name, errno)
	}
	return nil
}
