package v1

import (
	"context"
	"iter"
	"net/http"
)

// Storage is what a folder of the machine has in it, and how much may be, as its file system
// says.
type Storage struct {
	User       string   `json:"user,omitempty" doc:"whose home it is"`
	Account    string   `json:"account,omitempty" doc:"whose folder it is"`
	Folder     string   `json:"folder,omitempty"`
	Path       string   `json:"path" doc:"on the machine"`
	FileSystem string   `json:"file_system,omitempty"`
	By         string   `json:"by,omitempty" enum:"user,project" doc:"what is counted: all that the user has on the file system, or what is in the project that the folder is of; empty: nothing is"`
	Used       Quantity `json:"used,omitempty" doc:"rounded up"`
	Limit      Quantity `json:"limit,omitempty" doc:"empty: none"`
	Files      int64    `json:"files,omitempty" doc:"folders too"`
	MaxFiles   int64    `json:"max_files,omitempty"`
	Free       Quantity `json:"free,omitempty" doc:"what is left on the file system, for all together"`
	Note       string   `json:"note,omitempty" doc:"why no limit holds, or nothing is known, and what would help"`
}

// StorageLimit bounds what may be in a user's home, or in a folder of an account.
type StorageLimit struct {
	User     string   `json:"user,omitempty"`
	Account  string   `json:"account,omitempty"`
	Folder   string   `json:"folder,omitempty" doc:"by default the only one of the account that jobs may write in"`
	Limit    Quantity `json:"limit" doc:"or none"`
	MaxFiles int64    `json:"max_files,omitempty" doc:"0: any number"`
}

// Storage lists a user's home and the folders that his jobs may write in.
func (c *Client) Storage(ctx context.Context, user string) iter.Seq2[Storage, error] {
	u, err := segment("user", user)
	if err != nil {
		return func(yield func(Storage, error) bool) { yield(Storage{}, err) }
	}
	return pages[Storage](ctx, c, "/v1/users/"+u+"/storage", nil)
}

// SetStorage bounds a home or a folder, and answers how it stands then. The error has the code
// conflict where the file system bounds nothing.
func (c *Client) SetStorage(ctx context.Context, in StorageLimit) (*Storage, error) {
	out := new(Storage)
	return out, c.call(ctx, http.MethodPost, "/v1/storage", nil, in, out)
}
