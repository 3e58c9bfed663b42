package v1

// Pod is what all containers of a job share, besides its allocation.
type Pod struct {
	Name    string   `json:"name,omitempty" maxLength:"63" doc:"host name in the containers, a DNS label; by default made of the job's name"`
	Network string   `json:"network,omitempty" doc:"default: a network of the job's own; host: the machine's"`
	Ports   []string `json:"ports,omitempty" doc:"TCP ports of the machine that lead into the job, as HOST[:CONTAINER]"`
	DNS     []string `json:"dns,omitempty" doc:"addresses of name servers, asked before the site's"`
	PID     string   `json:"pid,omitempty" doc:"private: each container sees its own processes only (default); shared: those of all"`
	Userns  string   `json:"userns,omitempty" doc:"fake root: on, auto (where it can be, else as yourself) or off; by default what the site says"`
	User    string   `json:"user,omitempty" doc:"whom the containers run as, UID[:GID]: with fake root anybody, by default 0:0; else yourself"`
}
