package v1

import "time"

// Me is the caller.
type Me struct {
	User     string       `json:"user"`
	Role     string       `json:"role" doc:"user, operator, admin or auditor"`
	Accounts []Membership `json:"accounts"`
	Password bool         `json:"password,omitempty" doc:"you have a password"`
	Token    *Token       `json:"token,omitempty" doc:"the personal token that this was asked by, with its caps"`
}

// Membership is a role in an account.
type Membership struct {
	Account string     `json:"account"`
	Role    string     `json:"role" doc:"viewer, member, manager or owner"`
	Ends    *time.Time `json:"ends,omitempty" doc:"the membership's end, or its account's"`
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
	Name        string        `json:"name"`
	Parent      string        `json:"parent,omitempty"`
	Billing     string        `json:"billing,omitempty" doc:"off, showback (default) or enforce"`
	OutOfCredit string        `json:"out_of_credit,omitempty" doc:"where billing is enforced, what becomes of work with a rolling deposit once the credits are used up: stop (default), drain: it runs to its time limit, what that costs is owed, and nothing new starts, or overdraft: jobs go on and begin up to a bound, and later grants repay it"`
	Overdraft   string        `json:"overdraft,omitempty" doc:"how far jobs may go beyond the grants, in credits, where out_of_credit is overdraft"`
	Group       string        `json:"group,omitempty" doc:"Unix group that its members follow"`
	Closed      bool          `json:"closed,omitempty"`
	Ends        *time.Time    `json:"ends,omitempty" doc:"from then on nothing starts, its members are none and its grants end; its own end, or that of one above it"`
	Retired     *time.Time    `json:"retired,omitempty" doc:"it was removed then"`
	Weight      int64         `json:"weight,omitempty" doc:"of its share, against accounts and members beside it; 1 unless set"`
	Members     []Member      `json:"members,omitempty"`
	Balance     *AccountMoney `json:"balance,omitempty"`
	Usage       []LimitUse    `json:"usage,omitempty"`
	Grants      []Grant       `json:"grants,omitempty"`
}

// AccountMoney is an account's money at one moment, in credits.
type AccountMoney struct {
	Available string `json:"available" doc:"of its grants"`
	Deposits  string `json:"deposits"`
	Spent     string `json:"spent"`
	Overdrawn string `json:"overdrawn,omitempty" doc:"of its overdraft: spent or set aside, and not repaid"`
	Owed      string `json:"owed,omitempty" doc:"of that what is spent, which the next credits repay"`
}

// Member is a user in an account.
type Member struct {
	User   string     `json:"user"`
	Role   string     `json:"role"`
	Group  bool       `json:"group,omitempty" doc:"by the followed Unix group"`
	Ends   *time.Time `json:"ends,omitempty" doc:"the membership's end, or its account's"`
	Weight int64      `json:"weight,omitempty" doc:"of the user's share, against members and accounts beside; 1 unless set"`
}

// MemberRequest makes a user a member, or changes the membership.
type MemberRequest struct {
	Role   string     `json:"role,omitempty" doc:"viewer, member, manager or owner; with a weight it may be left out: then only that changes"`
	Ends   *time.Time `json:"ends,omitempty" doc:"default: with the account"`
	Weight *int64     `json:"weight,omitempty" doc:"from 1 to 1000000; left out, as it is"`
}

// AccountPatch changes an account; what is absent stays.
type AccountPatch struct {
	Billing     *string `json:"billing,omitempty"`
	OutOfCredit *string `json:"out_of_credit,omitempty" doc:"stop, drain or overdraft; by an admin"`
	Overdraft   *string `json:"overdraft,omitempty" doc:"how far jobs may go beyond the grants, in credits, at least what is used of it; with out_of_credit overdraft"`
	Group       *string `json:"group,omitempty"`
	Closed      *bool   `json:"closed,omitempty"`
	Ends        *string `json:"ends,omitempty" doc:"RFC 3339, or never"`
	Weight      *int64  `json:"weight,omitempty" doc:"from 1 to 1000000; by a manager of the account above it, or an admin"`
}

// MoveRequest puts an account under another one.
type MoveRequest struct {
	Under  string `json:"under,omitempty" doc:"none: it becomes a root"`
	DryRun bool   `json:"dry_run,omitempty" doc:"only say whether it could be, and what would go on as it was"`
}

// Moved is an account that was moved.
type Moved struct {
	Account Account `json:"account"`
	Jobs    int     `json:"jobs" doc:"so many accepted jobs go on with the grants and limits of where they were submitted"`
}

// ImportRequest makes the members of an account those of a table.
type ImportRequest struct {
	CSV    string  `json:"csv" doc:"the first line names the columns: name or email, and any of uid, role, ends"`
	Role   string  `json:"role,omitempty" doc:"of who is new and whose line says none; default member"`
	Ends   *string `json:"ends,omitempty" doc:"of memberships whose line says none: RFC 3339, or never"`
	Prune  bool    `json:"prune,omitempty" doc:"remove members and viewers that aren't in it"`
	DryRun bool    `json:"dry_run,omitempty" doc:"only say what would change"`
}

// Import is what an import changed, or would change.
type Import struct {
	Account  string         `json:"account"`
	DryRun   bool           `json:"dry_run,omitempty"`
	Created  int            `json:"created" doc:"users made"`
	Added    int            `json:"added" doc:"members"`
	Changed  int            `json:"changed"`
	Removed  int            `json:"removed"`
	Kept     int            `json:"kept" doc:"are as the table says already"`
	Changes  []ImportChange `json:"changes"`
	Ignored  []string       `json:"ignored,omitempty" doc:"columns"`
	Warnings []string       `json:"warnings,omitempty"`
}

// ImportChange is one member's.
type ImportChange struct {
	Line    int    `json:"line,omitempty" doc:"of the table; none for who was removed"`
	User    string `json:"user"`
	Created bool   `json:"created,omitempty"`
	Was     string `json:"was,omitempty" doc:"the role before"`
	Role    string `json:"role,omitempty" doc:"the role now; none: removed"`
}

// User is a person.
type User struct {
	Name     string       `json:"name"`
	Role     string       `json:"role,omitempty" doc:"user (default), operator, admin or auditor"`
	UID      *int64       `json:"uid,omitempty" doc:"Unix uid on this machine"`
	Blocked  bool         `json:"blocked,omitempty"`
	Ends     *time.Time   `json:"ends,omitempty" doc:"from then on the user may nothing"`
	Retired  *time.Time   `json:"retired,omitempty" doc:"the user left then; the name may be another's by now"`
	Warning  string       `json:"warning,omitempty" doc:"e.g. the uid now belongs to another name"`
	Accounts []Membership `json:"accounts,omitempty"`
}

// UserPatch changes a user; what is absent stays.
type UserPatch struct {
	Role    *string `json:"role,omitempty"`
	Blocked *bool   `json:"blocked,omitempty"`
	Ends    *string `json:"ends,omitempty" doc:"RFC 3339, or never"`
	Rebind  bool    `json:"rebind,omitempty" doc:"bind the name to the uid that it has on this machine now"`
}

// RetireRequest lets a user go for good.
type RetireRequest struct {
	Stop bool `json:"stop,omitempty" doc:"stop the user's jobs; otherwise they are in the way"`
}

// Retired says what ended with a user.
type Retired struct {
	User    string `json:"user"`
	Jobs    int    `json:"jobs" doc:"stopped"`
	Tokens  int    `json:"tokens" doc:"and sessions"`
	Members int    `json:"members" doc:"memberships"`
}

// TokenRequest asks for a personal token.
type TokenRequest struct {
	Name    string     `json:"name"`
	Expires *time.Time `json:"expires,omitempty"`
	Scopes  []string   `json:"scopes,omitempty" doc:"narrows it to read, submit, manage, admin; none is all that you may"`
	Account string     `json:"account,omitempty" doc:"narrows it to this account and those below"`

	Spend    string   `json:"spend,omitempty" doc:"credits that all jobs submitted by it may spend together, what is set aside included; none is any amount"`
	SpendPer string   `json:"spend_per,omitempty" enum:"day,week,month,total" doc:"of what is spent, in UTC; by default in total"`
	Devices  Quantity `json:"devices,omitempty" doc:"devices that they may hold at once, 0 for none; none is any number"`
	AskAbove string   `json:"ask_above,omitempty" doc:"credits: a job that may cost more waits until its user approves it, himself; none is any amount"`
}

// Token is a personal token. Secret is shown once, when it is made.
type Token struct {
	ID      string     `json:"id"`
	User    string     `json:"user"`
	Name    string     `json:"name"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Scopes  []string   `json:"scopes,omitempty"`
	Account string     `json:"account,omitempty"`
	Secret  string     `json:"secret,omitempty"`

	Spend   *TokenSpend   `json:"spend,omitempty" doc:"its cap on what its jobs spend together, and how that stands"`
	Devices *TokenDevices `json:"devices,omitempty" doc:"its cap on the devices that its jobs hold at once"`

	AskAbove string `json:"ask_above,omitempty" doc:"credits: a job that may cost more waits until its user approves it"`
}

// TokenSpend is a token's cap on credits.
type TokenSpend struct {
	Max   string     `json:"max"`
	Per   string     `json:"per" doc:"day, week, month or total"`
	Spent string     `json:"spent" doc:"in the period, less what was refunded in it"`
	Aside string     `json:"aside" doc:"set aside for jobs that haven't ended"`
	Left  string     `json:"left"`
	Until *time.Time `json:"until,omitempty" doc:"when the next period begins"`
}

// TokenDevices is a token's cap on devices.
type TokenDevices struct {
	Max   Quantity `json:"max"`
	InUse Quantity `json:"in_use"`
}

// ByToken is the token by which a job was submitted. Its name may come again; its number doesn't.
type ByToken struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// LoginRequest opens a session.
type LoginRequest struct {
	User     string `json:"user"`
	Password string `json:"password"`
	Name     string `json:"name,omitempty" doc:"where from, for the list of sessions; e.g. a host's name"`
}

// Session is what a login opened. Secret is shown once, when it is opened, and is
// sent as a bearer token.
type Session struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used" doc:"roughly"`
	Ends    time.Time `json:"ends" doc:"when it ends if it isn't used any more"`
	Expires time.Time `json:"expires" doc:"when it ends in any case"`
	Current bool      `json:"current,omitempty" doc:"this is the session that asked"`
	Secret  string    `json:"secret,omitempty"`
}

// PasswordChange sets or removes a password.
type PasswordChange struct {
	Old    string `json:"old,omitempty" doc:"the password until now, of who changes his own"`
	New    string `json:"new,omitempty"`
	Remove bool   `json:"remove,omitempty"`
}

// PasswordChanged says what a change of password did.
type PasswordChanged struct {
	Sessions int `json:"sessions" doc:"so many sessions ended"`
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
	Allowance string     `json:"allowance,omitempty" doc:"that gave it, by name"`
	Carried   string     `json:"carried,omitempty" doc:"out of it, into the next grant of its allowance, whose amount has it"`

	Transferred string     `json:"transferred,omitempty" doc:"out of it, into grants of other accounts"`
	Repaid      string     `json:"repaid,omitempty" doc:"of what is spent: what its account had spent of its overdraft before"`
	Used        int64      `json:"used,omitempty" doc:"percent of it that are spent or set aside, rounded down"`
	Warning     string     `json:"warning,omitempty" doc:"of an open one from 80 % on: how much is left, or that it is nearly used up from 95 % on"`
	Lasts       *time.Time `json:"lasts,omitempty" doc:"in lists of grants: when an open one is used up if it is spent on as in the last 30 days; left out when its end comes first"`
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

// Limit is an upper bound on what a scope may use. The scope is everything that is
// named: jobs of that user in that account, in that partition, with that QoS.
type Limit struct {
	ID        string   `json:"id,omitempty" doc:"left out where no limit was set: a default, a partition's or a QoS's bound"`
	Account   string   `json:"account,omitempty" doc:"and all accounts below it"`
	User      string   `json:"user,omitempty" doc:"* is each user, where a user has no such limit of his own"`
	Partition string   `json:"partition,omitempty"`
	QoS       string   `json:"qos,omitempty"`
	Resource  string   `json:"resource" doc:"cpu, mem, gpu, gpu:MODEL, running, submitted; of each job: time, job.cpu, job.mem, job.gpu, job.gpu:MODEL; of use in a period: cpu-hours, mem-hours (of a GiB), gpu-hours, gpu-hours:MODEL; of what a user spends in an account: credits"`
	Max       Quantity `json:"max" doc:"cores, bytes, devices, jobs, a time, credits or hours"`
	Per       string   `json:"per,omitempty" doc:"of hours: day, week, month, year in the site's time zone, or rolling and a time, such as rolling 7d; of credits: day, week, month, year of UTC, as in statements, or none: in all"`
	CarryOver string   `json:"carry_over,omitempty" doc:"of hours: how much of what a period leaves unused may be used in the next: a share such as 50%, or hours"`
}

// LimitUse is a limit with what is used of it.
type LimitUse struct {
	Limit
	Used     Quantity    `json:"used,omitempty" doc:"left out for what bounds each job for itself"`
	Spent    Quantity    `json:"spent,omitempty" doc:"of used credits: what was charged; the rest is set aside"`
	Left     Quantity    `json:"left,omitempty"`
	Over     Quantity    `json:"over,omitempty" doc:"by how much more is used than the limit allows"`
	Carried  Quantity    `json:"carried,omitempty" doc:"carried over from the period before; it comes on top of max"`
	Since    *time.Time  `json:"since,omitempty" doc:"of hours and credits: when the period began"`
	Until    *time.Time  `json:"until,omitempty" doc:"of hours and credits: when the next one begins"`
	From     string      `json:"from" doc:"whose limit it is, in words"`
	By       string      `json:"by,omitempty" doc:"who set it"`
	Tightest bool        `json:"tightest,omitempty" doc:"of this resource, the one that leaves the least to whom was asked for"`
	Users    []LimitUser `json:"users,omitempty" doc:"when a limit is set: who has more than it allows; nothing is stopped"`
}

// LimitUser is what a user has of something that a limit is passed in.
type LimitUser struct {
	User string   `json:"user"`
	Used Quantity `json:"used,omitempty"`
	Jobs int64    `json:"jobs,omitempty" doc:"that each have more than they could ask for now"`
}

// Share is an account's part of a resource in a partition, with all accounts below it.
type Share struct {
	ID         string   `json:"id,omitempty"`
	Account    string   `json:"account"`
	Partition  string   `json:"partition"`
	Resource   string   `json:"resource" doc:"cpu, mem, gpu, gpu:MODEL"`
	Guaranteed Quantity `json:"guaranteed" doc:"cores, bytes or devices; part of what the account above is guaranteed"`
	Limit      Quantity `json:"limit,omitempty" doc:"the most in use at once, what is borrowed included"`
	Borrow     Quantity `json:"borrow,omitempty" doc:"the most that may be borrowed from others"`
	Lend       Quantity `json:"lend,omitempty" doc:"the most of the guarantee that others may use while it is unused; by default all"`
	Weight     int64    `json:"weight,omitempty" doc:"among those that borrow; by default the account's own"`
}

// ShareUse is a share with what is in use of it.
type ShareUse struct {
	Share
	Used      Quantity        `json:"used"`
	Borrowed  Quantity        `json:"borrowed,omitempty" doc:"in use or kept beyond the guarantee: it gives way when somebody needs what he is guaranteed"`
	Over      Quantity        `json:"over,omitempty" doc:"by how much more is used than the share allows; nothing is stopped for that"`
	Free      Quantity        `json:"free" doc:"how much more shares let it have now, whether or not nodes have room"`
	Borrowers []ShareBorrower `json:"borrowers,omitempty" doc:"who uses more than his guarantee where this account uses less than its own: they give way to it"`
	By        string          `json:"by,omitempty" doc:"who set it"`
}

// ShareBorrower has borrowed what others are guaranteed.
type ShareBorrower struct {
	Account  string   `json:"account,omitempty" doc:"left out: accounts that have no share, or that you may not see"`
	Borrowed Quantity `json:"borrowed"`
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
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	Model string `json:"model"`
	// Memory is the device's own, such as 80G.
	Memory  Quantity `json:"memory,omitempty" doc:"the device's own, where it is known"`
	State   string   `json:"state" doc:"free, used, reserved, foreign, drained or down"`
	Reason  string   `json:"reason,omitempty"`
	Job     string   `json:"job,omitempty" doc:"which has all of it"`
	User    string   `json:"user,omitempty"`
	Account string   `json:"account,omitempty"`
	// Used is how much of the device jobs have, such as 0.5.
	Used   Quantity      `json:"used,omitempty" doc:"how much of it jobs have"`
	Shares []DeviceShare `json:"shares,omitempty" doc:"the jobs that have parts of it"`
}

// DeviceShare is what a job has of a device that several share.
type DeviceShare struct {
	Job     string   `json:"job"`
	GPU     Quantity `json:"gpu" doc:"part of the device"`
	User    string   `json:"user,omitempty"`
	Account string   `json:"account,omitempty"`
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
	User   string    `json:"user,omitempty" doc:"for whose job, or who gave it"`
	Token  *ByToken  `json:"token,omitempty" doc:"by which that job was submitted"`
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
