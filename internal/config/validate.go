package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/fault"
)

// Validate checks values that are right each by itself against each other and
// against what the server can do. The error is a *fault.Error with a field for
// each.
func (c Config) Validate() error { return c.check().Err() }

func (c *Config) check() fault.Fields {
	var f fault.Fields
	if c.Data == "" || c.Data == "/" {
		f.Add("data", "must be a directory of the server's own")
	}
	c.Listen.check(&f)
	c.checkAddress(&f)
	c.checkTLS(&f)
	c.Database.check(&f)
	c.Engine.check(&f)
	c.checkKube(&f)
	c.Devices.check(&f)
	checkPartitions(c.Partitions, &f)
	checkQoS(c.QoS, c.MaxGrace, &f)
	c.Defaults.check(&f)
	checkTemplates(c.Templates, &f)
	checkMounts(c.Mounts, &f)
	checkIdle(c.Idle, &f)
	if a, err := netip.ParseAddr(c.Network.Publish); err != nil || !a.Is4() {
		f.Add("network.publish", "%q must be an IPv4 address of this machine, or 0.0.0.0", c.Network.Publish)
	}
	c.Subids.check(&f)
	for i, name := range c.Admins {
		if !unixName(name) {
			f.Add(element("admins", i), "%q is no name of a Unix user", name)
		}
	}
	c.Login.check(&f)
	if _, err := time.LoadLocation(c.TimeZone); c.TimeZone != "" && err != nil {
		f.Add("time_zone", "%q isn't in the time zone database: give a name such as Europe/Berlin or UTC", c.TimeZone)
	}
	c.Priority.check(&f)
	between(&f, "plan.depth", c.Plan.Depth, 1, 10_000)
	atMost(&f, "max_grace", c.MaxGrace, day)
	if w := c.Money.RollingWindow; w < 10*second || w > 30*day {
		f.Add("money.rolling_window", "%s must be between 10s and 720h", w.format())
	}
	c.Notify.check(&f)
	oneOf(&f, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf(&f, "log.format", c.Log.Format, "text", "json")
	return f
}

// leastSubids are the ids that programs expect: nobody is 65534.
const leastSubids = 65536

func (s Subids) check(f *fault.Fields) {
	if s.Users == 0 {
		return
	}
	before := len(*f)
	between(f, "subids.size", s.Size, leastSubids, maxInt)
	between(f, "subids.users", s.Users, 0, maxInt)
	for _, id := range []struct {
		at string
		v  ID
	}{{"first", s.First}, {"start", s.Start}} {
		if id.v == 0 {
			f.Add("subids."+id.at, "0 is root's: choose another")
		}
	}
	if len(*f) > before {
		return
	}
	first, start, users, size := int64(s.First), int64(s.Start), int64(s.Users), int64(s.Size)
	if most := (maxID + 1 - start) / size; users > most {
		f.Add("subids.users", "%d ranges of %d ids from %d on end beyond 32 bits: there is room for %d; choose fewer users or a smaller start", users, size, start, most)
		return
	}
	if first < start+users*size && start < first+users {
		f.Add("subids.start", "the ids from %d on overlap the uids %d to %d of those who have them: choose a start above", start, first, first+users-1)
	}
}

// maxSocketPath is the longest path of a Unix socket, in bytes (sun_path without
// its end).
const maxSocketPath = 107

func (l Listen) check(f *fault.Fields) {
	if n := len(l.Socket); n > maxSocketPath {
		f.Add("listen.socket", "%s is %d bytes long, the kernel takes %d: choose a shorter path", l.Socket, n, maxSocketPath)
	}
	if l.SocketMode&0o600 != 0o600 {
		f.Add("listen.socket_mode", "%s keeps the server's own user out: use 0600, 0660 or 0666", l.SocketMode.format())
	}
	if l.SocketGroup != "" && !unixName(l.SocketGroup) {
		f.Add("listen.socket_group", "%q is no name of a Unix group", l.SocketGroup)
	}
	for i, h := range l.Hosts {
		if !label(strings.ToLower(h)) {
			f.Add(element("listen.hosts", i), "%q must be a host's name without a port, such as croft.example.org", h)
		}
	}
	l.checkHTTP(f)
	l.checkSSH(f)
}

func (l Listen) checkHTTP(f *fault.Fields) {
	if l.HTTP == HTTPOff {
		return
	}
	host, port, err := net.SplitHostPort(l.HTTP)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		f.Add("listen.http", "%q is no address: use host:port, such as 127.0.0.1:7370, or off", l.HTTP)
		return
	}
	if addr, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !addr.IsLoopback()) {
		f.Add("listen.http", "%s isn't a loopback address: use 127.0.0.1:%s and listen.https, or a proxy that speaks TLS before it, for other machines", l.HTTP, port)
	}
}

// checkAddress looks at what links are made of.
func (c *Config) checkAddress(f *fault.Fields) {
	between(f, "apps.connections", c.Apps.Connections, 1, 1_000_000)
	between(f, "apps.user_connections", c.Apps.UserConnections, 1, 1_000_000)
	if c.Apps.Patience < second || c.Apps.Patience > day {
		f.Add("apps.patience", "must be from 1s to 1d")
	}
	public := c.PublicURL
	if public == "" {
		public = "http://localhost"
	}
	site, err := address.New(public, address.DomainAuto)
	if err != nil {
		f.Add("public_url", "%v", err)
		return
	}
	if why := site.CheckDomain(c.Apps.Domain); why != "" {
		f.Add("apps.domain", "%q %s", c.Apps.Domain, why)
	}
}

// checkTLS looks at what HTTPS needs, and at what needs HTTPS.
func (c *Config) checkTLS(f *fault.Fields) {
	files, acme := c.TLS.Cert != "" || c.TLS.Key != "", c.TLS.ACME.Directory != ""
	checkPort(f, "listen.https", c.Listen.HTTPS)
	checkPort(f, "listen.redirect", c.Listen.Redirect)
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		f.Add("tls", "cert and key belong together: give both")
	}
	if files && acme {
		f.Add("tls.acme", "is beside tls.cert: one of them is enough")
	}
	if u, err := url.Parse(c.TLS.ACME.Directory); acme && (err != nil || u.Scheme != "https" || u.Host == "") {
		f.Add("tls.acme.directory", "%q must be the URL of a directory, with https://", c.TLS.ACME.Directory)
	}
	if !acme && (c.TLS.ACME.Email != "" || c.TLS.ACME.CAFile != "") {
		f.Add("tls.acme", "has no directory: give its URL")
	}
	switch secure := strings.HasPrefix(c.PublicURL, "https://"); {
	case c.Listen.HTTPS == "" && (files || acme):
		f.Add("tls", "nothing is served with it: set listen.https, such as :443")
	case c.Listen.HTTPS != "" && !files && !acme:
		f.Add("listen.https", "needs a certificate: give tls.cert and tls.key, or tls.acme")
	case c.Listen.HTTPS != "" && !secure:
		f.Add("listen.https", "needs public_url, with https:// and the name by which people come")
	case c.Listen.Redirect != "" && !secure:
		f.Add("listen.redirect", "has nowhere to send to: set public_url, with https://")
	}
}

func checkPort(f *fault.Fields, at, addr string) {
	if addr == "" {
		return
	}
	_, port, err := net.SplitHostPort(addr)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		f.Add(at, "%q is no address: use :PORT or host:port", addr)
	}
}

// Address is where people find the server, whose HTTP listener, if it has one, has the port.
func (c *Config) Address(port int) (address.Site, error) {
	public := c.PublicURL
	if public == "" {
		if c.Listen.HTTP == HTTPOff {
			return address.Site{}, nil
		}
		public = "http://localhost:" + strconv.Itoa(port)
	}
	return address.New(public, c.Apps.Domain)
}

func (l Listen) checkSSH(f *fault.Fields) {
	if l.SSH == SSHOff {
		return
	}
	host, port, err := net.SplitHostPort(l.SSH)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		f.Add("listen.ssh", "%q is no address: use host:port, such as 0.0.0.0:2222, or off", l.SSH)
		return
	}
	if _, err := netip.ParseAddr(host); host != "" && host != "localhost" && err != nil {
		f.Add("listen.ssh", "%q isn't an address of this machine: use 0.0.0.0:%s for all of them, or 127.0.0.1:%s for its own users", host, port, port)
	}
}

func (l Login) check(f *fault.Fields) {
	if l.Idle < minute {
		f.Add("login.idle", "must be at least 1m")
	}
	atMost(f, "login.idle", l.Idle, l.Session)
	atMost(f, "login.session", l.Session, 366*day)
}

func (d Database) check(f *fault.Fields) {
	if d.DSN == "" {
		if d.PasswordFile != "" {
			f.Add("database.password_file", "belongs to dsn, which isn't set: remove it")
		}
		return
	}
	if d.Path != "" {
		f.Add("database.path", "is SQLite, but dsn says PostgreSQL: remove one of them")
	}
	u, err := url.Parse(d.DSN)
	switch {
	case err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql"):
		// The text isn't repeated: it may hold a password.
		f.Add("database.dsn", "must be a URL such as postgres://croft@localhost/croft")
	case hasPassword(u):
		f.Add("database.dsn", "has a password in it: put that into a file, and its name into password_file")
	}
}

func hasPassword(u *url.URL) bool {
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}

func (e Engine) check(f *fault.Fields) {
	oneOf(f, "engine.kind", e.Kind, EngineCRI, EngineKube, EngineSim)
	if p, ok := strings.CutPrefix(e.Endpoint, "unix://"); e.Endpoint != "" && (!ok || !filepath.IsAbs(p)) {
		f.Add("engine.endpoint", "%q must be unix:// and an absolute path, such as unix:///run/containerd/containerd.sock", e.Endpoint)
	}
	if e.Endpoint == "" && e.RuntimeDir == "" && e.Kind == EngineCRI {
		f.Add("engine.runtime_dir", "is needed for Croft's own runtime")
	}
	if c := strings.TrimPrefix(e.CgroupParent, "/"); c == "" || c != path.Clean(c) || c == "." || strings.HasPrefix(c, "..") {
		f.Add("engine.cgroup_parent", "%q must be a path below the root of the hierarchy, such as croft", e.CgroupParent)
	}
	if e.NodeName != "" && !label(e.NodeName) {
		f.Add("engine.node_name", "%q %s", e.NodeName, labelRule)
	}
	if p, err := netip.ParsePrefix(e.Subnet); e.Subnet != "" && (err != nil || !p.Addr().Is4() || p.Bits() > 28 || p.Bits() < 8) {
		f.Add("engine.subnet", "%q must be an IPv4 network from /8 to /28, such as 10.200.0.0/20", e.Subnet)
	}
	if !bridgeName(e.Bridge) {
		f.Add("engine.bridge", "%q must be 1 to 15 letters, digits, dashes or underscores, such as croft0", e.Bridge)
	}
	for i, s := range e.DNS {
		if _, err := netip.ParseAddr(s); err != nil {
			f.Add(element("engine.dns", i), "%q must be an IP address", s)
		}
	}
	e.checkPulls(f)
	atMost(f, "engine.patience", e.Patience, 7*day)
	between(f, "engine.pids", e.Pids, 16, 4_194_304)
	between(f, "engine.log_files", e.LogFiles, 0, 1000)
	if e.LogMaxSize < mib {
		f.Add("engine.log_max_size", "%s is too small: at least 1M", e.LogMaxSize.format())
	}
	atMost(f, "engine.log_retention", e.LogRetention, 3650*day)
}

func (e Engine) checkPulls(f *fault.Fields) {
	hosts := make([]string, 0, len(e.Mirrors))
	for host := range e.Mirrors {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	for _, host := range hosts {
		if strings.ContainsAny(host, "/ \t") || host == "." || host == ".." {
			f.Add("engine.mirrors."+host, "must be the host of a registry, such as docker.io")
		}
		for i, m := range e.Mirrors[host] {
			webURL(f, element("engine.mirrors."+host, i), m)
		}
	}
	webURL(f, "engine.proxy.http", e.Proxy.HTTP)
	webURL(f, "engine.proxy.https", e.Proxy.HTTPS)
	between(f, "engine.pulls", e.Pulls, 1, 100)
	between(f, "engine.image_high", e.ImageHigh, 1, 100)
	between(f, "engine.image_low", e.ImageLow, 0, 100)
	if e.ImageLow >= e.ImageHigh {
		f.Add("engine.image_low", "%d must be below image_high, which is %d", e.ImageLow, e.ImageHigh)
	}
}

func (d Devices) check(f *fault.Fields) {
	between(f, "devices.simulated.count", d.Simulated.Count, 0, 1024)
	if !label(d.Simulated.Model) {
		f.Add("devices.simulated.model", "%q %s", d.Simulated.Model, labelRule)
	}
	oneOf(f, "devices.nvidia", d.NVIDIA, NVIDIAAuto, NVIDIAOff)
	for i, o := range d.Offer {
		switch {
		case o == "" || strings.ContainsAny(o, " ,"):
			f.Add(element("devices.offer", i), "%q must be an index such as 0, or a UUID", o)
		case slices.Contains(d.Offer[:i], o):
			f.Add(element("devices.offer", i), "%s is there twice", o)
		}
	}
	for _, model := range slices.Sorted(maps.Keys(d.Memory)) {
		if n := d.Memory[model]; n < mib || n > mostMemory {
			f.Add("devices.memory."+model, "%s must be from 1M to 1P", n.format())
		}
	}
}

// mostMemory bounds the memory of a device, so that no product with it overflows.
const mostMemory = Bytes(1) << 50

func checkPartitions(ps []Partition, f *fault.Fields) {
	names := make([]named, len(ps))
	for i, p := range ps {
		names[i] = named{p.Name, p.Default}
		at := element("partitions", i)
		for j, n := range p.Nodes {
			if !label(n) {
				f.Add(element(at+".nodes", j), "%q %s", n, labelRule)
			}
		}
		if p.MaxTime > 0 && p.DefaultTime > p.MaxTime {
			f.Add(at+".default_time", "%s is longer than max_time, which is %s", p.DefaultTime.format(), p.MaxTime.format())
		}
	}
	checkNames(f, "partitions", names)
}

func checkQoS(qs []QoS, maxGrace Duration, f *fault.Fields) {
	names := make([]named, len(qs))
	for i, q := range qs {
		names[i] = named{q.Name, q.Default}
		at := element("qos", i)
		const largest = 1000 * 1000
		between(f, at+".priority", q.Priority, -mostPoints, mostPoints)
		if q.Factor > largest {
			f.Add(at+".factor", "%s is too large: at most 1000", q.Factor.format())
		}
		atMost(f, at+".max_grace", q.MaxGrace, maxGrace)
		atMost(f, at+".grace", q.Grace, q.MaxGrace)
	}
	checkNames(f, "qos", names)
}

// mostPoints bounds everything that is added up to a priority.
const mostPoints = 1_000_000

func (p Priority) check(f *fault.Fields) {
	between(f, "priority.age", p.Age, 0, mostPoints)
	if p.AgeCap < minute {
		f.Add("priority.age_cap", "must be at least 1m")
	}
	atMost(f, "priority.age_cap", p.AgeCap, 3650*day)
	between(f, "priority.fair_share", p.FairShare, 0, mostPoints)
	between(f, "priority.guarantee", p.Guarantee, 0, mostPoints)
	if p.HalfLife != 0 && p.HalfLife < hour {
		f.Add("priority.half_life", "must be at least 1h, or 0")
	}
	atMost(f, "priority.half_life", p.HalfLife, 3650*day)
	between(f, "priority.devices", p.Devices, 0, mostPoints)
	between(f, "priority.cores", p.Cores, 0, mostPoints)
}

func (d Defaults) check(f *fault.Fields) {
	if d.CPU < 1 {
		f.Add("defaults.cpu", "must be more than nothing")
	}
	if d.Mem < mib {
		f.Add("defaults.mem", "%s is too small: at least 1M", d.Mem.format())
	}
	if d.Time < second {
		f.Add("defaults.time", "must be at least 1s")
	}
	oneOf(f, "defaults.userns", d.Userns, UsernsOff, UsernsAuto, UsernsOn)
	between(f, "defaults.user_jobs", d.UserJobs, 0, 1_000_000)
	between(f, "defaults.user_workspaces", d.UserWorkspaces, 0, 10_000)
}

// checkMounts refuses roots that hold no files of users but the machine's own
// insides.
func checkMounts(roots []string, f *fault.Fields) {
	for i, r := range roots {
		at := element("mounts", i)
		switch {
		case r == "~":
		case !filepath.IsAbs(r):
			f.Add(at, "%q must be ~ or an absolute path", r)
		case r != path.Clean(r):
			f.Add(at, "%q must be written as %s", r, path.Clean(r))
		case r == "/" || slices.ContainsFunc([]string{"/proc", "/sys", "/dev", "/run"}, func(d string) bool { return r == d || strings.HasPrefix(r, d+"/") }):
			f.Add(at, "%s can't be given to jobs: name the folders with users' files", r)
		}
	}
}

// named is an element of a list of which one is the default.
type named struct {
	name   string
	preset bool
}

func checkNames(f *fault.Fields, list string, items []named) {
	if len(items) == 0 {
		f.Add(list, "is empty: remove it for the default")
		return
	}
	presets, first := 0, make(map[string]bool)
	for i, it := range items {
		at := element(list, i) + ".name"
		switch {
		case it.name == "":
			f.Add(at, "is missing")
		case !label(it.name):
			f.Add(at, "%q %s", it.name, labelRule)
		case first[it.name]:
			f.Add(at, "%s is there twice", it.name)
		}
		first[it.name] = true
		if it.preset {
			presets++
		}
	}
	if presets != 1 {
		f.Add(list, "%d of them are the default: write \"default: true\" for exactly one", presets)
	}
}

const labelRule = "must be 1 to 63 small letters, digits, dots and dashes, and begin and end with a letter or digit"

// label reports whether s is a name that is safe in labels, host and file names.
func label(s string) bool { return matches(`[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?`, s) }

func bridgeName(s string) bool { return matches(`[A-Za-z0-9_][A-Za-z0-9_-]{0,14}`, s) }

// unixName refuses what no system would take; whether the name exists is for the
// machine to say.
func unixName(s string) bool { return matches(`[\pL_][\pL\pN._@\\-]{0,255}\$?`, s) }

func matches(pattern, s string) bool {
	ok, err := regexp.MatchString(`\A`+pattern+`\z`, s)
	return ok && err == nil
}

func element(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

func oneOf(f *fault.Fields, at, got string, want ...string) {
	if slices.Contains(want, got) {
		return
	}
	hint := ""
	if n := nearest(got, want); n != "" {
		hint = "; did you mean " + n + "?"
	}
	last := len(want) - 1
	f.Add(at, "%q must be %s or %s%s", got, strings.Join(want[:last], ", "), want[last], hint)
}

func between(f *fault.Fields, at string, got, low, high int) {
	if got < low || got > high {
		f.Add(at, "%d must be from %d to %d", got, low, high)
	}
}

func atMost(f *fault.Fields, at string, got, high Duration) {
	if got > high {
		f.Add(at, "%s is too long: at most %s", got.format(), high.format())
	}
}

func webURL(f *fault.Fields, at, s string) {
	if u, err := url.Parse(s); s != "" && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "") {
		f.Add(at, "must be a URL that begins with http:// or https://")
	}
}

// checkTemplates checks what users call templates. What a workspace may be is checked where
// that is known.
func checkTemplates(all []Template, f *fault.Fields) {
	seen := map[string]bool{}
	for i, t := range all {
		at := element("templates", i)
		switch {
		case !templateName.MatchString(t.Name):
			f.Add(at+".name", "%q must be small letters, digits and dashes within, not digits alone", t.Name)
		case seen[t.Name]:
			f.Add(at+".name", "%s is there twice", t.Name)
		}
		seen[t.Name] = true
	}
}

var templateName = regexp.MustCompile(`^[a-z0-9-]*[a-z][a-z0-9-]*$`)
