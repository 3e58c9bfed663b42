package store

import (
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/id"
)

func savedImages() *relation[asset.Image] {
	type row = asset.Image
	return &relation[row]{name: "saved_image", keys: 1, columns: []column[row]{
		str("ref", func(r *row) *string { return &r.Ref }),
		num("person", func(r *row) *id.User { return &r.User }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		str("state", func(r *row) *asset.ImageState { return &r.State }),
		num("job", func(r *row) *id.Job { return &r.Job }),
		str("digest", func(r *row) *string { return &r.Digest }),
		num("size", func(r *row) *int64 { return &r.Size }),
		num("made", func(r *row) *int64 { return &r.Made }),
		flag("removed", func(r *row) *bool { return &r.Removed }),
		body(
			attr[row]{"note", func(r *row) any { return &r.Note }},
			attr[row]{"step", func(r *row) any { return &r.Step }},
			attr[row]{"attempt", func(r *row) any { return &r.Attempt }},
			attr[row]{"base", func(r *row) any { return &r.Base }},
			attr[row]{"comment", func(r *row) any { return &r.Comment }},
			attr[row]{"packages", func(r *row) any { return &r.Packages }},
		),
	}}
}

func folders() *relation[asset.Folder] {
	type row = asset.Folder
	return &relation[row]{name: "folder", keys: 2, secret: []string{"env"}, columns: []column[row]{
		num("account", func(r *row) *id.Account { return &r.Account }),
		str("name", func(r *row) *string { return &r.Name }),
		str("path", func(r *row) *string { return &r.Path }),
		str("target", func(r *row) *string { return &r.Target }),
		flag("read_only", func(r *row) *bool { return &r.ReadOnly }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
		flag("removed", func(r *row) *bool { return &r.Removed }),
		body(
			attr[row]{"env", func(r *row) any { return &r.Env }},
			attr[row]{"comment", func(r *row) any { return &r.Comment }},
		),
	}}
}

func templates() *relation[asset.Template] {
	type row = asset.Template
	return &relation[row]{name: "template", keys: 2, secret: []string{"spec"}, columns: []column[row]{
		num("person", func(r *row) *id.User { return &r.User }),
		str("name", func(r *row) *string { return &r.Name }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("changed", func(r *row) *int64 { return &r.Changed }),
		flag("removed", func(r *row) *bool { return &r.Removed }),
		body(
			attr[row]{"about", func(r *row) any { return &r.About }},
			attr[row]{"spec", func(r *row) any { return &r.Spec }},
		),
	}}
}
