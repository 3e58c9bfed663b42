package v1

import "time"

// OpenRequest says which application of a job a browser is to be let into.
type OpenRequest struct {
	App  string `json:"app,omitempty" doc:"its name; by default the first"`
	Path string `json:"path,omitempty" maxLength:"2048" doc:"page of it, with its query; by default where it wants browsers first"`
}

// Opened is an address that works once.
type Opened struct {
	URL     string    `json:"url" doc:"whoever opens it first is known there as you: keep it to yourself"`
	Expires time.Time `json:"expires"`
}

// ShareRequest lets others into a job's applications: one of user, account and public.
type ShareRequest struct {
	User    string     `json:"user,omitempty"`
	Account string     `json:"account,omitempty" doc:"its members; to use it fully, those above viewer"`
	Public  bool       `json:"public,omitempty" doc:"whoever comes, without a login; where the site allows it"`
	Level   string     `json:"level,omitempty" doc:"view: to look at, GET and HEAD without WebSockets; full (default): as its owner, and with what the owner may"`
	Until   *time.Time `json:"until,omitempty" doc:"by default as long as the job"`
}

// UnshareRequest ends what a ShareRequest gave.
type UnshareRequest struct {
	User    string `json:"user,omitempty"`
	Account string `json:"account,omitempty"`
	Public  bool   `json:"public,omitempty"`
}

// Shared is whom a job's applications are shared with.
type Shared struct {
	User    string     `json:"user,omitempty"`
	Account string     `json:"account,omitempty"`
	Public  bool       `json:"public,omitempty"`
	Level   string     `json:"level" doc:"view or full"`
	Until   *time.Time `json:"until,omitempty"`
}

// AppJob is a job with applications or terminals to which the caller may come: his own, or
// one that is shared with him.
type AppJob struct {
	ID     string       `json:"id"`
	Name   string       `json:"name,omitempty"`
	User   string       `json:"user" doc:"whose it is"`
	State  string       `json:"state"`
	Ready  *time.Time   `json:"ready,omitempty" doc:"since when all its applications answer"`
	Access string       `json:"access" doc:"owner; or what of it is shared with you: full or view"`
	Apps   []AppAddress `json:"apps,omitempty" doc:"without any, there are its terminals"`
	Shared []Shared     `json:"shared,omitempty" doc:"whom its owner lets in; to others, what lets them in"`
}

// AppAddress is where an application is.
type AppAddress struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty" doc:"where a browser that is logged in gets to it; none where the server has no address for browsers"`
}

// AppQuery selects a page of AppJobs.
type AppQuery struct {
	Limit  int    // jobs per page; 0 is the server's default
	Cursor string // where the page begins
}
