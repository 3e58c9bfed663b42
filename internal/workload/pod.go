package workload

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "croft.dev/croft/api/v1"
)

// Pod is what all containers of a job share, besides its allocation.
type Pod struct {
	Name        string   `json:"name,omitempty"`
	HostNetwork bool     `json:"host_network,omitempty"`
	Ports       []Port   `json:"ports,omitempty"` // by host port
	DNS         []string `json:"dns,omitempty"`
	SharePID    bool     `json:"share_pid,omitempty"`
	Userns      Userns   `json:"userns,omitempty"`
	User        string   `json:"user,omitempty"` // as ParseUser reads it
}

// Userns says whether a job's containers have a user namespace, in which they are root
// and their user outside.
type Userns string

// The values.
const (
	UsernsOff  Userns = "off"
	UsernsAuto Userns = "auto" // where it can be had, else none
	UsernsOn   Userns = "on"   // or nothing starts
)

// Wanted reports whether there is to be one if it can be.
func (u Userns) Wanted() bool { return u == UsernsAuto || u == UsernsOn }

// Port is a TCP port of the machine that leads to one of the job's.
type Port struct {
	Host      uint16 `json:"host"`
	Container uint16 `json:"container"`
}

// String is HOST:CONTAINER.
func (p Port) String() string {
	return strconv.Itoa(int(p.Host)) + ":" + strconv.Itoa(int(p.Container))
}

// The most that a pod may have.
const (
	maxPorts = 64
	maxDNS   = 3 // that resolvers look at
)

// hostLabel is a label of a host name (RFC 1123).
var hostLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (p *parser) pod(in *v1.Pod) Pod {
	if in == nil {
		return Pod{}
	}
	out := Pod{Name: in.Name, HostNetwork: in.Network == "host", SharePID: in.PID == "shared"}
	if in.Name != "" && !hostLabel.MatchString(in.Name) {
		p.bad.Add("pod.name", "%q can't be a host name: use at most 63 small letters, digits and dashes within", clip(in.Name))
	}
	if !slices.Contains([]string{"", "default", "host"}, in.Network) {
		p.bad.Add("pod.network", "%q must be default or host", clip(in.Network))
	}
	if !slices.Contains([]string{"", "private", "shared"}, in.PID) {
		p.bad.Add("pod.pid", "%q must be private or shared", clip(in.PID))
	}
	if out.HostNetwork && in.Name != "" {
		p.bad.Add("pod.name", "the machine's network comes with the machine's name: leave out one of the two")
	}
	if out.HostNetwork && len(in.Ports) > 0 {
		p.bad.Add("pod.ports", "the machine's network needs no ports that lead into it: leave out one of the two")
	}
	if out.Userns = Userns(in.Userns); !slices.Contains([]Userns{"", UsernsOff, UsernsAuto, UsernsOn}, out.Userns) {
		p.bad.Add("pod.userns", "%q must be on, auto or off", clip(in.Userns))
	}
	if in.User != "" {
		uid, gid, ok := ParseUser(in.User)
		if !ok {
			p.bad.Add("pod.user", "%q must be UID[:GID], numbers such as 0:0 or 1000", clip(in.User))
		}
		out.User = formatUser(uid, gid)
	}
	out.Ports = p.ports(in.Ports)
	for _, s := range in.DNS {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			p.bad.Add("pod.dns", "%q must be an IP address", clip(s))
			continue
		}
		out.DNS = append(out.DNS, addr.String())
	}
	if len(in.DNS) > maxDNS {
		p.bad.Add("pod.dns", "names more than %d servers, of which no more are asked", maxDNS)
	}
	return out
}

// ports reads HOST[:CONTAINER].
func (p *parser) ports(in []string) []Port {
	if len(in) > maxPorts {
		p.bad.Add("pod.ports", "has more than %d entries", maxPorts)
		return nil
	}
	var out []Port
	for _, s := range in {
		port, ok := ParsePort(s)
		switch {
		case !ok:
			p.bad.Add("pod.ports", "%q must be HOST[:CONTAINER], TCP ports from 1 to 65535 such as 8080:80", clip(s))
		case slices.ContainsFunc(out, func(o Port) bool { return o.Host == port.Host }):
			p.bad.Add("pod.ports", "port %d of the machine is named twice", port.Host)
		default:
			out = append(out, port)
		}
	}
	slices.SortFunc(out, func(a, b Port) int { return int(a.Host) - int(b.Host) })
	return out
}

// ParsePort reads HOST[:CONTAINER]; the container's port is by default the same.
func ParsePort(s string) (Port, bool) {
	host, container, two := strings.Cut(s, ":")
	if !two {
		container = host
	}
	var out Port
	for _, f := range []struct {
		text string
		into *uint16
	}{{host, &out.Host}, {container, &out.Container}} {
		n, err := strconv.ParseUint(f.text, 10, 16)
		if err != nil || n == 0 {
			return Port{}, false
		}
		*f.into = uint16(n)
	}
	return out, true
}

// maxID is the largest number of a user or a group: the one above stands for none.
const maxID = 1<<32 - 2

// ParseUser reads UID[:GID]. gid is -1 if there is none.
func ParseUser(s string) (uid, gid int64, ok bool) {
	user, group, two := strings.Cut(s, ":")
	gid = -1
	for _, f := range []struct {
		given bool
		text  string
		into  *int64
	}{{true, user, &uid}, {two, group, &gid}} {
		if !f.given {
			continue
		}
		n, err := strconv.ParseUint(f.text, 10, 32)
		if err != nil || n > maxID {
			return 0, -1, false
		}
		*f.into = int64(n)
	}
	return uid, gid, true
}

func formatUser(uid, gid int64) string {
	s := strconv.FormatInt(uid, 10)
	if gid >= 0 {
		s += ":" + strconv.FormatInt(gid, 10)
	}
	return s
}

// Wire is the pod as the API shows it; nil if nothing was said.
func (p Pod) Wire() *v1.Pod {
	if p.zero() {
		return nil
	}
	w := &v1.Pod{Name: p.Name, DNS: p.DNS, Userns: string(p.Userns), User: p.User}
	if p.HostNetwork {
		w.Network = "host"
	}
	if p.SharePID {
		w.PID = "shared"
	}
	for _, port := range p.Ports {
		w.Ports = append(w.Ports, port.String())
	}
	return w
}

func (p Pod) zero() bool {
	return p.Name == "" && !p.HostNetwork && len(p.Ports) == 0 && len(p.DNS) == 0 && !p.SharePID && p.Userns == "" && p.User == ""
}
