package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/fault"
)

func TestDefaults(t *testing.T) {
	c, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults aren't valid: %v", err)
	}
	if c.Listen.Socket != DefaultSocket || c.Database.Path != "/var/lib/croft/croft.db" {
		t.Errorf("socket %s, database %s", c.Listen.Socket, c.Database.Path)
	}
	if c.QoS[0].MaxGrace != c.MaxGrace {
		t.Errorf("the QoS' max_grace is %d, the site's %d", c.QoS[0].MaxGrace, c.MaxGrace)
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "croft.yaml")
	write(t, file, `
data: /srv/croft
engine:
  reserve: {cpu: 0.5, mem: 4G}
  log_retention: 7d
  mirrors:
    docker.io: [https://mirror.example.org]
listen: # nothing below
devices: {offer: [0, 2], memory: {a100.1g: 9.5G}}
partitions:
  - {name: gpu, max_time: 2d}
qos:
  - {name: normal, default: true}
  - {name: night, priority: -10, factor: 0.25, grace: 0}
max_grace: 1m
idle:
  - {kinds: [batch], mode: dry-run, after: 30m, device: 10, cpu: 0.5, signals: [cpu]}
`)
	got, err := Load(file, []string{"CROFT_ENGINE_RESERVE_CPU=750m", "CROFT_LOG_LEVEL=debug", "HOME=/root", "CROFT_TOKEN=x"},
		Setting{Key: "data", Value: "relative", From: "--data"}, Setting{Key: "log.level", Value: "warn", From: "--log-level"})
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Data = Path(filepath.Join(here, "relative"))
	want.Listen.Socket = want.Data + "/croft.sock"
	want.Database.Path = want.Data + "/croft.db"
	want.Volumes = want.Data + "/volumes"
	want.Engine.Reserve = Reserve{CPU: 750, Mem: 4 << 30}
	want.Engine.LogRetention = 7 * day
	want.Engine.Mirrors = map[string][]string{"docker.io": {"https://mirror.example.org"}}
	want.Devices.Offer = []string{"0", "2"}
	want.Devices.Memory = map[string]Bytes{"a100.1g": 19 << 29}
	want.Partitions = []Partition{{Name: "gpu", Default: true, MaxTime: 2 * day}}
	want.QoS = []QoS{
		{Name: "normal", Default: true, Factor: 1000, Grace: 30 * second, MaxGrace: minute},
		{Name: "night", Priority: -10, Factor: 250, MaxGrace: minute},
	}
	want.MaxGrace = minute
	want.Idle = []IdlePolicy{{
		Kinds: []string{"batch"}, Mode: "dry-run", After: 30 * minute, Notice: 15 * minute, Device: 10, CPU: 500, Signals: []string{"cpu"}, KeepMax: day,
	}}
	want.Log.Level = "warn"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWrong(t *testing.T) {
	tests := map[string]struct {
		text string
		env  []string
		want []string // lines of the message
	}{
		"unknown key": {
			text: "listen:\n  htpp: x\n",
			want: []string{"f:2: listen.htpp: unknown key: did you mean http?"},
		},
		"idle": {
			text: "idle:\n  - {mode: kill, after: 1s, notice: 1h, device: 0, cpu: 0, signals: [ssh, kernels], kinds: [service], keep_max: 1s}\n",
			want: []string{
				"f:2: idle[0].kinds[0]: \"service\" must be workspace, container or batch",
				"f:2: idle[0].mode: \"kill\" must be stop, dry-run or off",
				"f:2: idle[0].after: must be at least 10s",
				"f:2: idle[0].notice: 1h is too long: at most 1s",
				"f:2: idle[0].device: 0 must be from 1 to 100",
				"f:2: idle[0].cpu: must be more than nothing",
				"f:2: idle[0].signals[1]: \"kernels\" must be device, cpu, app, ssh, terminal or browser",
				"f:2: idle[0].signals: must have device, cpu or app among them: who is connected doesn't say whether the job works",
				"f:2: idle[0].keep_max: must be at least 1m",
			},
		},
		"claims": {
			text: "mounts: [\"~\", /data/x, /srv]\nengine:\n  kind: kube\n  kube:\n    image: tools:1\n    claims:\n" +
				"      - {path: /home, claim: homes}\n      - {path: /homework, claim: homework}\n      - {path: /home/ada, claim: ada}\n      - {path: /data/x/y, claim: homes}\n" +
				"      - {path: /usr, claim: Usr}\n      - {path: /etc/x, claim: x}\n      - {claim: y}\n      - {path: /data/x/../x/y/z, claim: z}\n",
			want: []string{
				"f:1: mounts[2]: /srv isn't on the cluster: say in engine.kube.claims which claim it is in, or remove it",
				"f:9: engine.kube.claims[2].path: /home/ada and /home, of the claim homes, are in each other: each file is in one claim",
				"f:10: engine.kube.claims[3].claim: homes is there twice: a claim has one path",
				"f:11: engine.kube.claims[4].path: /usr is containers' own: name a folder with users' files",
				`f:11: engine.kube.claims[4].claim: "Usr" must be 1 to 63 small letters, digits, dots and dashes, and begin and end with a letter or digit`,
				"f:12: engine.kube.claims[5].path: /etc/x is containers' own: name a folder with users' files",
				"f:13: engine.kube.claims[6].path: is missing: say where users know its root, such as /home",
				"f:14: engine.kube.claims[7].path: /data/x/y/z and /data/x/y, of the claim homes, are in each other: each file is in one claim",
			},
		},
		"relative claim": {
			text: "engine:\n  kind: kube\n  kube:\n    image: tools:1\n    claims:\n      - {path: data, claim: data}\n",
			want: []string{`f:6: engine.kube.claims[0].path: "data" must be an absolute path, such as /srv/croft (not absolute)`},
		},
		"cluster": {
			text: "engine:\n  kind: kube\n  dns: [192.0.2.1]\n  kube:\n    context: a\n    namespace: Jobs\n    users: ldap\n    scheduler: slurm\n    queues: yes\n    queue_prefix: A\n    window: -1\n    scratch: 1M\n    priority_class: A b\n    models:\n      - {name: A100, resource: gpu}\n      - {name: b, resource: x.org/gpu}\n      - {name: c, resource: x.org/gpu, labels: {a: b}}\ndefaults: {userns: \"on\"}\nnetwork: {host: true}\n",
			want: []string{
				"f:3: engine.dns: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
				`f:4: engine.kube.image: "" must be an image with croft-init and croft in it, such as registry.example.org/croft/tools:1: docs/operations/kubernetes.md says how it is made`,
				"f:5: engine.kube.context: is of a kubeconfig, which isn't set: give the file, or remove it to run inside of the cluster",
				`f:6: engine.kube.namespace: "Jobs" must be 1 to 63 small letters, digits and dashes, and begin and end with a letter or digit`,
				`f:7: engine.kube.users: "ldap" must be machine or croft`,
				`f:8: engine.kube.scheduler: "slurm" must be none, kueue, volcano or native`,
				`f:9: engine.kube.queues: "yes" must be apply or watch`,
				`f:10: engine.kube.queue_prefix: "A" must be 1 to 20 small letters, digits and dashes, and begin and end with a letter or digit`,
				"f:11: engine.kube.window: -1 must be from 0 to 100000",
				"f:12: engine.kube.scratch: 1M must be 0, or from 1G to 1P",
				`f:13: engine.kube.priority_class: "A b" must be 1 to 63 small letters, digits, dots and dashes, and begin and end with a letter or digit`,
				`f:15: engine.kube.models[0].name: "A100" must be 1 to 63 small letters, digits, dots and dashes, and begin and end with a letter or digit`,
				`f:15: engine.kube.models[0].resource: "gpu" must be an extended resource, such as nvidia.com/gpu`,
				"f:17: engine.kube.models[2]: is never used: an element before it has x.org/gpu without labels",
				"f:18: defaults.userns: there is no fake root on a cluster: use off",
				"f:19: network.host: no job has a node's network: remove it",
			},
		},
		"cluster, of its nodes": {
			text: "engine:\n  kind: kube\n  kube: {image: \"tools:1\"}\n  pids: 100\n  image_high: 90\n  image_low: 75\n  log_files: 9\n  reserve: {cpu: 1}\n  bridge: b0\n  cgroup_parent: jobs\n  node_name: n\n",
			want: []string{
				"f:4: engine.pids: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
				"f:5: engine.image_high: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
				"f:7: engine.log_files: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
				"f:8: engine.reserve: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
				"f:9: engine.bridge: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
				"f:10: engine.cgroup_parent: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
				"f:11: engine.node_name: is of jobs on this machine: on a cluster it is the nodes' own affair; remove it",
			},
		},
		"unknown section": {
			text: "engin:\n  kind: cri\n",
			want: []string{"f:1: engin: unknown key: did you mean engine?"},
		},
		"key of another section": {
			text: "endpoint: unix:///x\n",
			want: []string{"f:1: endpoint: unknown key: did you mean engine.endpoint?"},
		},
		"nothing near": {
			text: "plan:\n  zzzzzz: 1\n",
			want: []string{"f:2: plan.zzzzzz: unknown key; known in plan: depth"},
		},
		"several at once": {
			text: "data: relative\nengine:\n  pulls: many\n  reserve:\n    mem: 4X\nlog: text\nmounts: /srv\n",
			want: []string{
				`f:1: data: "relative" must be an absolute path, such as /srv/croft (not absolute)`,
				`f:3: engine.pulls: "many" must be a whole number (not a number)`,
				`f:5: engine.reserve.mem: "4X" must be a size, such as 512M or 64G (not a number)`,
				`f:6: log: is a single value, must be a section: its keys below it, indented`,
				`f:7: mounts: is a single value, must be a list: [a, b] or a line "- a" for each`,
			},
		},
		"a list for a value": {
			text: "data: [/srv]\n",
			want: []string{"f:1: data: is a list, must be an absolute path, such as /srv/croft"},
		},
		"no value": {
			text: "data:\n",
			want: []string{"f:1: data: has no value: give an absolute path, such as /srv/croft, or remove the line for the default"},
		},
		"twice": {
			text: "data: /a\nlog: {level: info}\ndata: /b\n",
			want: []string{"f:3: data: is given twice, first on line 1: remove one"},
		},
		"alias": {
			text: "mounts: &m [/srv]\nadmins: *m\n",
			want: []string{
				"f:1: mounts: anchors and aliases aren't read here: write the value out",
				"f:2: admins: anchors and aliases aren't read here: write the value out",
			},
		},
		"neither true nor false": {
			text: "qos:\n  - name: a\n    default: yes\n",
			want: []string{`f:3: qos[0].default: "yes" must be true or false (it is neither)`},
		},
		"negative time": {
			text: "max_grace: -1h\n",
			want: []string{`f:1: max_grace: "-1h" must be a time, such as 90s, 30m, 2h or 1d12h (must not be negative)`},
		},
		"overflow": {
			text: "max_grace: 99999999999999d\n",
			want: []string{`f:1: max_grace: "99999999999999d" must be a time, such as 90s, 30m, 2h or 1d12h (too large)`},
		},
		"mode": {
			text: "listen: {socket_mode: 888}\n",
			want: []string{`f:1: listen.socket_mode: "888" must be octal permissions, such as 0660 (not permissions)`},
		},
		"not loopback": {
			text: "listen:\n  http: 0.0.0.0:7370\n",
			want: []string{"f:2: listen.http: 0.0.0.0:7370 isn't a loopback address: use 127.0.0.1:7370 and listen.https, or a proxy that speaks TLS before it, for other machines"},
		},
		"any address": {
			text: "listen:\n  http: :7370\n",
			want: []string{"f:2: listen.http: :7370 isn't a loopback address: use 127.0.0.1:7370 and listen.https, or a proxy that speaks TLS before it, for other machines"},
		},
		"no port": {
			text: "listen: {http: localhost}\n",
			want: []string{`f:1: listen.http: "localhost" is no address: use host:port, such as 127.0.0.1:7370, or off`},
		},
		"public URL in the clear": {
			text: "public_url: http://croft.example.org\n",
			want: []string{"f:1: public_url: must begin with https://: passwords and cookies aren't for everybody on the way to read"},
		},
		"public URL with a path": {
			text: "public_url: https://example.org/croft\n",
			want: []string{"f:1: public_url: must be a scheme and a host and perhaps a port, such as https://croft.example.org"},
		},
		"applications beside the server": {
			text: "public_url: https://croft.example.org\napps:\n  domain: example.org\n",
			want: []string{`f:3: apps.domain: "example.org" must not be above the server's own name: applications are kept apart from it by theirs`},
		},
		"half a certificate": {
			text: "public_url: https://gpu1\nlisten: {https: \":443\"}\ntls:\n  cert: /c\n",
			want: []string{"f:3: tls: cert and key belong together: give both"},
		},
		"no certificate": {
			text: "public_url: https://gpu1\nlisten: {https: \":443\"}\n",
			want: []string{"f:2: listen.https: needs a certificate: give tls.cert and tls.key, or tls.acme"},
		},
		"nothing to serve with a certificate": {
			text: "tls: {cert: /c, key: /k}\n",
			want: []string{"f:1: tls: nothing is served with it: set listen.https, such as :443"},
		},
		"HTTPS without a name": {
			text: "listen: {https: \":443\"}\ntls: {cert: /c, key: /k}\n",
			want: []string{"f:1: listen.https: needs public_url, with https:// and the name by which people come"},
		},
		"redirect to nowhere": {
			text: "listen: {redirect: \":80\"}\n",
			want: []string{"f:1: listen.redirect: has nowhere to send to: set public_url, with https://"},
		},
		"two certificates": {
			text: "public_url: https://gpu1\nlisten: {https: \":443\"}\ntls: {cert: /c, key: /k, acme: {directory: \"https://ca/d\"}}\n",
			want: []string{"f:3: tls.acme: is beside tls.cert: one of them is enough"},
		},
		"authority in the clear": {
			text: "public_url: https://gpu1\nlisten: {https: \":443\"}\ntls: {acme: {directory: \"http://ca/d\"}}\n",
			want: []string{`f:3: tls.acme.directory: "http://ca/d" must be the URL of a directory, with https://`},
		},
		"HTTPS port": {
			text: "public_url: https://gpu1\nlisten: {https: \"443\"}\ntls: {cert: /c, key: /k}\n",
			want: []string{`f:2: listen.https: "443" is no address: use :PORT or host:port`},
		},
		"SSH at a name": {
			text: "listen:\n  ssh: gate.example.org:22\n",
			want: []string{`f:2: listen.ssh: "gate.example.org" isn't an address of this machine: use 0.0.0.0:22 for all of them, or 127.0.0.1:22 for its own users`},
		},
		"SSH without a port": {
			text: "listen:\n  ssh: 0.0.0.0\n",
			want: []string{`f:2: listen.ssh: "0.0.0.0" is no address: use host:port, such as 0.0.0.0:2222, or off`},
		},
		"enumeration": {
			text: "engine: {kind: sum}\n",
			want: []string{`f:1: engine.kind: "sum" must be cri, kube or sim; did you mean sim?`},
		},
		"password in the DSN": {
			text: "database:\n  dsn: postgres://croft:secret@localhost/croft\n",
			want: []string{"f:2: database.dsn: has a password in it: put that into a file, and its name into password_file"},
		},
		"two databases": {
			text: "database:\n  path: /a.db\n  dsn: postgres://localhost/croft\n",
			want: []string{"f:2: database.path: is SQLite, but dsn says PostgreSQL: remove one of them"},
		},
		"watermarks": {
			text: "engine:\n  image_high: 70\n",
			want: []string{"f:1: engine.image_low: 75 must be below image_high, which is 70"},
		},
		"default partition": {
			text: "partitions:\n  - name: a\n  - name: b\n",
			want: []string{`f:1: partitions: 0 of them are the default: write "default: true" for exactly one`},
		},
		"names": {
			text: "partitions:\n  - name: a\n    default: true\n  - name: a\n  - name: B/\n  - nodes: [n]\n",
			want: []string{
				"f:4: partitions[1].name: a is there twice",
				`f:5: partitions[2].name: "B/" must be 1 to 63 small letters, digits, dots and dashes, and begin and end with a letter or digit`,
				"f:6: partitions[3].name: is missing",
			},
		},
		"default over the limit": {
			text: "partitions:\n  - {name: a, max_time: 1h, default_time: 2h}\n",
			want: []string{"f:2: partitions[0].default_time: 2h is longer than max_time, which is 1h"},
		},
		"grace over the site's": {
			text: "max_grace: 1m\nqos:\n  - name: a\n    grace: 5m\n",
			want: []string{"f:4: qos[0].grace: 5m is too long: at most 1m"},
		},
		"priority": {
			text: "priority:\n  age: -1\n  age_cap: 1s\n  fair_share: 2000000\n  half_life: 1m\n  devices: -5\n  guarantee: -1\n",
			want: []string{
				"f:2: priority.age: -1 must be from 0 to 1000000", "f:3: priority.age_cap: must be at least 1m",
				"f:4: priority.fair_share: 2000000 must be from 0 to 1000000", "f:5: priority.half_life: must be at least 1h, or 0",
				"f:6: priority.devices: -5 must be from 0 to 1000000", "f:7: priority.guarantee: -1 must be from 0 to 1000000",
			},
		},
		"mount of everything": {
			text: "mounts:\n  - ~\n",
			want: []string{"f:2: mounts[0]: has no value: give text on one line, or remove the line for the default"},
		},
		"mounts": {
			text: "mounts: [\"~\", /, /proc/1, srv, /srv/../etc, /srv]\n",
			want: []string{
				"f:1: mounts[1]: / can't be given to jobs: name the folders with users' files",
				"f:1: mounts[2]: /proc/1 can't be given to jobs: name the folders with users' files",
				`f:1: mounts[3]: "srv" must be ~ or an absolute path`,
				`f:1: mounts[4]: "/srv/../etc" must be written as /etc`,
			},
		},
		"admins": {
			text: "admins: [ada, -rf, \"a\\nb\"]\n",
			want: []string{`f:1: admins[2]: must be text on one line (has a line break or control character in it)`},
		},
		"no name of a user": {
			text: "admins: [ada, -rf]\n",
			want: []string{`f:1: admins[1]: "-rf" is no name of a Unix user`},
		},
		"cgroup above": {
			text: "engine: {cgroup_parent: ../x}\n",
			want: []string{`f:1: engine.cgroup_parent: "../x" must be a path below the root of the hierarchy, such as croft`},
		},
		"memory of devices": {
			text: "devices:\n  memory: {b: 1K,\n    a: 2P, c: lots}\n",
			want: []string{
				`f:3: devices.memory.c: "lots" must be a size, such as 512M or 64G (not a number)`,
			},
		},
		"memory of devices that is none": {
			text: "devices:\n  memory: {b: 1K,\n    a: 2P}\n",
			want: []string{
				"f:2: devices.memory.b: 1K must be from 1M to 1P",
				"f:3: devices.memory.a: 2P must be from 1M to 1P",
			},
		},
		"variable's value": {
			env:  []string{"CROFT_ENGINE_PULLS=x", "CROFT_PLAN_DEPTH=0"},
			want: []string{`CROFT_ENGINE_PULLS: engine.pulls: "x" must be a whole number (not a number)`},
		},
		"subids beyond 32 bits": {
			text: "subids:\n  start: 4000000000\n  users: 5000",
			want: []string{"f:3: subids.users: 5000 ranges of 65536 ids from 4000000000 on end beyond 32 bits: there is room for 4500; choose fewer users or a smaller start"},
		},
		"no id": {
			text: "subids: {start: 4294967295}",
			want: []string{`f:1: subids.start: "4294967295" must be the number of a user or group, up to 4294967294 (no such id)`},
		},
		"subids over uids": {
			text: "subids: {first: 100000, users: 60000, start: 159999}",
			want: []string{"f:1: subids.start: the ids from 159999 on overlap the uids 100000 to 159999 of those who have them: choose a start above"},
		},
		"few subids": {
			text: "subids: {size: 1000, first: 0}\ndefaults: {userns: yes}",
			want: []string{
				"f:1: subids.size: 1000 must be from 65536 to 1000000000",
				"f:1: subids.first: 0 is root's: choose another",
				`f:2: defaults.userns: "yes" must be off, auto or on`,
			},
		},
		"variable's bound": {
			env:  []string{"CROFT_PLAN_DEPTH=0"},
			want: []string{`CROFT_PLAN_DEPTH: plan.depth: 0 must be from 1 to 10000`},
		},
		"variable's name": {
			env:  []string{"CROFT_LISTEN_HTPP=off"},
			want: []string{"CROFT_LISTEN_HTPP: no key has this variable: did you mean CROFT_LISTEN_HTTP?"},
		},
		"not YAML": {
			text: "data: /a\n\tb: c\n",
			want: []string{"f: line 2: found a tab character that violates indentation"},
		},
		"two documents": {
			text: "data: /a\n---\ndata: /b\n",
			want: []string{"f:2: a second document begins here: one file is one configuration"},
		},
		"not a section": {
			text: "[1, 2]\n",
			want: []string{"f:1: is a list, must be a section: its keys below it, indented"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse("f", []byte(tt.text), tt.env, nil)
			if fault.Of(err) != codes.Invalid {
				t.Fatalf("error %v, want an invalid one", err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Ranges may reach the last id that there is, and none may be.
func TestSubidsAtTheirBounds(t *testing.T) {
	for _, text := range []string{"subids: {start: 4294901759, users: 1}", "subids: {users: 0, size: 0}"} {
		if _, err := parse("f", []byte(text), nil, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSecretsStayOut(t *testing.T) {
	for name, text := range map[string]string{
		"DSN":              "database: {dsn: \"postgres://u:hunter2@h/d\"}",
		"DSN that is none": "database: {dsn: \"mysql://u:hunter2@h/d\"}",
		"DSN on two lines": "database: {dsn: \"postgres://u:hunter2@h/d\\n\"}",
		"proxy":            "engine: {proxy: {http: \"ftp://u:hunter2@h\"}}",
	} {
		if _, err := parse("f", []byte(text), nil, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	write(t, big, strings.Repeat("# much\n", maxFile/7+1))
	for path, want := range map[string]codes.Code{
		filepath.Join(dir, "none.yaml"): codes.Invalid,
		dir:                             codes.Invalid,
		big:                             codes.TooLarge,
	} {
		if _, err := Load(path, nil); fault.Of(err) != want || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %s with its name", path, err, want)
		}
	}
}

func TestFlagError(t *testing.T) {
	_, err := Load("", nil, Setting{Key: "listen.http", Value: "10.0.0.1:80", From: "--http"})
	if err == nil || !strings.HasPrefix(err.Error(), "--http: listen.http: 10.0.0.1:80 isn't a loopback address") {
		t.Errorf("got %v", err)
	}
}

// A password on a command line is seen by whoever lists processes.
func TestDatabaseAt(t *testing.T) {
	for name, tc := range map[string]struct {
		at, file string
		want     Database
		bad      string
	}{
		"a file":                 {at: "/srv/croft.db", want: Database{Path: "/srv/croft.db"}},
		"PostgreSQL":             {at: "postgres://croft@db/croft", file: "/pw", want: Database{DSN: "postgres://croft@db/croft", PasswordFile: "/pw"}},
		"with a password":        {at: "postgres://croft:geheim@db/croft", bad: "database.dsn"},
		"with one as a setting":  {at: "postgres://croft@db/croft?password=geheim", bad: "database.dsn"},
		"with one as words":      {at: "host=db password=geheim", bad: "database.dsn"},
		"another program's":      {at: "mysql://croft@db/croft", bad: "database.dsn"},
		"a file with a password": {at: "/srv/croft.db", file: "/pw", bad: "database.password_file"},
	} {
		got, err := DatabaseAt(tc.at, tc.file)
		if tc.bad == "" && (err != nil || got != tc.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if tc.bad != "" && (err == nil || !strings.Contains(fmt.Sprintf("%+v", err), tc.bad) || strings.Contains(fmt.Sprintf("%+v", err), "geheim")) {
			t.Errorf("%s: %v, want %s", name, err, tc.bad)
		}
	}
}

func TestConnString(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "password")
	tests := map[string]struct {
		text string
		mode os.FileMode
		want string
		err  string
	}{
		"plain":           {text: "s3cret/@\nignored\n", mode: 0o640, want: "postgres://croft:s3cret%2F%40@localhost/croft"},
		"others may read": {text: "s3cret\n", mode: 0o644, err: "others can read"},
		"empty":           {text: "\n", mode: 0o600, err: "first line is empty"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			write(t, secret, tt.text)
			if err := os.Chmod(secret, tt.mode); err != nil {
				t.Fatal(err)
			}
			got, err := Database{DSN: "postgres://croft@localhost/croft", PasswordFile: Path(secret)}.ConnString()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// TestVariablesAreDistinct holds that no two keys have the same variable.
func TestVariablesAreDistinct(t *testing.T) {
	seen := make(map[string]string)
	for _, p := range scalarPaths(reflect.TypeFor[Config](), "") {
		if other, twice := seen[envName(p)]; twice {
			t.Errorf("%s and %s are both %s", p, other, envName(p))
		}
		seen[envName(p)] = p
	}
	if len(seen) < 20 {
		t.Errorf("only %d variables", len(seen))
	}
}

func TestEdits(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", "abc"}: 3, {"abc", ""}: 3, {"http", "http"}: 0, {"htpp", "http"}: 1, {"knid", "kind"}: 1, {"subnets", "subnet"}: 1,
	} {
		if got := edits(pair[0], pair[1]); got != want {
			t.Errorf("%v: %d, want %d", pair, got, want)
		}
	}
}

// FuzzParse holds that any text is either a valid configuration or an error for
// the user that names a place.
func FuzzParse(f *testing.F) {
	if example, err := os.ReadFile(exampleFile); err == nil {
		f.Add(string(example))
	}
	for _, s := range []string{"", "a: b", "data: /x\nengine: {reserve: {cpu: 1}}", "- a", "? [a]\n: b", "a: &x [*x]", "\"\\0\": 1",
		"engine: {mirrors: {a: [b], a: [c]}}", "qos: [{}, null, 3]", "data: !!binary aGk=", "<<: {data: /x}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse("f", []byte(text), nil, nil)
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("accepted, but not valid: %v", err)
			}
			return
		}
		var fe *fault.Error
		if !errors.As(err, &fe) || fe.Code != codes.Invalid || !strings.HasPrefix(fe.Message, "f:") {
			t.Errorf("error without a place: %v", err)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAddress makes links of what is configured, or of the port that is listened on.
func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "http://118.apps.localhost:1234/",
		"public_url: https://croft.example.org": "https://croft.example.org/w/118/",
		"{public_url: https://croft.example.org, apps: {domain: apps.croft.example.org}}": "https://118.apps.croft.example.org/",
		"apps: {domain: none}": "http://localhost:1234/w/118/",
		"listen: {http: off}":  "",
		"{listen: {http: off}, public_url: https://croft.example.org}": "https://croft.example.org/w/118/",
	} {
		c, err := parse("f", []byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		site, err := c.Address(1234)
		if got := site.AppURL(address.App{Job: 118}, "/"); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}
