package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// layer is a set of packages, what of Croft's own they may import, and why not
// more. The layers stand from the bottom to the top.
type layer struct {
	name     string
	packages []string // paths; "a/..." is a with all below
	may      []string // names of layers, paths or "a/..."
	ordered  bool     // a package may also import those that stand before it
	why      string
}

// domain are the packages that decide, in their order: each knows only those
// before it.
var domain = []string{
	"internal/access", "internal/tenancy", "internal/catalog", "internal/asset", "internal/ledger", "internal/limits", "internal/allowance", "internal/notice", "internal/share", "internal/fairshare",
	"internal/idle", "internal/workload", "internal/approval", "internal/placement", "internal/metering", "internal/admission", "internal/world",
}

// layers is every package's place. A package that is in none fails the test: a new
// one has to be given its place here.
var layers = []layer{
	{
		name: "wire", packages: []string{"api/v1/codes", "api/v1/audit", "api/v1"}, ordered: true,
		why: "other people's programs import it, and must get nothing else of Croft with it",
	},
	{
		name: "version", packages: []string{"internal/version"},
		why: "every binary links it",
	},
	{
		name: "leaves", ordered: true, may: []string{"api/v1/codes"},
		packages: []string{"internal/fault", "internal/id", "internal/quantity", "internal/money", "internal/table", "internal/feature"},
		why:      "the domain's words can't depend on what is said with them",
	},
	{
		name: "domain", packages: domain, ordered: true, may: []string{"leaves", "wire"},
		why: "a decision depends only on what it is given: only packages before it in the domain's order, leaves and wire types",
	},
	{
		name: "command", packages: []string{"internal/command"}, may: []string{"domain", "leaves", "wire"},
		why: "commands are what transports and loops ask for; whoever reads or stores needs to know none",
	},
	{
		name: "terminal", packages: []string{"internal/terminal"},
		why: "it is said between the server and what runs in a job, and knows neither",
	},
	{
		name: "clock", packages: []string{"internal/clock"},
		why: "it is time alone; the domain is told the time and doesn't ask",
	},
	{
		name: "engine", packages: []string{"internal/engine"},
		why: "an engine is told what to do in plain data: it knows no job, no account and no rule, so it can't apply one",
	},
	{
		name: "inside", packages: []string{"internal/engine/record", "internal/engine/room", "internal/engine/keep"}, ordered: true, may: []string{"terminal"},
		why: "it is what engines and croft-init, within the container, agree on",
	},
	{
		name: "product", packages: []string{"internal/engine/product"},
		why: "a model has one name, whichever engine finds it",
	},
	{
		name: "remote", packages: []string{"internal/engine/remote"}, may: []string{"engine"},
		why: "how a program's streams are carried is the same for a runtime and for a cluster",
	},
	{
		name: "cri", packages: []string{"internal/engine/cri/..."}, may: []string{"engine", "remote", "inside", "product", "terminal", "internal/engine/cri/..."},
		why: "an engine is told what to do in plain data: it knows no job, no account and no rule, so it can't apply one",
	},
	{
		name: "kube", packages: []string{"internal/engine/kube/..."}, may: []string{"engine", "remote", "inside", "product", "terminal", "internal/engine/kube/..."},
		why: "an engine is told what to do in plain data: it knows no job, no account and no rule, so it can't apply one",
	},
	{
		name: "sim", packages: []string{"internal/engine/sim"}, may: []string{"engine", "clock", "terminal"},
		why: "engines don't know each other; this one needs a clock as well",
	},
	{
		name: "conformance", packages: []string{"internal/engine/conformance"}, may: []string{"engine", "terminal"},
		why: "it tests what engine.Engine promises, of any implementation",
	},
	{
		name: "address", packages: []string{"internal/address"}, may: []string{"internal/id"},
		why: "links are made and read in one place, which decides nothing",
	},
	{
		name: "presence", packages: []string{"internal/presence"}, may: []string{"internal/id"},
		why: "it counts and decides nothing",
	},
	{
		name: "upstream", packages: []string{"internal/upstream"},
		why: "it carries bytes and knows neither whose nor where to",
	},
	{
		name: "machine", packages: []string{"internal/people", "internal/config", "internal/setup"}, ordered: true,
		may: []string{"leaves", "address", "engine", "internal/engine/cri/bind", "api/v1/codes"},
		why: "they say what the machine is like, mounts included; what follows from it is decided elsewhere",
	},
	{
		name: "store", ordered: true, may: []string{"domain", "leaves", "api/v1/codes", "api/v1/audit"},
		packages: []string{"internal/store/chain", "internal/store/archive", "internal/store", "internal/store/storetest"},
		why:      "it keeps rows and knows neither who asks nor who acts",
	},
	{
		name: "roster", packages: []string{"internal/roster"}, may: []string{"internal/tenancy", "internal/access", "leaves", "api/v1/codes"},
		why: "it reads files of others' making: nothing is decided by it",
	},
	{
		name: "quota", packages: []string{"internal/quota"},
		why: "it asks the kernel about folders, and knows neither users nor accounts",
	},
	{
		name: "password", packages: []string{"internal/password"},
		why: "it works on secrets: what it is given goes nowhere else",
	},
	{
		name: "seal", packages: []string{"internal/seal"},
		why: "it works on secrets: what it is given goes nowhere else",
	},
	{
		name: "certs", packages: []string{"internal/certs"}, may: []string{"internal/fault", "api/v1/codes"},
		why: "it asks authorities and knows nothing of what is served",
	},
	{
		name: "registry", packages: []string{"internal/registry"}, may: []string{"leaves", "api/v1/codes"},
		why: "it asks registries and knows neither who asks nor what for",
	},
	{
		name: "mail", packages: []string{"internal/mail"},
		why: "it hands over what it is given, and knows neither what it says nor to whom it matters",
	},
	{
		name: "webhook", packages: []string{"internal/webhook"},
		why: "it posts what it is given, and knows neither what it says nor to whom it matters",
	},
	{
		name: "sshkey", packages: []string{"internal/sshkey"},
		why: "it reads what strangers send and knows nothing else",
	},
	{
		name: "sftp", packages: []string{"internal/sftp"},
		why: "it runs inside of containers, as part of croft-init: the less it is, the better",
	},
	{
		name: "sequencer", packages: []string{"internal/sequencer"},
		may: []string{"internal/store", "internal/store/chain", "internal/world", "internal/access", "leaves", "api/v1/codes"},
		why: "the one writer knows what a command is and nothing of any particular one: no job, no account, no money",
	},
	{
		name: "query", packages: []string{"internal/query"}, may: []string{"internal/store", "internal/store/chain", "usage", "domain", "leaves", "wire"},
		why: "reading changes nothing and reaches no machine",
	},
	{
		name: "usage", packages: []string{"internal/usage"}, may: []string{"leaves"},
		why: "it keeps numbers and knows neither where they come from nor what follows from them",
	},
	{
		name: "loops' tests", packages: []string{"internal/loop/looptest"},
		may: []string{"internal/loop", "internal/loop/inventory", "internal/engine", "internal/engine/sim", "internal/clock", "command", "domain", "leaves"},
		why: "it stands in for the server in tests of the loops",
	},
	{
		name: "loops", packages: []string{"internal/loop", "internal/loop/..."},
		may: []string{"internal/loop", "internal/engine", "usage", "command", "domain", "leaves", "api/v1/codes"},
		why: "a loop sees snapshots and proposes commands: it knows neither database nor sequencer, no other loop, and of an engine only the interface",
	},
	{
		name: "httpapi", packages: []string{"internal/httpapi"},
		may: []string{"internal/query", "internal/sequencer", "internal/engine", "internal/terminal", "internal/password", "internal/roster", "internal/sshkey", "quota", "address", "presence", "command", "domain", "leaves", "wire"},
		why: "a transport holds no rules and knows no other transport: it asks query, submits to the sequencer and passes streams on",
	},
	{
		name: "sshgate", packages: []string{"internal/sshgate"},
		may: []string{"internal/query", "internal/sequencer", "internal/engine", "presence", "command", "domain", "leaves", "wire"},
		why: "a transport holds no rules and knows no other transport: it asks query, submits to the sequencer and passes streams on",
	},
	{
		name: "webterm", packages: []string{"internal/webterm"}, may: []string{"address"},
		why: "it is a page, and knows neither who looks at it nor what is in it",
	},
	{
		name: "gateway", packages: []string{"internal/gateway"},
		may: []string{"internal/sequencer", "internal/engine", "internal/seal", "internal/terminal", "internal/webterm", "internal/upstream", "address", "presence", "command", "domain", "leaves", "api/v1/codes"},
		why: "a transport holds no rules and knows no other transport: whoever puts the server together says how people are known",
	},
	{
		name: "cli", packages: []string{"internal/cli"}, may: []string{"wire", "version"},
		why: "the client is what the API makes of it, small, and starts at once",
	},
	{
		name: "memnet", packages: []string{"internal/cli/memnet"},
		why: "it is a network for tests",
	},
	{
		name: "generators", packages: []string{"internal/cli/gendoc", "internal/httpapi/gen"},
		may: []string{"internal/cli", "internal/httpapi", "api/v1/codes"},
		why: "they print what their parent knows",
	},
	{
		name: "app", packages: []string{"internal/app", "internal/app/daemon"}, may: []string{"internal/...", "wire"},
		why: "it puts the server together",
	},
	{
		name: "croft", packages: []string{"cmd/croft"}, may: []string{"internal/cli"},
		why: "a main package only hands over to a package that tests can run",
	},
	{
		name: "croftd", packages: []string{"cmd/croftd"}, may: []string{"internal/app/daemon"},
		why: "a main package only hands over to a package that tests can run",
	},
	{
		name: "croft-init", packages: []string{"cmd/croft-init"}, may: []string{"inside", "internal/engine/cri/shim", "internal/sftp"},
		why: "it runs inside of every container, and beside every program on the machine: the less it is, the better",
	},
	{
		name: "packages of tests", packages: []string{"internal/archtest", "deploy/systemd"},
		why: "they have tests only",
	},
	{
		name: "end to end", packages: []string{"test/..."}, may: []string{"wire", "test/..."},
		why: "what tests or measures the whole uses it as its users do: by its programs and its API",
	},
}

// home says which packages may import what begins with prefix.
type home struct {
	prefix string
	in     []string
	why    string
}

// homes has every third-party module that is imported directly. One that isn't here
// fails the test: a new dependency is a decision.
var homes = []home{
	{"k8s.io/", []string{"internal/engine/...", "test/cluster"}, "Kubernetes stays beneath the engines: it is large, and the rest must not think in its terms"},
	{"github.com/containerd/", []string{"internal/engine/cri/..."}, "only one engine knows containerd"},
	{"google.golang.org/grpc", []string{"internal/engine/cri/...", "test/cluster"}, "only the CRI speaks gRPC, and a device plugin of the tests"},
	{"github.com/google/go-containerregistry/", []string{"internal/engine/cri/runtimed", "internal/engine/kube", "internal/registry"}, "images are the runtime's, and logins are checked where images come from"},
	{"github.com/distribution/reference", []string{"internal/engine/cri"}, "images are named to the runtime as it names them itself"},
	{"golang.org/x/net/http/httpproxy", []string{"internal/registry"}, "registries are reached as the runtime reaches them"},
	{"golang.org/x/net/http/httpguts", []string{"internal/gateway"}, "headers are written only as HTTP allows them"},
	{"github.com/pelletier/go-toml/", []string{"internal/engine/cri/runtimed"}, "only containerd is configured in TOML"},
	{"tags.cncf.io/container-device-interface/", []string{"internal/engine/cri/devices"}, "only it reads and writes CDI files"},
	{"modernc.org/sqlite", []string{"internal/store"}, "only the store knows the database"},
	{"github.com/jackc/pgx/", []string{"internal/store", "internal/store/storetest"}, "only the store knows the database"},
	{"github.com/pressly/goose/", []string{"internal/store"}, "only the store has a schema"},
	{"github.com/google/uuid", []string{"internal/store", "internal/engine/cri/devices"}, "instances and simulated devices have UUIDs; nothing else is random"},
	{"github.com/tidwall/btree", []string{"internal/table"}, "the domain knows tables, not the tree beneath"},
	{"github.com/danielgtaylor/huma/", []string{"internal/httpapi"}, "it writes the OpenAPI document"},
	{"github.com/prometheus/", []string{"internal/httpapi"}, "metrics are read from snapshots by the transport"},
	{"github.com/coder/websocket", []string{"api/v1", "internal/httpapi", "test/bench/proxy"}, "the two ends of a stream"},
	{"github.com/spf13/", []string{"internal/cli", "internal/app/daemon"}, "command lines"},
	{"go.yaml.in/yaml/v3", []string{"internal/cli", "internal/config"}, "people write YAML in job files and the configuration; programs talk JSON"},
	{"golang.org/x/crypto/argon2", []string{"internal/password"}, "only it makes hashes of passwords"},
	{"golang.org/x/crypto/acme", []string{"internal/certs"}, "only it asks for certificates"},
	{"golang.org/x/crypto/ssh", []string{"internal/sshkey", "internal/sshgate"}, "keys and the gate: nobody else speaks SSH"},
	{"golang.org/x/term", []string{"internal/cli"}, "only the client has a terminal"},
	{"golang.org/x/text/width", []string{"internal/cli"}, "only the client lays out columns"},
	{"golang.org/x/sync/singleflight", []string{"internal/people"}, "one question to a directory server at a time"},
	{"golang.org/x/sync/semaphore", []string{"internal/engine/cri"}, "steps of an attempt are changed beside each other, the attempt alone"},
	{"golang.org/x/sync/errgroup", []string{"internal/engine/cri", "internal/loop/notify"}, "several containers are stopped, and several webhooks posted to, at a time"},
	{"golang.org/x/sys/unix", []string{
		"internal/app/...", "internal/engine/cri/...", "internal/engine/keep", "internal/engine/kube/files", "internal/engine/room", "internal/httpapi", "internal/quota", "internal/setup", "internal/store", "internal/upstream", "cmd/croft-init", "test/...",
	}, "the packages that touch the machine: peer credentials, mounts, locks, kernel features"},
	{"github.com/emersion/", []string{"test/mailbox"}, "only tests have a mail server"},
	{"github.com/standard-webhooks/", []string{"internal/webhook"}, "only it signs what is posted"},
	{"code.dny.dev/ssrf", []string{"internal/webhook"}, "only it goes where users say"},
	{"github.com/wneessen/go-mail", []string{"internal/mail"}, "only it speaks SMTP"},
	{"github.com/chromedp/", []string{"test/browser"}, "only tests drive a browser"},
	{"github.com/google/go-cmp/", []string{"internal/engine/conformance"}, "it compares in tests"},
}

// importFaults checks every import between Croft's own packages against layers.
func importFaults(pkgs []*pkg) []string {
	var faults []string
	used := map[string]bool{}
	for _, p := range pkgs {
		l, at := placeOf(p.ImportPath)
		if l == nil {
			faults = append(faults, fmt.Sprintf("%s has no place in layers (imports_test.go): say what it may import", p.ImportPath))
			continue
		}
		used[l.name] = true
		for _, imported := range p.Imports {
			if isOwn(imported) && !l.allows(imported, at) {
				faults = append(faults, fmt.Sprintf("%s imports %s, which %s may not: %s", p.ImportPath, imported, l.name, l.why))
			}
		}
	}
	for _, l := range layers {
		if !used[l.name] {
			faults = append(faults, fmt.Sprintf("the layer %s has no package: remove it from imports_test.go", l.name))
		}
	}
	return faults
}

// placeOf finds a package's layer and its place therein. A pattern that names the
// package itself counts before one that takes in a tree.
func placeOf(path string) (l *layer, at int) {
	for i := range layers {
		if n := slices.Index(layers[i].packages, path); n >= 0 {
			return &layers[i], n
		}
	}
	for i := range layers {
		for n, pattern := range layers[i].packages {
			if within(path, pattern) {
				return &layers[i], n
			}
		}
	}
	return nil, 0
}

func (l *layer) allows(imported string, at int) bool {
	if l.ordered && slices.Contains(l.packages[:at], imported) {
		return true
	}
	for _, may := range l.may {
		if within(imported, may) {
			return true
		}
		for i := range layers {
			if layers[i].name == may && withinAny(imported, layers[i].packages) {
				return true
			}
		}
	}
	return false
}

func isOwn(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return slices.Contains([]string{"api", "cmd", "deploy", "internal", "test"}, first)
}

// isExternal reports whether path belongs to a third-party module: the first part
// of its path is a domain name.
func isExternal(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !isOwn(path) && strings.Contains(first, ".")
}

// dependencyFaults checks that each third-party module is imported only where it
// has its home.
func dependencyFaults(pkgs []*pkg) []string {
	var faults []string
	used := make([]bool, len(homes))
	for _, p := range pkgs {
		for _, imported := range p.Imports {
			if !isExternal(imported) {
				continue
			}
			i := slices.IndexFunc(homes, func(h home) bool { return strings.HasPrefix(imported, h.prefix) })
			switch {
			case i < 0:
				faults = append(faults, fmt.Sprintf("%s imports %s, which has no entry in homes (imports_test.go): say who may and why", p.ImportPath, imported))
			case !withinAny(p.ImportPath, homes[i].in):
				faults = append(faults, fmt.Sprintf("%s imports %s, which only %s may: %s", p.ImportPath, imported, strings.Join(homes[i].in, ", "), homes[i].why))
			default:
				used[i] = true
			}
		}
	}
	for i, h := range homes {
		if !used[i] {
			faults = append(faults, fmt.Sprintf("nobody imports %s: remove it from homes (imports_test.go)", h.prefix))
		}
	}
	return faults
}

// linked says what a binary must not link, however indirectly.
var linked = []struct {
	binary string
	ban    []string
	only   []string // of Croft's own; nil is anything
	why    string
}{
	{
		binary: "cmd/croft",
		ban:    []string{"database/sql", "modernc.org/", "github.com/jackc/", "k8s.io/", "github.com/containerd/", "google.golang.org/grpc", "testing"},
		only:   []string{"internal/cli", "internal/version", "api/v1", "api/v1/audit", "api/v1/codes"},
		why:    "the client starts in a few milliseconds and is copied to other machines",
	},
	{
		binary: "cmd/croft-init",
		ban:    []string{"net", "net/http", "github.com/", "k8s.io/", "testing"},
		only: []string{
			"internal/engine", "internal/engine/cri/cgroup", "internal/engine/keep", "internal/engine/cri/logfile/rotation", "internal/engine/record",
			"internal/engine/room", "internal/engine/cri/shim", "internal/sftp", "internal/terminal",
		},
		why: "it is the first process of every container, and beside every program on the machine, for as long as the job runs",
	},
	{
		binary: "cmd/croftd",
		ban:    []string{"testing", "internal/engine/conformance", "internal/store/storetest", "internal/cli"},
		why:    "neither test support nor the client is part of the server",
	},
}

// binaryFaults checks what each binary links, however indirectly.
func binaryFaults(pkgs []*pkg) []string {
	var faults []string
	for _, rule := range linked {
		i := slices.IndexFunc(pkgs, func(p *pkg) bool { return p.ImportPath == rule.binary })
		if i < 0 {
			faults = append(faults, rule.binary+" is gone: remove it from linked (imports_test.go)")
			continue
		}
		for _, dep := range pkgs[i].Deps {
			banned := slices.ContainsFunc(rule.ban, func(b string) bool {
				return dep == b || strings.HasSuffix(b, "/") && strings.HasPrefix(dep, b)
			})
			if banned || rule.only != nil && isOwn(dep) && !slices.Contains(rule.only, dep) {
				faults = append(faults, fmt.Sprintf("%s links %s: %s", rule.binary, dep, rule.why))
			}
		}
	}
	return faults
}
