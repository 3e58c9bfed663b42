package setup

import (
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"strings"

	"croft.dev/croft/internal/config"
)

// route is a network that the machine knows a way to.
type route struct {
	device string
	to     netip.Prefix
}

// network reports the containers' network and what it would collide with.
func network(_ context.Context, d *Deps) []Finding {
	e := d.Config.Engine
	if e.Kind == config.EngineSim || e.Endpoint != "" {
		return one(OK, "containers' is the runtime's own affair")
	}
	subnet, err := planned(d)
	if err != nil {
		return fix(one(Fail, "%v", err), "set engine.subnet to a free network")
	}
	if !subnet.IsValid() {
		return one(OK, "containers' is chosen at the first start: a free one of 10.192.0.0/10")
	}
	out := one(OK, "containers get %s on bridge %s", subnet, e.Bridge)
	text, err := fs.ReadFile(d.Machine.Files, "proc/net/route")
	if err != nil {
		return append(out, one(Note, "whether it is free can't be told: no /proc/net/route")...)
	}
	for _, r := range parseRoutes(string(text)) {
		if r.device != e.Bridge && r.to.Overlaps(subnet) {
			out = append(out, fix(one(Warn, "%s is already reached through %s", r.to, r.device), "set engine.subnet to a free network")...)
		}
	}
	return out
}

func planned(d *Deps) (netip.Prefix, error) {
	if d.Subnet != nil {
		return d.Subnet()
	}
	if d.Config.Engine.Subnet == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(d.Config.Engine.Subnet)
	return p.Masked(), err
}

// parseRoutes reads the text of /proc/net/route, in which addresses are
// hexadecimal in the machine's byte order (little-endian on all that Croft runs
// on), and leaves the default route out.
func parseRoutes(text string) []route {
	var out []route
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		to, ok1 := littleEndian(f[1])
		mask, ok2 := littleEndian(f[7])
		ones := bits.LeadingZeros32(^mask)
		if !ok1 || !ok2 || ones == 0 {
			continue
		}
		addr := netip.AddrFrom4([4]byte{byte(to >> 24), byte(to >> 16), byte(to >> 8), byte(to)})
		out = append(out, route{device: f[0], to: netip.PrefixFrom(addr, ones).Masked()})
	}
	return out
}

func littleEndian(s string) (uint32, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return 0, false
	}
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24, true
}

func serverRuns(c config.Config) string { return fmt.Sprintf("runs, at %s", c.Listen.Socket) }

// server reports whether a server answers already, and whether its port is free.
func server(ctx context.Context, d *Deps) []Finding {
	l := d.Config.Listen
	if answers(ctx, d, "unix", string(l.Socket)) {
		return one(OK, "%s", serverRuns(d.Config))
	}
	out := one(OK, "doesn't run; will listen at %s", l.Socket)
	for _, p := range []struct{ key, address, shown string }{{"listen.http", l.HTTP, "http://"}, {"listen.ssh", l.SSH, "ssh://"}} {
		switch {
		case p.address == config.HTTPOff || p.address == config.SSHOff:
		case answers(ctx, d, "tcp", p.address):
			out = append(out, fix(one(Fail, "%s is in use by another program", p.address), "set %s to another port, or off", p.key)...)
		default:
			out[0].Text += " and " + p.shown + p.address
		}
	}
	return out
}

func answers(ctx context.Context, d *Deps, network, address string) bool {
	conn, err := d.Machine.Dial(ctx, network, address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
