// Package config has the server's configuration: one YAML file whose every key is
// optional, variables CROFT_<SECTION>_<KEY> that replace single values, and the
// defaults. It is strict: an unknown key or a wrong value is an error that names
// the line and the fix, and all of them are reported at once.
//
// The comments of the exported fields are the reference: docs/reference/config.md
// and deploy/croft.example.yaml are generated from them.
package config

//go:generate go test -run ^TestReference$ -update .

import "path/filepath"

// Places that a packaged server uses.
const (
	// DefaultPath is the configuration file that the service reads.
	DefaultPath = "/etc/croft/croft.yaml"
	// DefaultData is the data directory.
	DefaultData = "/var/lib/croft"
	// DefaultSocket is the socket of a server whose data is in DefaultData, where
	// clients look for it.
	DefaultSocket = "/run/croft/croft.sock"
)

// Config is the whole configuration. Get one from Load: it is complete, with
// values that are derived from others filled in, and valid.
type Config struct {
	// Directory of everything that the server keeps: database, logs, images, the
	// containers' file systems. One server at a time uses it.
	Data Path `yaml:"data"`
	// How clients reach the server.
	Listen Listen `yaml:"listen"`
	// URL by which people's browsers reach the server: a scheme and a host, and perhaps a
	// port. Every link is made of it, and whether cookies are for HTTPS alone. Left out, it
	// is http://localhost with the port of listen.http.
	PublicURL string `yaml:"public_url" example:"https://croft.example.org"`
	// Web applications of jobs: notebooks and whatever else listens in one.
	Apps Apps `yaml:"apps"`
	// The certificate that listen.https is served with.
	TLS TLS `yaml:"tls"`
	// Where the state is kept: an SQLite file, or PostgreSQL.
	Database Database `yaml:"database"`
	// What runs the containers.
	Engine Engine `yaml:"engine"`
	// Which accelerators are offered to jobs.
	Devices Devices `yaml:"devices"`
	// Named sets of nodes that jobs are submitted to. A list here replaces the
	// default one.
	Partitions []Partition `yaml:"partitions"`
	// Qualities of service: priority, price factor and limits that a job chooses by
	// name. A list here replaces the default one.
	QoS []QoS `yaml:"qos"`
	// What a job gets that doesn't say.
	Defaults Defaults `yaml:"defaults"`
	// Kinds of workspaces that users start by name. One with the name of a built-in one
	// (jupyter, code, shell) changes that: what it leaves out stays as it is.
	Templates []Template `yaml:"templates"`
	// Folders of the host that jobs may mount, with all below them. "~" is the home
	// of the job's user. What the user may not read stays unreadable.
	Mounts []string `yaml:"mounts"`
	// Directory of users' named volumes, on a local file system. Left out, it is volumes in
	// the data directory.
	Volumes Path `yaml:"volumes" example:"/srv/croft-volumes"`
	// What jobs may have of the machine's network.
	Network Network `yaml:"network"`
	// The ids that users have in their jobs' user namespaces (fake root). Croft manages
	// them: nothing else on the machine may use them.
	Subids Subids `yaml:"subids"`
	// Logins by password, from where the socket isn't.
	Login Login `yaml:"login"`
	// Unix names of the platform's administrators. Root always is one.
	Admins []string `yaml:"admins" example:"ada"`
	// The site's time zone, by its name in the time zone database: when its days and
	// months begin, for limits per period. Left out, the machine's.
	TimeZone string `yaml:"time_zone" example:"Europe/Berlin"`
	// What a waiting job's place in the queue comes from.
	Priority Priority `yaml:"priority"`
	// The planner, which promises start times.
	Plan Plan `yaml:"plan"`
	// Longest time between SIGTERM and SIGKILL, whatever a QoS or a job says.
	MaxGrace Duration `yaml:"max_grace"`
	// Which jobs are stopped for being idle. The first policy that is for a job counts; one that
	// none is for is left alone. A list here replaces the default one.
	Idle []IdlePolicy `yaml:"idle"`
	// How money is dealt with.
	Money Money `yaml:"money"`
	// How people are told what happened to what is theirs.
	Notify Notify `yaml:"notify"`
	// The server's own log, on standard error.
	Log Log `yaml:"log"`
}

// Money says how money is dealt with.
type Money struct {
	// For how long a job with a rolling deposit pays ahead, besides its grace. Its user is
	// warned a quarter of it before the money ends.
	RollingWindow Duration `yaml:"rolling_window"`
}

// Listen says where clients connect.
type Listen struct {
	// Unix socket; users of the machine are known by it without a login. Left out,
	// it is /run/croft/croft.sock when data is /var/lib/croft, else croft.sock in
	// the data directory.
	Socket Path `yaml:"socket" example:"/run/croft/croft.sock"`
	// Permissions of the socket, octal. Every user who may write to it may ask; what
	// they may do is decided by who they are.
	SocketMode Mode `yaml:"socket_mode"`
	// Unix group that the socket is given to, by name. Left out, it stays as
	// created.
	SocketGroup string `yaml:"socket_group" example:"croft"`
	// Address of the HTTP API: a loopback address and port, port 0 for any free one,
	// or off. Other machines are served by https, or by a proxy that speaks TLS before it.
	HTTP string `yaml:"http"`
	// Address of the same over TLS, as :443, with the certificate of the section tls. It
	// needs public_url.
	HTTPS string `yaml:"https" example:":443"`
	// Address where plain HTTP is sent on to public_url, as :80. An ACME server may ask
	// there, too.
	Redirect string `yaml:"redirect" example:":80"`
	// Address of the SSH gate, through which people log in to their jobs: an address of this
	// machine and a port, port 0 for any free one, or off. As :2222 it is all addresses.
	SSH string `yaml:"ssh"`
	// Names besides localhost that requests over HTTP may give as their host: those by
	// which a proxy is reached that passes them on.
	Hosts []string `yaml:"hosts" example:"croft.example.org"`
}

// TLS says where the certificate comes from: a pair of files, or ACME.
type TLS struct {
	// PEM file of the certificate, followed by those that lead to its authority. It is read
	// again when it changes.
	Cert Path `yaml:"cert" example:"/etc/croft/tls/cert.pem"`
	// PEM file of its key. Others than its owner and group must not be able to read it.
	Key Path `yaml:"key" example:"/etc/croft/tls/key.pem"`
	// A certificate authority that gives certificates to whoever answers at the names.
	ACME ACME `yaml:"acme"`
}

// ACME is a certificate authority that is asked over the network (RFC 8555).
type ACME struct {
	// URL of its directory. It must reach the server at port 443, or 80 if listen.redirect is
	// there. Naming it agrees to its terms.
	Directory string `yaml:"directory" example:"https://acme-v02.api.letsencrypt.org/directory"`
	// Address that it may write to, about certificates that aren't renewed.
	Email string `yaml:"email" example:"ops@example.org"`
	// PEM file of the authority that its own HTTPS is known by. Left out, the machine's.
	CAFile Path `yaml:"ca_file" example:"/etc/croft/site-ca.pem"`
}

// Apps is about web applications of jobs, which the server leads to.
type Apps struct {
	// Domain in which each application has a name of its own, as in 118.apps.example.org:
	// all names below it must lead to this server. Left out, it is apps.localhost where the
	// server is localhost. With none applications are reached by path, as in /w/118/; they
	// then share one origin, in which one can act for the other's visitors.
	Domain string `yaml:"domain" example:"apps.croft.example.org"`
	// Whether a job's applications may be shared with others, too, where they are reached by
	// path: a page of one can then do there whatever its visitor may in any other.
	ShareByPath bool `yaml:"share_by_path"`
	// Whether a job's owner may let anybody in, without a login.
	Public bool `yaml:"public"`
	// Requests and WebSockets that may be open at once to the applications of one job.
	Connections int `yaml:"connections"`
	// The same of one user, to all of them.
	UserConnections int `yaml:"user_connections"`
	// How long an application may take to begin its answer.
	Patience Duration `yaml:"patience"`
}

// Network says what jobs may have of the machine's network.
type Network struct {
	// Whether a job's containers may be in the machine's own network, if it asks for that.
	// They then reach what listens on loopback only, too, whether or not their user may
	// log in to the machine.
	Host bool `yaml:"host"`
	// Ports of the machine that jobs may have lead into them, as FIRST-LAST, or none.
	Ports PortRange `yaml:"ports"`
	// IPv4 address of the machine at which they do. 0.0.0.0 is all: whoever reaches the
	// machine then reaches the jobs.
	Publish string `yaml:"publish"`
}

// Subids are ranges of ids of the machine, of equal size, one for each user: of the user
// with the uid first from start on, of the next uid from start+size on, and so on.
type Subids struct {
	// First uid that has a range.
	First ID `yaml:"first"`
	// So many uids from there on have one each. Others have no fake root, and with 0
	// nobody has.
	Users int `yaml:"users"`
	// First id of the first range.
	Start ID `yaml:"start"`
	// Ids of a range, which a container has from 0 on. Images need 65536.
	Size int `yaml:"size"`
}

// Login is about passwords and the sessions that they open.
type Login struct {
	// Whether passwords are taken at all. Off, nobody logs in; sessions that are open
	// end, and tokens and the socket work as before.
	Passwords bool `yaml:"passwords"`
	// How long a session lives, however much it is used.
	Session Duration `yaml:"session"`
	// How long a session lives without being used.
	Idle Duration `yaml:"idle"`
	// Whether the address in the last element of X-Forwarded-For is the caller's, for a
	// server behind a proxy that sets it. Else all its users share one limit on wrong
	// passwords.
	Forwarded bool `yaml:"forwarded"`
}

// Database says where the state is kept.
type Database struct {
	// SQLite file. Left out, it is croft.db in the data directory. It must be on a
	// local file system.
	Path Path `yaml:"path" example:"/var/lib/croft/croft.db"`
	// PostgreSQL instead of SQLite: postgres://user@host:port/database?options,
	// without a password.
	DSN string `yaml:"dsn" example:"postgres://croft@db.example.org/croft?sslmode=verify-full"`
	// File whose first line is the password of dsn. Others than its owner and group
	// must not be able to read it.
	PasswordFile Path `yaml:"password_file" example:"/etc/croft/database.password"`
}

// Engine describes what runs the containers.
type Engine struct {
	// What kind: cri, containers of this machine; kube, Pods of a Kubernetes cluster; or sim,
	// a virtual machine without real containers, for a trial.
	Kind string `yaml:"kind"`
	// The cluster, for the kind kube.
	Kube Kube `yaml:"kube"`
	// CRI socket of a runtime that isn't Croft's own, as unix:///path. Left out,
	// Croft runs a containerd of its own. A runtime that a kubelet uses is refused.
	Endpoint string `yaml:"endpoint" example:"unix:///run/other/containerd.sock"`
	// Directory with the programs of Croft's own runtime: bin/containerd, bin/runc and
	// so on, and the network plugins in cni/.
	RuntimeDir Path `yaml:"runtime_dir"`
	// Control group above those of all jobs, relative to the root of the hierarchy.
	CgroupParent string `yaml:"cgroup_parent"`
	// Name of this machine in Croft. Left out, its host name up to the first dot.
	NodeName string `yaml:"node_name" example:"gpu1"`
	// For the kind sim, a file with a whole cluster in place of one machine: a line for
	// each node, with the columns sn (its name), cpu_milli, memory_mib, gpu (how many
	// devices) and model, as in Alibaba's openb traces, and perhaps gpu_memory_mib (of
	// each device).
	Fleet Path `yaml:"fleet" example:"/srv/croft/nodes.csv"`
	// What is kept from jobs for the machine itself.
	Reserve Reserve `yaml:"reserve"`
	// Programs that run on the machine itself, outside of containers.
	Host Host `yaml:"host"`
	// IPv4 network of the containers, at least a /28. Left out, a free /20 of
	// 10.192.0.0/10 is chosen once and kept.
	Subnet string `yaml:"subnet" example:"10.200.0.0/20"`
	// Bridge of the containers' network; two servers on a machine need two.
	Bridge string `yaml:"bridge"`
	// Name servers for containers. Left out, those of the machine.
	DNS []string `yaml:"dns" example:"192.0.2.53"`
	// URLs asked before a registry, by the registry's host.
	Mirrors map[string][]string `yaml:"mirrors" example:"docker.io: [https://mirror.example.org]"`
	// PEM file of the site's own certificate authority, trusted for pulls and mirrors.
	CAFile Path `yaml:"ca_file" example:"/etc/ssl/certs/site-ca.pem"`
	// Proxy for pulls, also given to jobs as environment variables.
	Proxy Proxy `yaml:"proxy"`
	// How long a job may be kept from beginning where it was placed, as by a taint or a
	// registry that doesn't answer, before it is taken back and queued again. 0: for ever.
	Patience Duration `yaml:"patience"`
	// Images pulled at the same time.
	Pulls int `yaml:"pulls"`
	// Processes and threads that one job may have.
	Pids int `yaml:"pids"`
	// Use of the image disk, in percent, at which unused images are removed.
	ImageHigh int `yaml:"image_high"`
	// Use of the image disk, in percent, down to which they are removed.
	ImageLow int `yaml:"image_low"`
	// Size at which a job's log is rotated. On a cluster nodes rotate; what is kept there of a
	// log when its Pod goes has at most the size of all files together here, the oldest lines
	// left out.
	LogMaxSize Bytes `yaml:"log_max_size"`
	// Rotated files kept for a job besides the one written to.
	LogFiles int `yaml:"log_files"`
	// How long the log of an ended job is kept.
	LogRetention Duration `yaml:"log_retention"`
}

// Host is about programs on the machine itself.
type Host struct {
	// Whether there may be any: batch scripts of cbatch, croft run --host. They run with the
	// rights that their user has on the machine, whether or not he may log in to it.
	Programs bool `yaml:"programs"`
	// Device nodes that they may open besides those of the accelerators given to them and
	// those that every program needs. Patterns of paths.
	Devices []string `yaml:"devices" example:"/dev/infiniband/*, /dev/fuse"`
}

// Reserve is kept from jobs.
type Reserve struct {
	// Cores.
	CPU Cores `yaml:"cpu"`
	// Memory.
	Mem Bytes `yaml:"mem"`
}

// Proxy is a forward proxy.
type Proxy struct {
	// URL for plain HTTP.
	HTTP string `yaml:"http" example:"http://proxy.example.org:3128"`
	// URL for HTTPS.
	HTTPS string `yaml:"https" example:"http://proxy.example.org:3128"`
	// Hosts, domains and networks that are reached directly, separated by commas.
	NoProxy string `yaml:"no_proxy" example:"localhost,.example.org,10.0.0.0/8"`
}

// Devices says which accelerators are offered.
type Devices struct {
	// Simulated accelerators, for trying Croft out on a machine without any.
	Simulated Simulated `yaml:"simulated"`
	// auto: NVIDIA GPUs are offered where there are any; off: they are left alone.
	NVIDIA string `yaml:"nvidia"`
	// The only devices offered, by index or UUID, so that a machine can be moved over
	// device by device. Left out, all are.
	Offer []string `yaml:"offer" example:"0, GPU-6a9e1d3c-0000-4000-8000-000000000000"`
	// Memory of each device of a model, where the device doesn't say it: MIG instances,
	// simulated ones. Jobs that ask for memory of a device get none of a model whose
	// memory isn't known.
	Memory map[string]Bytes `yaml:"memory" example:"a100-80g.1g.10gb: 9.5G"`
	// Whether the devices of one job may be of several models. They are slow together
	// for most programs, so a job gets them of one model else.
	Mixed bool `yaml:"mixed"`
}

// Simulated are accelerators that don't exist.
type Simulated struct {
	// How many.
	Count int `yaml:"count"`
	// Name of their model.
	Model string `yaml:"model"`
}

// Partition is a named set of nodes.
type Partition struct {
	// Name that jobs give.
	Name string `yaml:"name"`
	// Nodes of the partition. Left out, every node.
	Nodes []string `yaml:"nodes" example:"gpu1, gpu2"`
	// Whether jobs that name no partition go here. Exactly one is the default; a
	// single partition is without saying so.
	Default bool `yaml:"default"`
	// Longest wall time of a job; 0 is unlimited.
	MaxTime Duration `yaml:"max_time"`
	// Wall time of a job that names none; 0 is that of the section defaults.
	DefaultTime Duration `yaml:"default_time"`
}

// QoS is a quality of service.
type QoS struct {
	// Name that jobs give.
	Name string `yaml:"name"`
	// Whether jobs that name no QoS get this one. Exactly one is the default; a
	// single QoS is without saying so.
	Default bool `yaml:"default"`
	// Added to the priority of its jobs.
	Priority int `yaml:"priority"`
	// Prices are multiplied by this, to a thousandth.
	Factor Factor `yaml:"factor"`
	// Longest wall time of a job; 0 is unlimited.
	MaxTime Duration `yaml:"max_time"`
	// Time between SIGTERM and SIGKILL for a job that names none.
	Grace Duration `yaml:"grace"`
	// Longest such time that a job may ask for. Left out, the site's max_grace.
	MaxGrace Duration `yaml:"max_grace" example:"5m"`
}

// Defaults is what a job gets that doesn't say.
type Defaults struct {
	// Cores.
	CPU Cores `yaml:"cpu"`
	// Memory.
	Mem Bytes `yaml:"mem"`
	// Wall time, where the partition has no default of its own.
	Time Duration `yaml:"time"`
	// Fake root: whether containers have a user namespace in which they run as root, who is
	// the job's user outside. on, auto (where it can be, else as the user), or off.
	Userns string `yaml:"userns"`
	// Jobs that one user may have submitted and not ended, where no limit for the user
	// says otherwise (croft limit set submitted N -u USER); 0 is any number.
	UserJobs int `yaml:"user_jobs"`
	// Disk space that the images which one user saved from jobs (croft image save) may
	// add to those that they are made of; 0 lets nobody save any.
	UserImages Bytes `yaml:"user_images"`
	// Workspaces that one user may have, stopped ones too; 0 is any number.
	UserWorkspaces int `yaml:"user_workspaces"`
}

// Priority weighs, in points, what counts for a waiting job. What its QoS and its own
// priority add is added as it is.
type Priority struct {
	// For having waited for age_cap, and in proportion for less. Time in which a job
	// couldn't have run doesn't count.
	Age int `yaml:"age"`
	// After this a longer wait is worth no more.
	AgeCap Duration `yaml:"age_cap"`
	// For whoever has had the least of his share of the machine; the fewer users come
	// before one, the more of it he gets.
	FairShare int `yaml:"fair_share"`
	// For jobs of accounts that have less of a partition than their share guarantees; of
	// those that borrow, half for whoever has borrowed least for his weight.
	Guarantee int `yaml:"guarantee"`
	// After this, what was used counts half for fair share, and so on; 0 counts it for
	// ever.
	HalfLife Duration `yaml:"half_life"`
	// For each doubling of a job's devices: as many points for two, twice as many for
	// four.
	Devices int `yaml:"devices"`
	// The same for the cores of a job without devices.
	Cores int `yaml:"cores"`
}

// Plan bounds the planner.
type Plan struct {
	// So many waiting jobs get a promised start; later ones an estimate.
	Depth int `yaml:"depth"`
}

// IdlePolicy says for some jobs when one is idle, and what follows. A job is idle while
// none of the signals that count shows work. What isn't known counts as work.
type IdlePolicy struct {
	// Kinds of jobs that it is for: workspace, container or batch. Left out, all.
	Kinds []string `yaml:"kinds" example:"workspace"`
	// Partitions that it is for. Left out, all.
	Partitions []string `yaml:"partitions" example:"main"`
	// QoS that it is for. Left out, all.
	QoS []string `yaml:"qos" example:"normal"`
	// Accounts that it is for, with those below them. Left out, all.
	Accounts []string `yaml:"accounts" example:"teaching"`
	// What follows: stop; dry-run, which only notes what would be stopped (croft idle, croft
	// events); or off. A workspace that is stopped keeps its files and its address.
	Mode string `yaml:"mode"`
	// How long a job must have been seen to be idle.
	After Duration `yaml:"after"`
	// How long before the stop its user is told.
	Notice Duration `yaml:"notice"`
	// Percent of the time: a job works that has as much of one of its devices in use.
	Device int `yaml:"device"`
	// Cores: likewise, on average over a minute.
	CPU Cores `yaml:"cpu"`
	// What counts: device, cpu, app (what web programs say of themselves, as the kernels of
	// a notebook), ssh, terminal, browser (open pages). The first three show work; at least
	// one of them must be among them.
	Signals []string `yaml:"signals"`
	// For how long croft keep takes a job out at a time, at most.
	KeepMax Duration `yaml:"keep_max"`
}

// Log is the server's own log.
type Log struct {
	// Least severity that is written: debug, info, warn or error.
	Level string `yaml:"level"`
	// text or json, a line each.
	Format string `yaml:"format"`
}

// Default returns the configuration of an empty file, before values that depend
// on others are filled in.
func Default() Config {
	return Config{
		Data:     DefaultData,
		Listen:   Listen{SocketMode: 0o666, HTTP: "127.0.0.1:7370", SSH: "127.0.0.1:2222"},
		Apps:     Apps{Connections: 1024, UserConnections: 4096, Patience: 2 * minute},
		Database: Database{},
		Engine: Engine{
			Kind:         EngineCRI,
			Kube:         defaultKube(),
			RuntimeDir:   "/usr/lib/croft/runtime",
			CgroupParent: "croft",
			Reserve:      Reserve{Mem: gib},
			Bridge:       "croft0",
			Patience:     2 * minute,
			Pulls:        3,
			Pids:         16384,
			ImageHigh:    85,
			ImageLow:     75,
			LogMaxSize:   50 * mib,
			LogFiles:     4,
			LogRetention: 30 * day,
		},
		Devices:    Devices{Simulated: Simulated{Model: "sim"}, NVIDIA: NVIDIAAuto},
		Partitions: []Partition{{Name: "main", Default: true}},
		QoS:        []QoS{defaultQoS()},
		Defaults:   Defaults{CPU: 1000, Mem: 2 * gib, Time: hour, Userns: UsernsOff, UserJobs: 10_000, UserImages: 50 * gib, UserWorkspaces: 20},
		Subids:     Subids{First: 1000, Users: 4090, Start: 1_879_048_192, Size: leastSubids},
		Mounts:     []string{"~"},
		Network:    Network{Ports: ports(1024, 65535), Publish: "127.0.0.1"},
		Priority:   Priority{Age: 1000, AgeCap: 14 * day, FairShare: 1000, Guarantee: 10_000, HalfLife: 7 * day},
		Plan:       Plan{Depth: 100},
		Login:      Login{Passwords: true, Session: 7 * day, Idle: day},
		MaxGrace:   10 * minute,
		Idle:       []IdlePolicy{defaultIdle()},
		Money:      Money{RollingWindow: hour},
		Notify:     Notify{Keep: 5 * day, Mail: Mail{Port: 587, TLS: MailStartTLS, Hourly: 100}, Webhook: Webhook{Hourly: 1000}},
		Log:        Log{Level: "info", Format: "text"},
	}
}

func defaultQoS() QoS {
	q := QoS{Name: "normal", Default: true}
	q.presets()
	return q
}

// presets are the defaults of an element of the list.
func (q *QoS) presets() { q.Factor, q.Grace = 1000, presetGrace }

const presetGrace = 30 * second

// Values of Engine.Kind and Devices.NVIDIA.
const (
	EngineCRI  = "cri"
	EngineKube = "kube"
	EngineSim  = "sim"
	NVIDIAAuto = "auto"
	NVIDIAOff  = "off"
	HTTPOff    = "off"
	SSHOff     = "off"
	UsernsOff  = "off"
	UsernsAuto = "auto"
	UsernsOn   = "on"
)

// derive fills in what depends on other values.
func (c *Config) derive() {
	if c.Listen.Socket == "" {
		c.Listen.Socket = c.in("croft.sock")
		if c.Data == DefaultData {
			c.Listen.Socket = DefaultSocket
		}
	}
	if c.Database.Path == "" && c.Database.DSN == "" {
		c.Database.Path = c.in("croft.db")
	}
	if c.Volumes == "" {
		c.Volumes = c.in("volumes")
	}
	if len(c.Partitions) == 1 {
		c.Partitions[0].Default = true
	}
	if len(c.QoS) == 1 {
		c.QoS[0].Default = true
	}
	for i := range c.QoS {
		q := &c.QoS[i]
		if q.MaxGrace == 0 {
			q.MaxGrace = c.MaxGrace
		}
		if q.Grace == presetGrace { // gives way; one that the site chose is checked
			q.Grace = min(q.Grace, q.MaxGrace)
		}
	}
}

func (c *Config) in(name string) Path { return Path(filepath.Join(string(c.Data), name)) }
