package v1

import "time"

// Statement says where an account's money went in a period, that of the accounts below it
// too. Amounts are credits and hours as decimal text.
type Statement struct {
	Account  string             `json:"account"`
	From     time.Time          `json:"from"`
	To       time.Time          `json:"to"`
	Total    StatementTotal     `json:"total" doc:"of the accounts' own grants"`
	Grants   []StatementGrant   `json:"grants"`
	Accounts []StatementAccount `json:"accounts" doc:"the first is all of them together"`
	Users    []StatementUser    `json:"users" doc:"what each member spent in each account; (others) is those whom you may not look at"`
	By       string             `json:"by,omitempty" doc:"how deep the lines go: member, token, job, step, device or day"`
	Lines    []StatementLine    `json:"lines,omitempty"`
	Devices  []StatementNode    `json:"devices,omitempty" doc:"for operators: each node's device-hours by payer"`

	Closed      []StatementClosed     `json:"closed,omitempty" doc:"the closed periods that it is of; it never changes then"`
	Corrections []StatementCorrection `json:"corrections,omitempty" doc:"what takes back charges of closed periods, among what is above"`

	Verified   bool   `json:"verified" doc:"the postings of the period equal its metered device-time"`
	Difference string `json:"difference,omitempty" doc:"where they don't, the first difference with its evidence"`
}

// StatementTotal is the sums of a statement: Opening + Given - Spent - Expired = Left.
type StatementTotal struct {
	Opening string `json:"opening" doc:"in the grants at the beginning, set aside or not"`
	Given   string `json:"given" doc:"by grants that were given in the period"`
	Spent   string `json:"spent" doc:"out of the grants, by whomever"`
	Expired string `json:"expired" doc:"lost with grants that ended"`
	Left    string `json:"left" doc:"in the grants at the end, set aside or not"`
	Charged string `json:"charged" doc:"what the accounts spent, out of whatever grants and beyond them"`
}

// StatementGrant is a grant's part of a statement, or what was spent of another account's
// (part).
type StatementGrant struct {
	ID       string     `json:"id,omitempty" doc:"left out: what was spent beyond all grants"`
	Account  string     `json:"account,omitempty" doc:"whose it is"`
	Source   string     `json:"source,omitempty"`
	Start    *time.Time `json:"start,omitempty"`
	End      *time.Time `json:"end,omitempty"`
	Subtree  bool       `json:"subtree,omitempty"`
	State    string     `json:"state,omitempty" doc:"at the end of the period: open, future, ended or expired"`
	Part     bool       `json:"part,omitempty" doc:"it is an account's above: only what was spent of it here is shown"`
	Opening  string     `json:"opening,omitempty"`
	Given    string     `json:"given,omitempty" doc:"with what was carried over into it, less what was out of it"`
	Spent    string     `json:"spent"`
	Expired  string     `json:"expired,omitempty"`
	Left     string     `json:"left,omitempty" doc:"opening + given - spent - expired, set aside or not"`
	Deposits string     `json:"deposits,omitempty" doc:"what is set aside for jobs of what is left"`
	Until    *time.Time `json:"until,omitempty" doc:"when it is used up, if it is spent on as in the period; left out when its end comes first"`
}

// StatementAccount is what an account spent.
type StatementAccount struct {
	Account  string `json:"account"`
	Below    bool   `json:"below,omitempty" doc:"with all below it"`
	GPUHours string `json:"gpu_hours"`
	Charged  string `json:"charged"`
}

// StatementUser is one member's part of an account's spending.
type StatementUser struct {
	Account  string           `json:"account"`
	User     string           `json:"user"`
	Jobs     int64            `json:"jobs"`
	GPUHours string           `json:"gpu_hours"`
	Charged  string           `json:"charged"`
	Models   []StatementModel `json:"models"`
}

// StatementModel is the part of one model of devices; "" is what had none.
type StatementModel struct {
	Model    string `json:"model"`
	GPUHours string `json:"gpu_hours"`
	Charged  string `json:"charged"`
}

// StatementLine is what was spent of one grant, by as much as the statement tells apart.
type StatementLine struct {
	Grant    string     `json:"grant,omitempty" doc:"left out: beyond all grants"`
	Source   string     `json:"source,omitempty"`
	Account  string     `json:"account"`
	User     string     `json:"user"`
	Token    *ByToken   `json:"token,omitempty" doc:"by which the jobs were submitted; by token and by job"`
	Day      string     `json:"day,omitempty" doc:"UTC"`
	Job      string     `json:"job,omitempty"`
	Step     string     `json:"step,omitempty" doc:"118.2; a step that has no devices of its own is in the first, 118.1"`
	Device   string     `json:"device,omitempty"`
	Node     string     `json:"node,omitempty"`
	Model    string     `json:"model,omitempty"`
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
	GPU      Quantity   `json:"gpu,omitempty" doc:"of the device"`
	GPUHours string     `json:"gpu_hours"`
	Credits  string     `json:"credits"`
}

// MachineStatement is the machine's own balance: where the device time of the inventory
// went. Every device-second has one payer.
type MachineStatement struct {
	Of     string               `json:"of,omitempty" doc:"the node or the partition; left out: everything"`
	From   time.Time            `json:"from"`
	To     time.Time            `json:"to"`
	Total  string               `json:"total"`
	By     map[string]string    `json:"by" doc:"users, reserved, idle, overhead, foreign, maintenance, faults; they come to the total"`
	Causes map[string]string    `json:"causes" doc:"what these are made of"`
	Models []StatementModelTime `json:"models"`
	Nodes  []StatementNode      `json:"nodes"`

	Closed []StatementClosed `json:"closed,omitempty" doc:"the closed periods that it is of; it never changes then"`

	Verified   bool   `json:"verified" doc:"every device-second of the inventory has exactly one payer"`
	Difference string `json:"difference,omitempty" doc:"where that isn't so, the first with its evidence"`
}

// StatementNode is a machine's own balance in device-hours.
type StatementNode struct {
	Node   string               `json:"node"`
	Total  string               `json:"total"`
	By     map[string]string    `json:"by" doc:"payer to device-hours: users, idle, foreign, maintenance, …"`
	Causes map[string]string    `json:"causes" doc:"what these are made of: used, idle, starting, drained, …"`
	Models []StatementModelTime `json:"models"`
}

// StatementModelTime is the part of one model of devices.
type StatementModelTime struct {
	Model  string            `json:"model"`
	Total  string            `json:"total"`
	By     map[string]string `json:"by"`
	Causes map[string]string `json:"causes"`
}
