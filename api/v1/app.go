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
