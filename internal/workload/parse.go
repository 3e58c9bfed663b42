package workload

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/feature"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/quantity"
)

// Defaults fill what a request leaves out.
type Defaults struct {
	CPU, Mem, Time int64
	MaxGrace       int64
	Now            int64 // ns; from which times such as +2h count
}

// MaxTime is the longest time limit that a job may have, in ns.
const MaxTime = int64(10*365*24*3600) * 1e9

// Bounds of what a request may hold.
const (
	maxArgs    = 4096
	maxArg     = 128 << 10
	maxEnv     = 1024
	maxMounts  = 64
	maxText    = 1 << 20 // of the whole spec
	maxGPU     = quantity.Device << 20
	maxGPUMem  = 1 << 50 // bytes
	maxMem     = 1 << 60 // bytes
	maxModels  = 32
	maxCPU     = 1 << 30 // milli-cores
	maxSignal  = int64(24*3600) * 1e9
	maxPrio    = 1_000_000
	defaultSig = int64(60) * 1e9
)

// wantGPU says what gpu may be.
const wantGPU = "a whole number of devices, e.g. 2, or a part of one with at most three places, e.g. 0.5"

// The least that a container needs to start at all.
const (
	MinCPU    = 10      // milli-cores
	MinMemory = 4 << 20 // bytes
)

var (
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,255}$`)
	imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,511}$`)
	label     = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)
)

// signals that may be asked for, by name without SIG.
var signals = []string{"HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "CONT", "WINCH", "ALRM"}

// KnownSignal reports whether a job can be told something by a signal, named
// without SIG.
func KnownSignal(name string) bool { return slices.Contains(signals, name) }

var requeueCauses = []string{"node", "preempt", "timeout", "never"}

// Parse checks a request and fills in defaults. Every wrong field is named, with
// the fix; the error is a *fault.Error.
func Parse(in v1.JobSpec, def Defaults) (Spec, error) {
	p := parser{}
	s := Spec{
		Name: in.Name, Kind: Kind(in.Kind), Account: in.Account, Partition: in.Partition, QoS: in.QoS,
		Image: in.Image, Command: in.Command, Args: in.Args, Env: in.Env, Workdir: in.Workdir, Priority: in.Priority, Pull: in.Pull,
		Reservation: in.Reservation, Data: in.Data, Pause: in.Pause, Streams: Streams{in.Stdin, in.TTY, in.AwaitAttach},
	}
	p.text(&s, in)
	p.amounts(&s, in, def)
	p.gang(&s, in)
	p.mounts(&s, in.Mounts)
	s.Pod = p.pod(in.Pod)
	p.apps(&s, in.Apps)
	s.Signal = p.signal(in.Signal)
	s.Requeue, s.Requeues = p.requeue(in.Requeue), p.requeues(in.MaxRequeues)
	p.times(&s, in, def.Now)
	p.deposit(&s, in.Deposit)
	p.mail(&s, in)
	if s.Kind == KindWorkspace {
		p.workspace(&s, in)
	}
	if s.Name == "" {
		s.Name = nameOf(s)
	}
	return s, p.bad.Err()
}

type parser struct{ bad fault.Fields }

func (p *parser) text(s *Spec, in v1.JobSpec) {
	if s.Kind == "" {
		s.Kind = KindContainer
	}
	if !slices.Contains([]Kind{KindContainer, KindBatch, KindWorkspace}, s.Kind) {
		p.bad.Add("kind", "%q isn't supported: use container, batch or workspace", clip(in.Kind))
	}
	for _, f := range []struct{ path, v string }{{"account", s.Account}, {"partition", s.Partition}, {"qos", s.QoS}, {"reservation", s.Reservation}} {
		if f.v != "" && !named(f.v) {
			p.bad.Add(f.path, "%q isn't a name: use letters, digits and _ . -", clip(f.v))
		}
	}
	if s.Priority > maxPrio || s.Priority < -maxPrio {
		p.bad.Add("priority", "must be between -%d and %d", maxPrio, maxPrio)
	}
	if !slices.Contains([]string{"", DataOn, DataOff}, s.Data) {
		p.bad.Add("data", "%q must be on or off", clip(s.Data))
	}
	p.container(s, !s.Host())
	if s.Host() {
		p.host(s, in.Mounts)
	}
	if s.Pause && (s.Host() || len(s.Command)+len(s.Args) > 0 || s.Stdin || s.TTY) {
		p.bad.Add("pause", "is instead of a program: leave out command, args, stdin and tty, or pause; a batch job has a program")
	}
}

// container checks what a container runs: a job's primary, or a further step, which needs
// no image of its own.
func (p *parser) container(s *Spec, image bool) {
	if s.Pull == "" {
		s.Pull = "missing"
	}
	if !slices.Contains([]string{"missing", "always", "never"}, s.Pull) {
		p.bad.Add("pull", "must be missing, always or never")
	}
	if !utf8.ValidString(s.Name) || len(s.Name) > 200 || strings.ContainsFunc(s.Name, unprintable) {
		p.bad.Add("name", "must be at most 200 bytes of printable text on one line")
	}
	switch {
	case s.Image == "" && image:
		p.bad.Add("image", "is missing: name the image to run, e.g. train:1")
	case s.Image != "" && !IsImage(s.Image):
		p.bad.Add("image", "%q isn't an image reference", clip(s.Image))
	}
	if s.Workdir != "" && !absolute(s.Workdir) {
		p.bad.Add("workdir", "must be an absolute path where the program runs")
	}
	if s.AwaitAttach && !s.Stdin && !s.TTY {
		p.bad.Add("await_attach", "needs stdin or tty: there is nothing to give by attaching")
	}
	p.program(s)
}

// host checks a program on the machine itself, which has what the machine has.
func (p *parser) host(s *Spec, mounts []v1.Mount) {
	if len(s.Command) == 0 {
		p.bad.Add("command", "is missing: a program on the machine has no image that would name one")
	}
	if len(mounts) > 0 {
		p.bad.Add("mounts", "are for containers: a program on the machine sees the machine's own files")
	}
	if s.Stdin || s.TTY {
		p.bad.Add("stdin", "a program on the machine has neither an input nor a terminal")
	}
}

func named(s string) bool { return label.MatchString(s) && s != "." && s != ".." }

func (p *parser) program(s *Spec) {
	total := 0
	if len(s.Command) > 0 && s.Command[0] == "" {
		p.bad.Add("command", "its first word, the program, is empty")
	}
	for _, f := range []struct {
		path  string
		words []string
	}{{"command", s.Command}, {"args", s.Args}} {
		total += p.words(f.path, f.words)
	}
	// An empty list is none, as the wire form has it.
	s.Command, s.Args = append([]string(nil), s.Command...), append([]string(nil), s.Args...)
	if len(s.Env) > maxEnv {
		p.bad.Add("env", "has more than %d variables", maxEnv)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		v := s.Env[k]
		total += len(k) + len(v)
		if !envName.MatchString(k) {
			p.bad.Add("env", "%q isn't a variable name", clip(k))
			break
		}
		if len(v) > maxArg || strings.ContainsRune(v, 0) || !utf8.ValidString(v) {
			p.bad.Add("env."+k, "is longer than %d bytes or not text", maxArg)
			break
		}
	}
	if total > maxText {
		p.bad.Add("command", "command, args and environment are larger than %d bytes together", maxText)
	}
}

// words checks a list of words and returns how many bytes they have.
func (p *parser) words(path string, words []string) (total int) {
	if len(words) > maxArgs {
		p.bad.Add(path, "has more than %d words", maxArgs)
	}
	for i, a := range words {
		total += len(a)
		if len(a) > maxArg || strings.ContainsRune(a, 0) || !utf8.ValidString(a) {
			p.bad.Add(path, "word %d is longer than %d bytes or not text", i+1, maxArg)
			break
		}
	}
	return total
}

func (p *parser) amounts(s *Spec, in v1.JobSpec, def Defaults) {
	s.GPU = p.amount("gpu", in.GPU, quantity.ParseDevices, 0, 0, maxGPU, wantGPU)
	if s.GPU > quantity.Device && s.GPU%quantity.Device != 0 {
		p.bad.Add("gpu", "%q isn't whole, and a part is of one device: give %s", clip(string(in.GPU)), wantGPU)
	}
	s.CPU = p.amount("cpu", in.CPU, quantity.ParseCPU, def.CPU, MinCPU, maxCPU, "cores, e.g. 8 or 0.5")
	s.Mem = p.amount("mem", in.Mem, quantity.ParseBytes, def.Mem, MinMemory, maxMem, "an amount such as 64G, at least 4M")
	s.Time = p.amount("time", in.Time, quantity.ParseDuration, def.Time, 1e9, MaxTime, "a span such as 2h or 90m, at least 1s")
	s.Grace = p.grace(in.Grace, def)
	s.Time, s.Grace = wholeSeconds(s.Time), wholeSeconds(s.Grace)
	s.Model = p.models(in.Model)
	s.Where = p.where(in.Constraint)
	s.GPUMem = p.amount("gpu_mem", in.GPUMem, quantity.ParseBytes, 0, 0, maxGPUMem, "memory of each device, e.g. 10G")
	switch {
	case in.GPU == "" && s.GPUMem > 0:
		s.GPU = LeastPart
	case in.GPU == "" && s.Model != "":
		s.GPU = quantity.Device
	}
	if s.Model != "" && s.GPU == 0 {
		p.bad.Add("gpu", "is 0 but a model is named: ask for 1 or a part of one, or leave model out")
	}
	if s.GPUMem > 0 && s.GPU == 0 {
		p.bad.Add("gpu", "is 0 but memory of a device is asked for: ask for 1 or a part of one, or leave gpu_mem out")
	}
}

// deposit reads what is set aside for the job; the default isn't written down.
func (p *parser) deposit(s *Spec, in string) {
	switch in {
	case "", DepositFull:
	case DepositRolling:
		s.Deposit = in
	default:
		p.bad.Add("deposit", "%q must be full, for all of its time, or rolling, for a window at a time", clip(in))
	}
}

// mail reads what mail is sent about the job, and where to.
func (p *parser) mail(s *Spec, in v1.JobSpec) {
	var err error
	if s.Mail, err = notice.ParseWants(in.MailType, notice.JobWords()); err != nil {
		p.bad.Add("mail_type", "%v", err)
	}
	if s.MailTo = in.MailUser; len(in.MailUser) > 320 || strings.ContainsFunc(in.MailUser, unprintable) {
		p.bad.Add("mail_user", "must be an address such as ada@example.org")
	}
}

// gang reads on how many machines the job is.
func (p *parser) gang(s *Spec, in v1.JobSpec) {
	if in.Nodes < 0 || in.Nodes > MaxNodes {
		p.bad.Add("nodes", "%d must be between 1 and %d", in.Nodes, MaxNodes)
		return
	}
	if !slices.Contains([]string{"", SuccessAll, SuccessPrimary, SuccessAny}, in.Success) {
		p.bad.Add("success", "%q must be all, primary or any", clip(in.Success))
	}
	if in.Nodes <= 1 {
		if in.Success != "" {
			p.bad.Add("success", "is for a job on several machines: give nodes, too, or leave it out")
		}
		return
	}
	s.Nodes, s.Success = int64(in.Nodes), in.Success
	switch {
	case s.Part() > 0:
		p.bad.Add("gpu", "a job on several machines has whole devices on each: give a whole number")
	case s.Mem > maxMem/s.Nodes:
		p.bad.Add("mem", "is absurdly large on %d machines", s.Nodes)
	}
	if s.Kind == KindWorkspace {
		p.bad.Add("nodes", "a workspace is on one machine")
	}
	if s.Stdin || s.TTY {
		p.bad.Add("stdin", "a job on several machines has neither an input nor a terminal")
	}
	if len(in.Apps) > 0 || in.Pod != nil && len(in.Pod.Ports) > 0 {
		p.bad.Add("nodes", "a job on several machines has no web programs and no ports of a machine")
	}
}

func (p *parser) grace(in v1.Quantity, def Defaults) int64 {
	n := p.amount("grace", in, quantity.ParseDuration, 0, 0, MaxTime, "a span such as 30s")
	if def.MaxGrace > 0 && n > def.MaxGrace {
		p.bad.Add("grace", "at most %s is allowed here", quantity.FormatDuration(def.MaxGrace))
	}
	return n
}

// models reads "a100|h100" into a set.
func (p *parser) models(in string) string {
	if in == "" {
		return ""
	}
	names := strings.Split(in, "|")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if !named(names[i]) {
			p.bad.Add("model", "%q isn't a name: use letters, digits and _ . -, and | between several", clip(names[i]))
			return ""
		}
	}
	if len(names) > maxModels {
		p.bad.Add("model", "names more than %d models", maxModels)
	}
	return catalog.ModelSet(names)
}

func (p *parser) where(in string) string {
	c, err := feature.Parse(in)
	if err != nil {
		p.bad.Add("constraint", "%v; write labels with & | ! and parentheses, e.g. nvlink&!old", err)
	}
	return c.String()
}

// wholeSeconds is what the text form can show.
func wholeSeconds(ns int64) int64 { return ns - ns%1e9 }

func (p *parser) amount(field string, q v1.Quantity, parse func(string) (int64, error), def, least, most int64, want string) int64 {
	if q == "" {
		return def
	}
	n, err := parse(string(q))
	switch {
	case err != nil:
		p.bad.Add(field, "%v: give %s", err, want)
	case n < least:
		p.bad.Add(field, "%q is too small: give %s", clip(string(q)), want)
	case n > most:
		p.bad.Add(field, "%q is absurdly large: give %s", clip(string(q)), want)
	}
	return n
}

// signal reads "USR1@120" or "USR1".
func (p *parser) signal(in string) Signal {
	if in == "" {
		return Signal{}
	}
	name, at, timed := strings.Cut(strings.TrimPrefix(strings.ToUpper(in), "SIG"), "@")
	if !KnownSignal(name) {
		p.bad.Add("signal", "%q isn't one of %s: write e.g. USR1@120", clip(in), strings.Join(signals, " "))
		return Signal{}
	}
	before := defaultSig
	if timed {
		n, err := quantity.ParseCount(at)
		if err != nil || n < 1 || n > maxSignal/1e9 {
			p.bad.Add("signal", "%q: after @ give seconds from 1 to %d", clip(in), maxSignal/1e9)
			return Signal{}
		}
		before = n * 1e9
	}
	return Signal{name, before}
}

func (p *parser) requeue(in []string) []string {
	var out []string
	for _, c := range in {
		if !slices.Contains(requeueCauses, c) {
			p.bad.Add("requeue", "%q isn't one of %s", clip(c), strings.Join(requeueCauses, ", "))
		} else if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if len(out) > 1 && slices.Contains(out, "never") {
		p.bad.Add("requeue", "never stands alone")
	}
	slices.Sort(out)
	return out
}

func (p *parser) requeues(n int) int32 {
	if n < 0 || n > MaxRequeues {
		p.bad.Add("max_requeues", "must be between 1 and %d; for none give requeue: [never]", MaxRequeues)
		return 0
	}
	return int32(n)
}

// times reads when the job may run: its hold, begin time, deadline and dependencies.
func (p *parser) times(s *Spec, in v1.JobSpec, now int64) {
	s.Hold = in.Hold
	s.Begin = p.instant("begin", in.Begin, now)
	s.Deadline = p.instant("deadline", in.Deadline, now)
	var err error
	if s.After, err = ParseDependencies(in.After); err != nil {
		p.bad.Add("after", "%v", err)
	}
	if s.Array, err = ParseArray(in.Array); err != nil {
		p.bad.Add("array", "%v", err)
	}
	switch _, corresponds := s.After.Corresponds(); {
	case corresponds && len(s.Array.Elements) == 0:
		p.bad.Add("after", "aftercorr goes from the elements of one array to those of another: give array too, or write afterok")
	case corresponds && s.Array.Elements.Len() > maxCorresponding:
		p.bad.Add("array", "has %d elements: an array that waits for another element by element may have %d", s.Array.Elements.Len(), maxCorresponding)
	}
}

// instant reads a time, or a span from now as +2h.
func (p *parser) instant(field, in string, now int64) int64 {
	if in == "" {
		return 0
	}
	if span, ok := strings.CutPrefix(in, "+"); ok {
		n, err := quantity.ParseDuration(span)
		if err != nil || n > MaxTime {
			p.bad.Add(field, "%q: after + give a span such as 2h", clip(in))
			return 0
		}
		return wholeSeconds(now + n)
	}
	t, err := time.Parse(time.RFC3339, in)
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		p.bad.Add(field, "%q must be a time such as 2026-12-01T16:40:00Z, or +2h", clip(in))
		return 0
	}
	return wholeSeconds(t.UnixNano())
}

func instantText(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339)
}

func absolute(p string) bool {
	return strings.HasPrefix(p, "/") && len(p) < 4096 && utf8.ValidString(p) &&
		!strings.ContainsFunc(p, unicode.IsControl) && !slices.Contains(strings.Split(p, "/"), "..")
}

// IsImage reports whether ref can be an image's name.
func IsImage(ref string) bool { return imageName.MatchString(ref) && !strings.Contains(ref, "..") }

// nameOf is the command's base name, or the image's.
func nameOf(s Spec) string {
	name := s.Image
	if len(s.Command) > 0 {
		name = s.Command[0]
		if len(s.Command) > 1 && slices.Contains([]string{"python", "python3", "bash", "sh"}, path.Base(name)) && !strings.HasPrefix(s.Command[1], "-") {
			name = s.Command[1]
		}
	}
	name, _, _ = strings.Cut(path.Base(name), "@")
	name = strings.Map(func(r rune) rune {
		if unprintable(r) {
			return -1
		}
		return r
	}, name)
	return clip(name)
}

// unprintable reports whether r would break or turn round the line that it is
// printed on.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

func clip(s string) string {
	if len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(s[:40], "") + "…"
}

// Amounts is what a list shows of the spec.
func (s Spec) Amounts() v1.JobSpec {
	w := v1.JobSpec{CPU: v1.Quantity(quantity.FormatCPU(s.CPU)), Mem: v1.Quantity(quantity.FormatBytes(s.Mem))}
	w.GPU, w.GPUMem = s.devices()
	return w
}

// devices is the devices and the memory of each, as they are asked for.
func (s Spec) devices() (gpu, mem v1.Quantity) {
	if s.GPUMem > 0 {
		mem = v1.Quantity(quantity.FormatBytes(s.GPUMem))
	}
	if s.GPU > 0 && (s.GPUMem == 0 || s.GPU != LeastPart) {
		gpu = v1.Quantity(quantity.FormatDevices(s.GPU))
	}
	return gpu, mem
}

// Wire is the spec as the API shows it, every default filled in.
func (s Spec) Wire() v1.JobSpec {
	w := v1.JobSpec{
		Name: s.Name, Kind: string(s.Kind), Account: s.Account, Partition: s.Partition, QoS: s.QoS, Image: s.Image,
		Command: s.Command, Args: s.Args, Pause: s.Pause, Stdin: s.Stdin, TTY: s.TTY, AwaitAttach: s.AwaitAttach, Env: s.Env, Workdir: s.Workdir, Model: s.Model, Constraint: s.Where, Reservation: s.Reservation, Requeue: s.Requeue, Priority: s.Priority, Pull: s.Pull,
		Hold: s.Hold, Begin: instantText(s.Begin), Deadline: instantText(s.Deadline), After: s.After.String(), Array: s.Array.String(), MaxRequeues: int(s.Requeues),
		CPU: v1.Quantity(quantity.FormatCPU(s.CPU)), Mem: v1.Quantity(quantity.FormatBytes(s.Mem)), Time: v1.Quantity(quantity.FormatDuration(s.Time)),
	}
	w.Pod, w.Nodes, w.Success = s.Pod.Wire(), int(s.Nodes), s.Success
	w.GPU, w.GPUMem = s.devices()
	if s.Grace > 0 {
		w.Grace = v1.Quantity(quantity.FormatDuration(s.Grace))
	}
	if s.Signal.Name != "" {
		w.Signal = s.Signal.Name + "@" + quantity.FormatDecimal(s.Signal.Before/1e9, 0, 0)
	}
	w.Mounts, w.Apps, w.Data = wireMounts(s.Mounts), wireApps(s.Apps), s.Data
	w.Deposit, w.MailType, w.MailUser = s.Deposit, string(s.Mail), s.MailTo
	return w
}
