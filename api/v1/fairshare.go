package v1

import "time"

// FairShare is the tree of shares at one time, as far as its reader may see it.
type FairShare struct {
	At       time.Time   `json:"at"`
	HalfLife Quantity    `json:"half_life,omitempty" doc:"after which use counts half; none: it always counts"`
	Points   int64       `json:"points" doc:"that the first of all users gets"`
	Places   int64       `json:"places" doc:"one for each user in an account who has used something, and one for all siblings together who haven't; hidden ones too"`
	Nodes    []ShareNode `json:"nodes" doc:"by rank, each account before those below it"`
}

// ShareNode is an account, or a user in an account, among its siblings: the accounts
// and users directly below the same account. Whom its reader may not see isn't among
// the nodes, and counts in their sums.
type ShareNode struct {
	Account string `json:"account"`
	User    string `json:"user,omitempty" doc:"none: the account itself"`
	Depth   int    `json:"depth" doc:"0 is below no account"`
	Weight  int64  `json:"weight"`
	Share   string `json:"share" doc:"percent of its siblings' weights"`
	Use     string `json:"use" doc:"credits at list prices, faded"`
	Used    string `json:"used" doc:"percent of its siblings' use"`
	Times   string `json:"times" doc:"used, as a multiple of share: the lower, the sooner; its inverse is Fair Tree's level"`
	Rank    int64  `json:"rank" doc:"1 is first; who ties shares it; an account's is that of its first user"`
	Points  int64  `json:"points,omitempty" doc:"what the user's jobs there get for it"`
}
