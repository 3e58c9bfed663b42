package v1

import "time"

// Me is the caller.
type Me struct {
	User     string       `json:"user"`
	Role     string       `json:"role" doc:"user, operator, admin or auditor"`
	Accounts []Membership `json:"accounts"`
}

// Membership is a role in an account.
type Membership struct {
	Account string `json:"account"`
	Role    string `json:"role" doc:"viewer, member, manager or owner"`
}

// Status is the server's state in brief.
type Status struct {
	Version  string     `json:"version"`
	Instance string     `json:"instance"`
	Engine   string     `json:"engine"`
	Runtime  string     `json:"runtime" doc:"ok, or what is wrong"`
	Nodes    int        `json:"nodes"`
	GPU      Use        `json:"gpu"`
	CPU      Use        `json:"cpu"`
	Mem      Use        `json:"mem"`
	Running  int64      `json:"running"`
	Queued   int64      `json:"queued"`
	Seq      int64      `json:"seq"`
	Clock    string     `json:"clock" doc:"ok, or why expiry is paused"`
	Started  *time.Time `json:"started,omitempty"`
}

// Use is an amount in use out of a total.
type Use struct {
	Used  Quantity `json:"used"`
	Total Quantity `json:"total"`
}

// Account is who pays.
type Account struct {
	Name    string        `json:"name"`
	Parent  string        `json:"parent,omitempty"`
	Billing string        `json:"billing,omitempty" doc:"off, showback (default) or enforce"`
	Group   string        `json:"group,omitempty" doc:"Unix group that its members follow"`
	Closed  bool          `json:"closed,omitempty"`
	Members []Member      `json:"members,omitempty"`
	Balance *AccountMoney `json:"balance,omitempty"`
	Usage   []LimitUse    `json:"usage,omitempty"`
	Grants  []Grant       `json:"grants,omitempty"`
}

// AccountMoney is an account's money at one moment, in credits.
type AccountMoney struct {
	Available string `json:"available"`
	Deposits  string `json:"deposits"`
	Spent     string `json:"spent"`
}

// Member is a user in an account.
type Member struct {
	User  string `json:"user"`
	Role  string `json:"role"`
	Group bool   `json:"group,omitempty" doc:"by the followed Unix group"`
}

// AccountPatch changes an account; what is absent stays.
type AccountPatch struct {
	Billing *string `json:"billing,omitempty"`
	Group   *string `json:"group,omitempty"`
	Closed  *bool   `json:"closed,omitempty"`
}

// User is a person.
type User struct {
	Name     string       `json:"name"`
	Role     string       `json:"role,omitempty" doc:"user (default), operator, admin or auditor"`
	UID      *int64       `json:"uid,omitempty" doc:"Unix uid on this machine"`
	Blocked  bool         `json:"blocked,omitempty"`
	Warning  string       `json:"warning,omitempty" doc:"e.g. the uid now belongs to another name"`
	Accounts []Membership `json:"accounts,omitempty"`
}

// UserPatch changes a user; what is absent stays.
type UserPatch struct {
	Role    *string `json:"role,omitempty"`
	Blocked *bool   `json:"blocked,omitempty"`
	Rebind  bool    `json:"rebind,omitempty" doc:"bind the name to the uid that it has on this machine now"`
}

// TokenRequest asks for a personal token.
type TokenRequest struct {
	Name    string     `json:"name"`
	Expires *time.Time `json:"expires,omitempty"`
}

// Token is a personal token. Secret is shown once, when it is made.
type Token struct {
	ID      string     `json:"id"`
	User    string     `json:"user"`
	Name    string     `json:"name"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Secret  string     `json:"secret,omitempty"`
}

// Grant is credits given to an account.
type Grant struct {
	ID        string     `json:"id,omitempty"`
	Account   string     `json:"account"`
	Amount    string     `json:"amount" doc:"credits"`
	Source    string     `json:"source" doc:"where the money comes from"`
	Start     *time.Time `json:"start,omitempty"`
	End       *time.Time `json:"end,omitempty"`
	Subtree   bool       `json:"subtree,omitempty" doc:"accounts below may spend it"`
	Available string     `json:"available,omitempty"`
	Deposits  string     `json:"deposits,omitempty"`
	Spent     string     `json:"spent,omitempty"`
	State     string     `json:"state,omitempty" doc:"future, open, ended or expired"`
}

// PriceVersion is the price book of a partition from a moment on; rates are
// credits per hour of one core, GiB or device.
type PriceVersion struct {
	ID        string            `json:"id,omitempty"`
	Partition string            `json:"partition,omitempty" doc:"empty: every partition without its own"`
	From      *time.Time        `json:"from,omitempty" doc:"default now"`
	CPU       string            `json:"cpu,omitempty"`
	Mem       string            `json:"mem,omitempty"`
	GPU       map[string]string `json:"gpu,omitempty" doc:"by model; * is any other"`
	By        string            `json:"by,omitempty"`
}

// Limit is an upper bound on what a scope may use at once.
type Limit struct {
	ID        string   `json:"id,omitempty"`
	Account   string   `json:"account,omitempty"`
	User      string   `json:"user,omitempty" doc:"with account: that user in that account"`
	Partition string   `json:"partition,omitempty"`
	Resource  string   `json:"resource" doc:"cpu, mem, gpu, gpu:MODEL, running, submitted or time"`
	Max       Quantity `json:"max"`
}

// LimitUse is a limit with what is used of it.
type LimitUse struct {
	Limit
	Used Quantity `json:"used"`
	From string   `json:"from" doc:"where it comes from, in words"`
}

// Node is a machine with its devices.
type Node struct {
	Name        string            `json:"name"`
	State       string            `json:"state" doc:"ok, drained, down"`
	Reason      string            `json:"reason,omitempty"`
	Partitions  []string          `json:"partitions"`
	CPU         Use               `json:"cpu"`
	Mem         Use               `json:"mem"`
	Devices     []Device          `json:"devices"`
	Maintenance []Maintenance     `json:"maintenance,omitempty"`
	Labels      map[string]string `json:"labels,omitempty" doc:"what constraints are about: reported by the engine, or given by an operator"`
}

// Device is one accelerator.
type Device struct {
	UUID    string `json:"uuid"`
	Name    string `json:"name"`
	Model   string `json:"model"`
	State   string `json:"state" doc:"free, used, foreign, drained or down"`
	Reason  string `json:"reason,omitempty"`
	Job     string `json:"job,omitempty"`
	User    string `json:"user,omitempty"`
	Account string `json:"account,omitempty"`
}

// DrainRequest takes a node out of use: nothing new starts there.
type DrainRequest struct {
	Reason string `json:"reason"`
}

// NodeLabels changes the labels that operators gave a node.
type NodeLabels struct {
	Set    map[string]string `json:"set,omitempty" doc:"values may be empty"`
	Remove []string          `json:"remove,omitempty"`
}

// Maintenance is a window in which nothing may run on a node.
type Maintenance struct {
	ID     string    `json:"id,omitempty"`
	Node   string    `json:"node" doc:"* is every node"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Reason string    `json:"reason,omitempty"`
}

// Transfer is one posting: an amount from one ledger account to another.
type Transfer struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Amount string    `json:"amount"`
	Kind   string    `json:"kind"`
	Job    string    `json:"job,omitempty"`
	Seq    int64     `json:"seq"`
}

// Verification is the result of checking the ledger against everything else.
type Verification struct {
	OK        bool        `json:"ok"`
	Seq       int64       `json:"seq" doc:"up to this row of the log"`
	Transfers int64       `json:"transfers"`
	Checks    []CheckLine `json:"checks"`
}

// CheckLine is one thing that was verified.
type CheckLine struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Checked int64  `json:"checked"`
	First   string `json:"first,omitempty" doc:"the first difference, with its evidence"`
}

// Statement says where an account's money went in a period.
type Statement struct {
	Account  string          `json:"account"`
	From     time.Time       `json:"from"`
	To       time.Time       `json:"to"`
	Grants   []Grant         `json:"grants"`
	Users    []StatementUser `json:"users"`
	Devices  []StatementNode `json:"devices,omitempty" doc:"for operators: each node's device-hours by payer"`
	Verified bool            `json:"verified"`
}

// StatementUser is one member's part. GPUHours is decimal text.
type StatementUser struct {
	User     string `json:"user"`
	Jobs     int64  `json:"jobs"`
	GPUHours string `json:"gpu_hours"`
	Charged  string `json:"charged"`
}

// StatementNode is a machine's own balance in device-hours.
type StatementNode struct {
	Node  string            `json:"node"`
	Total string            `json:"total"`
	By    map[string]string `json:"by" doc:"cause to device-hours: users, idle, foreign, maintenance, …"`
}
