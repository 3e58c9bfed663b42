package workload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
)

var defaults = workload.Defaults{CPU: 1000, Mem: 1 << 30, Time: 3600e9, MaxGrace: 600e9, Now: 1_790_000_000e9}

// Every field that is wrong is named, and the message says what would be right.
func TestParseNamesFieldAndFix(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	tests := map[string]struct {
		edit  func(*v1.JobSpec)
		field string
		fix   string
	}{
		"gpu negative":       {func(s *v1.JobSpec) { s.GPU = "-1" }, "gpu", "whole number"},
		"gpu above one":      {func(s *v1.JobSpec) { s.GPU = "1.5" }, "gpu", "a part is of one device"},
		"gpu too fine":       {func(s *v1.JobSpec) { s.GPU = "0.0001" }, "gpu", "three places"},
		"gpu overflows":      {func(s *v1.JobSpec) { s.GPU = "99999999999999999999" }, "gpu", "whole number"},
		"gpu absurd":         {func(s *v1.JobSpec) { s.GPU = "1048577" }, "gpu", "absurdly"},
		"gpu words":          {func(s *v1.JobSpec) { s.GPU = "all" }, "gpu", "whole number"},
		"a model that isn't": {func(s *v1.JobSpec) { s.Model = "a100|" }, "model", "| between several"},
		"too many models": {func(s *v1.JobSpec) {
			for i := range 40 {
				s.Model += fmt.Sprintf("m%d|", i)
			}
			s.Model += "m"
		}, "model", "more than 32 models"},
		"constraint broken":   {func(s *v1.JobSpec) { s.Constraint = "nvlink&" }, "constraint", "e.g. nvlink&!old"},
		"gpu zero of a model": {func(s *v1.JobSpec) { s.GPU, s.Model = "0", "a100" }, "gpu", "a part of one"},
		"gpu zero of memory":  {func(s *v1.JobSpec) { s.GPU, s.GPUMem = "0", "10G" }, "gpu", "leave gpu_mem out"},
		"gpu_mem negative":    {func(s *v1.JobSpec) { s.GPUMem = "-10G" }, "gpu_mem", "e.g. 10G"},
		"gpu_mem absurd":      {func(s *v1.JobSpec) { s.GPUMem = "2P" }, "gpu_mem", "absurdly"},
		"gpu_mem words":       {func(s *v1.JobSpec) { s.GPUMem = "all" }, "gpu_mem", "e.g. 10G"},
		"cpu zero":            {func(s *v1.JobSpec) { s.CPU = "0" }, "cpu", "cores, e.g."},
		"cpu negative":        {func(s *v1.JobSpec) { s.CPU = "-8" }, "cpu", "cores, e.g."},
		"cpu too fine":        {func(s *v1.JobSpec) { s.CPU = "0.0005" }, "cpu", "cores, e.g."},
		"cpu absurd":          {func(s *v1.JobSpec) { s.CPU = "9999999999" }, "cpu", "absurdly"},
		"cpu overflows":       {func(s *v1.JobSpec) { s.CPU = "9223372036854775807" }, "cpu", "cores, e.g."},
		"cpu exponent":        {func(s *v1.JobSpec) { s.CPU = "1e3" }, "cpu", "cores, e.g."},
		"cpu not a number":    {func(s *v1.JobSpec) { s.CPU = "NaN" }, "cpu", "cores, e.g."},
		"mem zero":            {func(s *v1.JobSpec) { s.Mem = "0" }, "mem", "at least 4M"},
		"mem tiny":            {func(s *v1.JobSpec) { s.Mem = "1K" }, "mem", "at least 4M"},
		"mem negative":        {func(s *v1.JobSpec) { s.Mem = "-64G" }, "mem", "such as 64G"},
		"mem overflows":       {func(s *v1.JobSpec) { s.Mem = "16E" }, "mem", "such as 64G"},
		"mem absurd":          {func(s *v1.JobSpec) { s.Mem = "2E" }, "mem", "absurdly"},
		"mem no unit known":   {func(s *v1.JobSpec) { s.Mem = "64Q" }, "mem", "such as 64G"},
		"time zero":           {func(s *v1.JobSpec) { s.Time = "0" }, "time", "at least 1s"},
		"time below a second": {func(s *v1.JobSpec) { s.Time = "999ms" }, "time", "at least 1s"},
		"time negative":       {func(s *v1.JobSpec) { s.Time = "-2h" }, "time", "such as 2h"},
		"time fraction":       {func(s *v1.JobSpec) { s.Time = "1.5h" }, "time", "such as 2h"},
		"time absurd":         {func(s *v1.JobSpec) { s.Time = "3651d" }, "time", "absurdly"},
		"time overflows":      {func(s *v1.JobSpec) { s.Time = "999999999999d" }, "time", "such as 2h"},
		"grace negative":      {func(s *v1.JobSpec) { s.Grace = "-1s" }, "grace", "such as 30s"},
		"grace above site's":  {func(s *v1.JobSpec) { s.Grace = "11m" }, "grace", "at most 10m"},
		"kind unknown":        {func(s *v1.JobSpec) { s.Kind = "vm" }, "kind", "use container, batch or workspace"},
		"batch, no command":   {func(s *v1.JobSpec) { s.Kind, s.Command = "batch", nil }, "command", "is missing"},
		"batch, a mount": {func(s *v1.JobSpec) {
			s.Kind, s.Command, s.Mounts = "batch", []string{"a"}, []v1.Mount{{Source: "/data"}}
		}, "mounts", "the machine's own files"},
		"batch, a terminal":          {func(s *v1.JobSpec) { s.Kind, s.Command, s.TTY = "batch", []string{"a"}, true }, "stdin", "neither an input nor a terminal"},
		"batch, a bad image":         {func(s *v1.JobSpec) { s.Kind, s.Command, s.Image = "batch", []string{"a"}, "--x" }, "image", "isn't an image"},
		"pull unknown":               {func(s *v1.JobSpec) { s.Pull = "sometimes" }, "pull", "missing, always or never"},
		"name newline":               {func(s *v1.JobSpec) { s.Name = "a\nb" }, "name", "one line"},
		"name escape":                {func(s *v1.JobSpec) { s.Name = "\x1b[2J" }, "name", "one line"},
		"name line separator":        {func(s *v1.JobSpec) { s.Name = "a\u2028b" }, "name", "one line"},
		"name turns the line":        {func(s *v1.JobSpec) { s.Name = "a\u202eb" }, "name", "one line"},
		"name not text":              {func(s *v1.JobSpec) { s.Name = "\xff" }, "name", "printable text"},
		"name long":                  {func(s *v1.JobSpec) { s.Name = long }, "name", "200 bytes"},
		"account ..":                 {func(s *v1.JobSpec) { s.Account = ".." }, "account", "letters, digits"},
		"account newline":            {func(s *v1.JobSpec) { s.Account = "nlp\n" }, "account", "letters, digits"},
		"partition slash":            {func(s *v1.JobSpec) { s.Partition = "a/b" }, "partition", "letters, digits"},
		"qos long":                   {func(s *v1.JobSpec) { s.QoS = strings.Repeat("q", 64) }, "qos", "letters, digits"},
		"model with colon":           {func(s *v1.JobSpec) { s.Model = "a100:2" }, "model", "letters, digits"},
		"image missing":              {func(s *v1.JobSpec) { s.Image = "" }, "image", "name the image"},
		"image ..":                   {func(s *v1.JobSpec) { s.Image = "a/../b" }, "image", "image reference"},
		"image newline":              {func(s *v1.JobSpec) { s.Image = "train:1\n" }, "image", "image reference"},
		"image option":               {func(s *v1.JobSpec) { s.Image = "--privileged" }, "image", "image reference"},
		"workdir relative":           {func(s *v1.JobSpec) { s.Workdir = "work" }, "workdir", "absolute"},
		"workdir ..":                 {func(s *v1.JobSpec) { s.Workdir = "/a/../b" }, "workdir", "absolute"},
		"priority high":              {func(s *v1.JobSpec) { s.Priority = 1_000_001 }, "priority", "between"},
		"priority low":               {func(s *v1.JobSpec) { s.Priority = -1 << 63 }, "priority", "between"},
		"command empty word":         {func(s *v1.JobSpec) { s.Command = []string{""} }, "command", "first word"},
		"args NUL":                   {func(s *v1.JobSpec) { s.Args = []string{"", "b\x00"} }, "args", "word 2"},
		"args many words":            {func(s *v1.JobSpec) { s.Args = strings.Split(strings.Repeat("a ", 4097), " ") }, "args", "4096 words"},
		"command NUL":                {func(s *v1.JobSpec) { s.Command = []string{"a", "b\x00"} }, "command", "word 2"},
		"command huge word":          {func(s *v1.JobSpec) { s.Command = []string{"a", long} }, "command", "131072 bytes"},
		"command many words":         {func(s *v1.JobSpec) { s.Command = strings.Split(strings.Repeat("a ", 4097), " ") }, "command", "4096 words"},
		"nothing to attach":          {func(s *v1.JobSpec) { s.AwaitAttach = true }, "await_attach", "needs stdin or tty"},
		"command in all":             {func(s *v1.JobSpec) { s.Command = wide("a", 9) }, "command", "together"},
		"env name":                   {func(s *v1.JobSpec) { s.Env = map[string]string{"1A": ""} }, "env", "variable name"},
		"env name empty":             {func(s *v1.JobSpec) { s.Env = map[string]string{"": "x"} }, "env", "variable name"},
		"env name with =":            {func(s *v1.JobSpec) { s.Env = map[string]string{"A=B": ""} }, "env", "variable name"},
		"env name newline":           {func(s *v1.JobSpec) { s.Env = map[string]string{"A\n": ""} }, "env", "variable name"},
		"env value NUL":              {func(s *v1.JobSpec) { s.Env = map[string]string{"A": "\x00"} }, "env.A", "not text"},
		"env value huge":             {func(s *v1.JobSpec) { s.Env = map[string]string{"A": long} }, "env.A", "131072 bytes"},
		"env many":                   {func(s *v1.JobSpec) { s.Env = many(1025) }, "env", "1024 variables"},
		"mount relative":             {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "data"}} }, "mounts", "absolute"},
		"mount ..":                   {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/data/../etc"}} }, "mounts", "without .."},
		"mount newline":              {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/da\nta"}} }, "mounts", "absolute"},
		"mount to ..":                {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/data", Target: "/a/.."}} }, "mounts", "without .."},
		"mount to root":              {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/data", Target: "//"}} }, "mounts", "not /"},
		"mount to /proc":             {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/data", Target: "/proc"}} }, "mounts", "container itself"},
		"mount below /proc":          {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/data", Target: "/proc//sys/"}} }, "mounts", "container itself"},
		"mount to /sys":              {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/sys"}} }, "mounts", "container itself"},
		"mount to passwd":            {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/data/p", Target: "/etc/passwd"}} }, "mounts", "container itself"},
		"mount a tmpfs of something": {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "tmpfs", Source: "/a", Target: "/t"}} }, "mounts", "leave source"},
		"mount a tmpfs to read":      {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "tmpfs", Target: "/t", ReadOnly: true}} }, "mounts", "read_only"},
		"mount a tmpfs nowhere":      {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "tmpfs"}} }, "mounts", "target"},
		"mount a tmpfs too large":    {func(s *v1.JobSpec) { s.Mem = "1G"; s.Mounts = []v1.Mount{{Type: "tmpfs", Target: "/t", Size: "1.5G"}} }, "mounts", "a tmpfs of 1.5G is more than the memory that it counts in, 1G"},
		"mount a tmpfs too small":    {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "tmpfs", Target: "/t", Size: "1"}} }, "mounts", "at least 4K"},
		"mount a volume by a path":   {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "volume", Source: "a/b", Target: "/t"}} }, "mounts", "can't be a volume's name"},
		"mount a hidden volume":      {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "volume", Source: ".a", Target: "/t"}} }, "mounts", "can't be a volume's name"},
		"mount a volume nowhere":     {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "volume", Source: "a"}} }, "mounts", "target"},
		"mount a volume of a size":   {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "volume", Source: "a", Target: "/t", Size: "1G"}} }, "mounts", "only a tmpfs has a size"},
		"mount of a size":            {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Source: "/a", Size: "1G"}} }, "mounts", "only a tmpfs has a size"},
		"mount of a kind":            {func(s *v1.JobSpec) { s.Mounts = []v1.Mount{{Type: "nfs", Source: "/a"}} }, "mounts", "must be bind, volume or tmpfs"},
		"mounts many":                {func(s *v1.JobSpec) { s.Mounts = make([]v1.Mount, 65) }, "mounts", "64 entries"},
		"signal unknown":             {func(s *v1.JobSpec) { s.Signal = "WAKE" }, "signal", "USR1@120"},
		"signal KILL":                {func(s *v1.JobSpec) { s.Signal = "KILL@60" }, "signal", "USR1@120"},
		"signal number":              {func(s *v1.JobSpec) { s.Signal = "10@60" }, "signal", "USR1@120"},
		"signal no time":             {func(s *v1.JobSpec) { s.Signal = "USR1@" }, "signal", "seconds from 1"},
		"signal zero":                {func(s *v1.JobSpec) { s.Signal = "USR1@0" }, "signal", "seconds from 1"},
		"signal negative":            {func(s *v1.JobSpec) { s.Signal = "USR1@-5" }, "signal", "seconds from 1"},
		"signal late":                {func(s *v1.JobSpec) { s.Signal = "USR1@86401" }, "signal", "seconds from 1"},
		"requeue never and":          {func(s *v1.JobSpec) { s.Requeue = []string{"never", "node"} }, "requeue", "stands alone"},
		"requeues":                   {func(s *v1.JobSpec) { s.MaxRequeues = 6 }, "max_requeues", "between 1 and 5"},
		"requeues negative":          {func(s *v1.JobSpec) { s.MaxRequeues = -1 }, "max_requeues", "between 1 and 5"},
		"begin a word":               {func(s *v1.JobSpec) { s.Begin = "soon" }, "begin", "2026-12-01T16:40:00Z"},
		"begin far":                  {func(s *v1.JobSpec) { s.Begin = "2999-01-01T00:00:00Z" }, "begin", "2026-12-01T16:40:00Z"},
		"begin bad span":             {func(s *v1.JobSpec) { s.Begin = "+x" }, "begin", "span such as 2h"},
		"begin huge span":            {func(s *v1.JobSpec) { s.Begin = "+999999999d" }, "begin", "span such as 2h"},
		"deadline a date":            {func(s *v1.JobSpec) { s.Deadline = "2026-12-01" }, "deadline", "2026-12-01T16:40:00Z"},
		"after a number":             {func(s *v1.JobSpec) { s.After = "12" }, "after", "afterok:12"},
		"requeue unknown":            {func(s *v1.JobSpec) { s.Requeue = []string{"always"} }, "requeue", "node, preempt, timeout"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := v1.JobSpec{Image: "train:1"}
			tt.edit(&in)
			_, err := workload.Parse(in, defaults)
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != codes.Invalid || len(f.Fields) != 1 {
				t.Fatalf("got %v, want one field that is invalid", err)
			}
			if f.Fields[0].Path != tt.field || !strings.Contains(f.Fields[0].Message, tt.fix) {
				t.Errorf("%s: %q, want it about %s and to say %q", f.Fields[0].Path, f.Fields[0].Message, tt.field, tt.fix)
			}
			if len(f.Message) > 400 || strings.ContainsAny(f.Message, "\n\x1b\x00") {
				t.Errorf("the message repeats the input: %.500q", f.Message)
			}
		})
	}
}

// wide is a command of n words, each as large as allowed.
func wide(word string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.Repeat(word, 128<<10)
	}
	return out
}

func many(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("V%d", i)] = ""
	}
	return out
}

// All that is wrong is said at once, the same each time.
func TestParseSaysAll(t *testing.T) {
	in := v1.JobSpec{CPU: "0", Mem: "x", GPU: "-1", Image: "", Name: "\n", Env: map[string]string{"B A": "", "1": "", "A B": "", "A": "\x00"}}
	_, err := workload.Parse(in, defaults)
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("got %v", err)
	}
	var paths []string
	for _, x := range f.Fields {
		paths = append(paths, x.Path)
	}
	if diff := cmp.Diff([]string{"name", "image", "env", "gpu", "cpu", "mem"}, paths); diff != "" {
		t.Errorf("fields (-want +got)\n%s", diff)
	}
	for range 20 {
		if _, again := workload.Parse(in, defaults); again.Error() != err.Error() || cmp.Diff(err, again) != "" {
			t.Fatalf("now %v, before %v", again, err)
		}
	}
}

func TestParseFillsIn(t *testing.T) {
	tests := map[string]struct {
		in   v1.JobSpec
		want func(*workload.Spec)
	}{
		"nothing but an image": {v1.JobSpec{}, func(*workload.Spec) {}},
		"a script names its job": {
			v1.JobSpec{Command: []string{"/usr/bin/python3", "src/train.py", "--lr=1"}},
			func(s *workload.Spec) {
				s.Name, s.Command = "train.py", []string{"/usr/bin/python3", "src/train.py", "--lr=1"}
			},
		},
		"a shell's option doesn't": {
			v1.JobSpec{Command: []string{"sh", "-c", "date"}},
			func(s *workload.Spec) { s.Name, s.Command = "sh", []string{"sh", "-c", "date"} },
		},
		"arguments don't name their job": {
			v1.JobSpec{Args: []string{"", "serve"}}, func(s *workload.Spec) { s.Args = []string{"", "serve"} },
		},
		"streams":               {v1.JobSpec{Stdin: true, TTY: true, AwaitAttach: true}, func(s *workload.Spec) { s.Streams = workload.Streams{Stdin: true, TTY: true, AwaitAttach: true} }},
		"a part of a device":    {v1.JobSpec{GPU: "0.5"}, func(s *workload.Spec) { s.GPU = 500 }},
		"the least part":        {v1.JobSpec{GPU: "0.001", Model: "a100"}, func(s *workload.Spec) { s.GPU, s.Model = 1, "a100" }},
		"a model is one device": {v1.JobSpec{Model: "a100"}, func(s *workload.Spec) { s.GPU, s.Model = 1000, "a100" }},
		"a signal is a minute ahead": {
			v1.JobSpec{Signal: "sigusr1"}, func(s *workload.Spec) { s.Signal = workload.Signal{Name: "USR1", Before: 60e9} },
		},
		"a mount goes where it comes from": {
			v1.JobSpec{Mounts: []v1.Mount{{Source: "/data//set/", ReadOnly: true}}},
			func(s *workload.Spec) {
				s.Mounts = []workload.Mount{{Source: "/data/set", Target: "/data/set", ReadOnly: true}}
			},
		},
		"requeue causes once, in order": {
			v1.JobSpec{Requeue: []string{"timeout", "node", "timeout"}}, func(s *workload.Spec) { s.Requeue = []string{"node", "timeout"} },
		},
		"times": {
			v1.JobSpec{Begin: "+2h", Deadline: "2026-12-01T16:40:00.5+01:00", After: "afterok:3", Hold: true, MaxRequeues: 2}, func(s *workload.Spec) {
				s.Begin, s.Deadline, s.Hold, s.Requeues = 1_790_007_200e9, 1796139600e9, true, 2
				s.After = workload.Dependencies{Of: []workload.Dependency{{Event: workload.AfterOK, Job: 3}}}
			},
		},
		"whole seconds": {v1.JobSpec{Time: "1s999ms", Grace: "500ms"}, func(s *workload.Spec) { s.Time, s.Grace = 1e9, 0 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.in.Image = "hub.example/train:1@sha256"
			want := workload.Spec{Name: "train:1", Kind: workload.KindContainer, Image: tt.in.Image, CPU: 1000, Mem: 1 << 30, Time: 3600e9, Pull: "missing"}
			tt.want(&want)
			got, err := workload.Parse(tt.in, defaults)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// Whatever comes in: no panic, an error is a *fault.Error that names fields, and
// what is accepted reads back the same from its wire form.
func FuzzParse(f *testing.F) {
	for _, s := range []v1.JobSpec{
		{Image: "train:1"},
		{Name: "x", Image: "a/b:1", CPU: "8", Mem: "64G", GPU: "1", Model: "a100", Time: "1-12:00:00", Grace: "30s", Signal: "USR1@120", Requeue: []string{"node"}},
		{Image: "a", Command: []string{"@"}, Env: map[string]string{"A": "b"}, Mounts: []v1.Mount{{Type: "bind", Source: "/x/./y", Target: "/z/"}, {Type: "tmpfs", Target: "/t/", Size: "64m"}, {Type: "tmpfs", Target: "/u"}, {Type: "volume", Source: "cache.1", Target: "/v", ReadOnly: true}}, Pull: "never", CPU: "500m", Mem: "1.001Gi"},
		{Image: "a", Command: []string{"\n/\u202e"}, Priority: -5, Time: "90", Workdir: "/w"},
		{Image: "a", Begin: "+2h", Deadline: "2026-12-01T16:40:00Z", After: "after:1?afternotok:2+30", Hold: true, MaxRequeues: 1, Requeue: []string{"never"}},
		{Image: "a", Command: []string{strings.Repeat("é", 50)}},
		{Image: "a", Args: []string{"", "-x", "\n"}},
		{Image: "a", Command: []string{}, Args: []string{}},
		{Image: "a", Stdin: true, TTY: true, AwaitAttach: true},
		{Kind: "workspace", Image: "a", Pause: true, Apps: []v1.App{{Port: 8888, Path: "/lab?x=1#y", Health: "/%2e./"}, {Name: "b", Port: 1, Strip: new(bool)}}},
	} {
		b, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in v1.JobSpec
		if json.Unmarshal(b, &in) != nil {
			return
		}
		spec, err := workload.Parse(in, defaults)
		if err != nil {
			var e *fault.Error
			if !errors.As(err, &e) || len(e.Fields) == 0 {
				t.Fatalf("%T %v names no field", err, err)
			}
			return
		}
		again, err := workload.Parse(spec.Wire(), defaults)
		if err != nil {
			t.Fatalf("%+v doesn't read back: %v", spec.Wire(), err)
		}
		if diff := cmp.Diff(spec, again); diff != "" {
			t.Fatalf("reads back otherwise (-was +is)\n%s", diff)
		}
		if strings.ContainsAny(spec.Name+spec.Image, "\n\r\x1b") || spec.CPU < workload.MinCPU || spec.Mem < workload.MinMemory || spec.GPU < 0 || spec.GPU > 1000 && spec.GPU%1000 != 0 || spec.Time <= 0 || spec.Time%1e9 != 0 {
			t.Fatalf("accepted %+v", spec)
		}
	})
}

// Memory of a device without a number of them is the least part of one, which has as much
// as it takes; it is shown as it was asked for.
func TestParseDeviceMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		in       v1.JobSpec
		gpu, mem int64
		shown    v1.JobSpec // gpu and gpu_mem
	}{
		"a part":          {v1.JobSpec{GPU: "0.5"}, 500, 0, v1.JobSpec{GPU: "0.5"}},
		"memory":          {v1.JobSpec{GPUMem: "10GiB"}, 1, 10 << 30, v1.JobSpec{GPUMem: "10G"}},
		"of a model":      {v1.JobSpec{GPUMem: "1.5G", Model: "a100"}, 1, 3 << 29, v1.JobSpec{GPUMem: "1.5G"}},
		"a part and more": {v1.JobSpec{GPU: "0.5", GPUMem: "10G"}, 500, 10 << 30, v1.JobSpec{GPU: "0.5", GPUMem: "10G"}},
		"none":            {v1.JobSpec{GPU: "2", GPUMem: "0"}, 2000, 0, v1.JobSpec{GPU: "2"}},
		"of each":         {v1.JobSpec{GPU: "2", GPUMem: "40G"}, 2000, 40 << 30, v1.JobSpec{GPU: "2", GPUMem: "40G"}},
		"the least":       {v1.JobSpec{GPU: "0.001"}, 1, 0, v1.JobSpec{GPU: "0.001"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.Image = "train:1"
			s, err := workload.Parse(tt.in, defaults)
			if err != nil || s.GPU != tt.gpu || s.GPUMem != tt.mem {
				t.Fatalf("%d milli-devices with %d, %v; want %d with %d", s.GPU, s.GPUMem, err, tt.gpu, tt.mem)
			}
			for _, w := range []v1.JobSpec{s.Wire(), s.Amounts()} {
				if w.GPU != tt.shown.GPU || w.GPUMem != tt.shown.GPUMem {
					t.Errorf("shown as gpu %q, gpu_mem %q", w.GPU, w.GPUMem)
				}
			}
			again, err := workload.Parse(s.Wire(), defaults)
			if diff := cmp.Diff(s, again); diff != "" || err != nil {
				t.Errorf("what is shown isn't read as the same (-want +got), %v\n%s", err, diff)
			}
		})
	}
}
