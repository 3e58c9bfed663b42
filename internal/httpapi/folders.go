package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
)

func folderOperations() []operation {
	return []operation{
		ask("listFolders", "GET /v1/folders", "Folders of the machine that jobs of your accounts find", access.NodeSee, (*call).folders),
		tell("setFolder", "POST /v1/folders", "Let jobs of an account find a folder of the machine; one of the same name is replaced", access.CatalogSet, ok, (*call).setFolder),
		drop("removeFolder", "DELETE /v1/folders/{name}", "Let jobs not find a folder any more; what is in it stays", access.CatalogSet, (*call).removeFolder).
			with(param{"account", "whose it is; by default everybody's"}),
	}
}

func (c *call) folders() (v1.Page[v1.Folder], error) { return page(c.Reader.Folders(c.p), nil) }

func (c *call) setFolder(in v1.Folder) (v1.Folder, error) {
	got, err := c.do(command.FolderPut{Account: in.Account, Name: in.Name, Path: in.Path, Target: in.Target, ReadOnly: in.ReadOnly, Env: in.Env, Comment: in.Comment})
	if err != nil {
		return v1.Folder{}, err
	}
	row, isRow := got.Result.(asset.Folder)
	if !isRow {
		return v1.Folder{}, unexpected(got)
	}
	return c.Reader.FolderOf(row), nil
}

func (c *call) removeFolder() error {
	_, err := c.do(command.FolderRemove{Account: c.r.URL.Query().Get("account"), Name: c.path("name")})
	return err
}
