package v1

import "time"

// JobSpec is what a user asks for. Job files have the same fields.
type JobSpec struct {
	Name        string            `json:"name,omitempty" maxLength:"200" doc:"label; by default the command's name"`
	Kind        string            `json:"kind,omitempty" doc:"container (default), batch: a program on the machine itself, with the rights that you have there; or workspace: a container that is stopped and started by its name until it is deleted"`
	Account     string            `json:"account,omitempty" doc:"who pays; by default your only account"`
	Partition   string            `json:"partition,omitempty"`
	QoS         string            `json:"qos,omitempty"`
	Image       string            `json:"image,omitempty" doc:"image reference; of a batch job what its steps run in that are containers and name none"`
	Command     []string          `json:"command,omitempty" doc:"in place of the image's entry point and command; by default those"`
	Args        []string          `json:"args,omitempty" doc:"in place of the image's command alone: arguments of its entry point, or of command"`
	Pause       bool              `json:"pause,omitempty" doc:"its container runs no program of its own, but waits to be stopped: for terminals and further steps"`
	Stdin       bool              `json:"stdin,omitempty" doc:"its program has an input, which who attaches gives; without a terminal the first who does, to its end"`
	TTY         bool              `json:"tty,omitempty" doc:"its program has a terminal"`
	AwaitAttach bool              `json:"await_attach,omitempty" doc:"its program begins once somebody is attached with its input or a terminal's size, 15s after the start in any case"`
	Env         map[string]string `json:"env,omitempty"`
	Workdir     string            `json:"workdir,omitempty"`
	Mounts      []Mount           `json:"mounts,omitempty"`
	Data        string            `json:"data,omitempty" enum:"on,off" doc:"whether it has the folders of its account; by default a workspace has them"`
	Pod         *Pod              `json:"pod,omitempty" doc:"what its containers share"`
	Apps        []App             `json:"apps,omitempty" maxItems:"8" doc:"web programs in it, each of which has an address"`
	GPU         Quantity          `json:"gpu,omitempty" doc:"number of devices"`
	GPUMem      Quantity          `json:"gpu_mem,omitempty" doc:"memory of each device that is the job's, e.g. 10G; without gpu a part of one device that has as much"`
	Model       string            `json:"model,omitempty" doc:"accelerator model, or several that will do as a100|h100; by default any"`
	Constraint  string            `json:"constraint,omitempty" doc:"labels that the node must have, joined by & | ! and parentheses, e.g. nvlink&!old"`
	Reservation string            `json:"reservation,omitempty" doc:"run in its windows, on what it has"`
	CPU         Quantity          `json:"cpu,omitempty" doc:"cores, e.g. 8 or 0.5"`
	Mem         Quantity          `json:"mem,omitempty" doc:"e.g. 64G (powers of 1024)"`
	Nodes       int               `json:"nodes,omitempty" minimum:"0" maximum:"512" doc:"machines that it is on at once, with all of its amounts on each, where the same program runs as one rank each; by default one"`
	Success     string            `json:"success,omitempty" enum:"all,primary,any" doc:"of several machines: whether it ends once all ranks have ended well or one has failed (all, the default), with rank 0 (primary), or with the first that ends well (any)"`
	Time        Quantity          `json:"time,omitempty" doc:"longest run, e.g. 2h"`
	Grace       Quantity          `json:"grace,omitempty" doc:"between SIGTERM and SIGKILL"`
	Signal      string            `json:"signal,omitempty" doc:"SIG@SECONDS: sent that long before the time limit, e.g. USR1@120"`
	Requeue     []string          `json:"requeue,omitempty" doc:"requeue after: node, preempt, timeout; or never"`
	MaxRequeues int               `json:"max_requeues,omitempty" doc:"how often at most, 1 to 5 (default)"`
	Priority    int64             `json:"priority,omitempty" doc:"among your own account's jobs; at most 0 for users"`
	Pull        string            `json:"pull,omitempty" doc:"missing (default), always, never"`
	Hold        bool              `json:"hold,omitempty" doc:"don't start before it is released"`
	Begin       string            `json:"begin,omitempty" doc:"don't start before then: RFC 3339, or +2h from the submission"`
	Deadline    string            `json:"deadline,omitempty" doc:"end by then, or not start at all: RFC 3339, or +2h from the submission"`
	After       string            `json:"after,omitempty" doc:"start after other jobs: afterok:12:13_7,afterany:14+30m, aftercorr:12 element by element, singleton after those of the same name; ? instead of the comma: any of them will do"`
	Deposit     string            `json:"deposit,omitempty" enum:"full,rolling" doc:"what is set aside for it: the price of all of its time (full, the default), or of a window that is renewed while it runs (rolling)"`
	MailType    string            `json:"mail_type,omitempty" doc:"what mail is sent of, with commas between: begin, end, fail, requeue, time_limit, stop (before it is stopped by others), array_tasks (of an array's elements); all, or none; by default as its user has it"`
	MailUser    string            `json:"mail_user,omitempty" doc:"address that it is sent to: by default its user's own, and another's only where the site allows its domain"`
	Array       string            `json:"array,omitempty" doc:"indices of an array's elements, with how many may run at once: 0-99:2,105%10"`
}

// The kinds of jobs.
const (
	KindContainer = "container"
	KindBatch     = "batch"
	KindWorkspace = "workspace"
)

// JobClient is where a job finds croft itself in its container. A program on the machine is
// given the machine's own in its place.
const JobClient = "/opt/croft/croft"

// App is a web program in a job. It listens on a port of the job's own network, where its
// loopback will do; Croft leads to it whoever may.
type App struct {
	Name   string `json:"name,omitempty" doc:"small letters, digits and dashes; by default web"`
	Port   int    `json:"port" minimum:"1" maximum:"65535" doc:"TCP port that it listens on in the job"`
	Path   string `json:"path,omitempty" doc:"where a browser is sent first, such as /lab; by default /"`
	Health string `json:"health,omitempty" doc:"path that answers with a status below 500 once it is ready; by default that it takes connections will do"`
	Strip  *bool  `json:"strip,omitempty" doc:"where its address is a path of the site's, such as /w/118/: that part isn't passed on to it (default true); false for a program that is told CROFT_BASE_URL"`
	// ViewSafe lets those who only look have WebSockets.
	ViewSafe bool `json:"view_safe,omitempty" doc:"whoever it is shared with to look gets WebSockets, too, and not only pages (GET and HEAD): it keeps them from changing anything by itself, by the header Croft-Access, which says view"`
	// Activity is how it says whether it works.
	Activity string `json:"activity,omitempty" doc:"how it says whether it is at work, so that it isn't taken for idle: jupyter, by its kernels and terminals; or a path that answers {\"busy\": true, \"last_activity\": RFC 3339}"`
}

// Mount is a bind mount of a host path.
type Mount struct {
	Type     string   `json:"type,omitempty" doc:"bind: a folder or file of the machine (default); volume: a folder of yours that jobs keep; tmpfs: an empty folder in the job's memory"`
	Source   string   `json:"source,omitempty" doc:"what is mounted: a path, or a volume's name; a tmpfs has none"`
	Target   string   `json:"target,omitempty" doc:"where; by default the same path"`
	ReadOnly bool     `json:"read_only,omitempty"`
	Size     Quantity `json:"size,omitempty" doc:"of a tmpfs, at most; by default half of the job's memory"`
}

// Quote is what a job would cost and when it would start.
type Quote struct {
	Admitted bool       `json:"admitted"`
	Price    Price      `json:"price"`
	Window   Window     `json:"window"`
	Deposit  string     `json:"deposit,omitempty" doc:"with a rolling deposit: credits set aside at first, of the price"`
	Hour     string     `json:"hour,omitempty" doc:"with a rolling deposit: credits that an hour costs"`
	Account  string     `json:"account"`
	Billing  string     `json:"billing" doc:"off, showback or enforce"`
	Balance  string     `json:"balance,omitempty" doc:"credits usable now, with what is left of an overdraft"`
	After    string     `json:"after,omitempty" doc:"credits usable after the deposit"`
	Caps     []LimitUse `json:"caps,omitempty" doc:"on what the user may spend in the account, before the deposit"`
	Spec     JobSpec    `json:"spec" doc:"with every default filled in"`
	Reasons  []Reason   `json:"reasons,omitempty"`
	Remedy   *Remedy    `json:"remedy,omitempty"`
	Priority []Factor   `json:"priority,omitempty" doc:"what its priority would be made of"`
}

// Price is a sum with its lines.
type Price struct {
	Total string      `json:"total" doc:"credits"`
	Lines []PriceLine `json:"lines"`
}

// PriceLine is one resource's part of a price.
type PriceLine struct {
	Resource string `json:"resource" doc:"gpu, cpu or mem"`
	Model    string `json:"model,omitempty"`
	Amount   string `json:"amount"`
	Rate     string `json:"rate" doc:"credits per hour and unit"`
	Credits  string `json:"credits"`
}

// Window says when a job starts.
type Window struct {
	Kind     string     `json:"kind" doc:"now, promised, estimated or unknown"`
	Start    *time.Time `json:"start,omitempty"`
	Position int64      `json:"position,omitempty" doc:"place in the queue, from 1"`
	Queue    int64      `json:"queue,omitempty" doc:"jobs waiting in the partition"`
	Stops    int64      `json:"stops,omitempty" doc:"running jobs that would be stopped for it"`
}

// Job is a job as a viewer may see it.
type Job struct {
	ID        string     `json:"id" doc:"a number; R-n for a refused request"`
	Name      string     `json:"name"`
	User      string     `json:"user"`
	Token     *ByToken   `json:"token,omitempty" doc:"the personal token by which it was submitted"`
	Account   string     `json:"account"`
	State     string     `json:"state" doc:"refused, held, queued, starting, running, suspended, stopped, stopping, ended"`
	Outcome   string     `json:"outcome,omitempty"`
	ExitCode  *int       `json:"exit_code,omitempty"`
	Message   string     `json:"message,omitempty" doc:"in words, what happened last"`
	Contact   string     `json:"contact,omitempty" doc:"ok, or lost since when"`
	Spec      JobSpec    `json:"spec"`
	Submitted time.Time  `json:"submitted"`
	Eligible  *time.Time `json:"eligible,omitempty" doc:"when it came to compete for a place, or will; none while that isn't known"`
	Started   *time.Time `json:"started,omitempty"`
	Ended     *time.Time `json:"ended,omitempty"`
	Stopped   *time.Time `json:"stopped,omitempty" doc:"of a workspace: since when it is"`
	Ready     *time.Time `json:"ready,omitempty" doc:"of one that runs: when all its apps were first seen to answer"`
	Limit     *time.Time `json:"limit,omitempty" doc:"when its time is up"`
	Image     string     `json:"image,omitempty" doc:"content digest that it runs"`
	Steps     int        `json:"steps,omitempty" doc:"how many further programs it was given"`
	Node      string     `json:"node,omitempty"`
	Nodes     []string   `json:"nodes,omitempty" doc:"of a job on several machines: all of them, by rank"`
	Devices   []string   `json:"devices,omitempty"`
	Given     []string   `json:"given,omitempty" doc:"the devices by their node's own names, where it is the node that chooses"`
	Part      Quantity   `json:"part,omitempty" doc:"how much it has of its one device, such as 0.5; none if its devices are whole"`
	Attempt   int        `json:"attempt,omitempty"`
	Progress  string     `json:"progress,omitempty" doc:"e.g. pulling 40%"`
	Usage     *UseSample `json:"usage,omitempty" doc:"of one that runs, what it uses; not in brief lists"`
	Idle      *Idle      `json:"idle,omitempty" doc:"of one that runs, whether it shows signs of work; in brief lists only once its user was told that it is to be stopped"`
	Array     *Array     `json:"array,omitempty" doc:"of an array: how far its elements are"`
	Number    string     `json:"number,omitempty" doc:"of an element: the number that it has as a job"`
	Waits     string     `json:"waits,omitempty" doc:"what keeps a waiting job, in brief: a reason's code; why has it in full"`
	Window    *Window    `json:"window,omitempty"`
	Shared    []Shared   `json:"shared,omitempty" doc:"whom its owner lets into its applications"`
	Receipt   *Receipt   `json:"receipt,omitempty"`
	Quoted    *Quoted    `json:"quoted,omitempty" doc:"what was said of it as it was submitted"`
	Reasons   []Reason   `json:"reasons,omitempty"`
	Remedy    *Remedy    `json:"remedy,omitempty"`
	Seq       int64      `json:"seq" doc:"log sequence of its last change"`
}

// Array is how far the elements of an array are.
type Array struct {
	Pending int64            `json:"pending"`
	Active  int64            `json:"active" doc:"started and not ended"`
	Ended   map[string]int64 `json:"ended,omitempty" doc:"by outcome"`
	Waiting string           `json:"waiting,omitempty" doc:"indices of those that wait, as 4-99:2"`
	Failed  string           `json:"failed,omitempty" doc:"indices of those that didn't complete"`
	More    int64            `json:"more,omitempty" doc:"so many that didn't complete aren't in failed"`
}

// Receipt is a job's money. While it runs, charged is what has accrued.
type Receipt struct {
	Billing  string      `json:"billing"`
	Deposit  string      `json:"deposit" doc:"set aside in all, a workspace's earlier runs too"`
	Left     string      `json:"left,omitempty" doc:"of that, still set aside"`
	Charged  string      `json:"charged"`
	Returned string      `json:"returned"`
	Lines    []PriceLine `json:"lines,omitempty"`
	Account  string      `json:"account"`
	Grants   []string    `json:"grants,omitempty" doc:"sources that paid, in order"`
	Final    bool        `json:"final"`
	Hour     string      `json:"hour,omitempty" doc:"of a job with a rolling deposit that was just submitted: credits that an hour costs"`
	Whole    string      `json:"whole,omitempty" doc:"likewise: the price of all of its time"`
	Paid     *time.Time  `json:"paid,omitempty" doc:"of one that runs, with a rolling deposit: up to when that pays, before its grace"`
	Short    *time.Time  `json:"short,omitempty" doc:"since when that can't be renewed: without money it is stopped at paid"`
}

// Why explains a job: the answer of the admission function for it, now.
type Why struct {
	Job      Job      `json:"job"`
	Summary  string   `json:"summary"`
	Window   Window   `json:"window"`
	Reasons  []Reason `json:"reasons,omitempty"`
	Remedy   *Remedy  `json:"remedy,omitempty"`
	Priority []Factor `json:"priority,omitempty"`
	Holders  []Holder `json:"holders,omitempty" doc:"who has what it needs, as far as you may see"`
}

// Decision is what was decided of a job at a time: a row of the log, or why it waited, as it
// was found then.
type Decision struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"kind" doc:"the command that was carried out, job.start for example, or waits"`
	By      string    `json:"by,omitempty" doc:"principal"`
	State   string    `json:"state,omitempty" doc:"of the job, from then on"`
	Message string    `json:"message,omitempty"`
	Reasons []Reason  `json:"reasons,omitempty"`
	Window  *Window   `json:"window,omitempty" doc:"of one that waits: its place, and when it was expected to start"`
}

// Factor is a part of a priority.
type Factor struct {
	Name    string `json:"name"`
	Value   int64  `json:"value" doc:"points"`
	Meaning string `json:"meaning,omitempty" doc:"what the points come from"`
}

// Holder is a job in the way; user and account may be redacted.
type Holder struct {
	Job     string     `json:"job,omitempty"`
	User    string     `json:"user,omitempty"`
	Account string     `json:"account,omitempty"`
	What    string     `json:"what"`
	Until   *time.Time `json:"until,omitempty" doc:"at the latest"`
}

// PriorityRequest fixes a job's priority, or with Clear lets it follow from the job
// again.
type PriorityRequest struct {
	Points *int64 `json:"points,omitempty" doc:"the priority that it has from now on, whatever its age"`
	Clear  bool   `json:"clear,omitempty"`
}

// ExtendRequest gives a running job a longer time limit.
type ExtendRequest struct {
	Time Quantity `json:"time" doc:"the limit from its start on, e.g. 36h; more than it has"`
}

// StartRequest starts a stopped workspace.
type StartRequest struct {
	Set map[string]string `json:"set,omitempty" doc:"field of the spec to new value, as for a clone; it keeps kind, name and account"`
}

// StopRequest stops a job.
type StopRequest struct {
	Now      bool     `json:"now,omitempty" doc:"SIGKILL at once, without grace"`
	Grace    Quantity `json:"grace,omitempty" doc:"between SIGTERM and SIGKILL; by default the job's"`
	Elements string   `json:"elements,omitempty" doc:"only these elements of an array, as 0-9,17"`
	Delete   bool     `json:"delete,omitempty" doc:"a workspace, which else stays to be started again, ends by it"`
}

// RequeueRequest stops a running job and queues it again.
type RequeueRequest struct {
	Hold bool `json:"hold,omitempty" doc:"hold it then"`
}

// CloneRequest makes a new job out of an old one or of a refused request.
type CloneRequest struct {
	Set map[string]string `json:"set,omitempty" doc:"field of the spec to new value"`
}

// Event is one row of the log, as the viewer may see it.
type Event struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind" doc:"command that was carried out, e.g. job.submit"`
	By      string    `json:"by" doc:"principal"`
	Job     string    `json:"job,omitempty"`
	Account string    `json:"account,omitempty"`
	State   string    `json:"state,omitempty"`
	Message string    `json:"message,omitempty"`
	Reasons []Reason  `json:"reasons,omitempty"`
}
