package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/quota"
)

// fakeStorage has quotas below /srv and in homes, and nothing below /plain.
type fakeStorage struct {
	mu   sync.Mutex
	uses map[string]quota.Use
}

func (f *fakeStorage) Of(_ context.Context, path string, uid int64) (quota.Place, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case strings.HasPrefix(path, "/plain"):
		return quota.Place{FileSystem: "tmpfs", Free: 5<<30 + 1, Why: "no quotas"}, nil
	case strings.HasPrefix(path, "/gone"):
		return quota.Place{}, fmt.Errorf("open: %w", fs.ErrNotExist)
	case strings.HasPrefix(path, "/away"):
		return quota.Place{}, errors.New("secret reason")
	}
	by := "user"
	if uid < 0 {
		by = "project"
	}
	return quota.Place{FileSystem: "xfs", Free: 5 << 30, By: by, Use: f.uses[path]}, nil
}

func (f *fakeStorage) Set(ctx context.Context, path string, uid int64, limits quota.Use) (quota.Place, error) {
	switch p, err := f.Of(ctx, path, uid); {
	case err != nil:
		return p, err
	case p.By == "":
		return p, &quota.NoQuotaError{Path: path, Why: p.Why}
	}
	f.mu.Lock()
	f.uses[path] = limits
	f.mu.Unlock()
	return f.Of(ctx, path, uid)
}

func TestStorage(t *testing.T) {
	h := newHarness(t)
	ada, olga := h.client("ada"), h.client("olga")
	uid := int64(5001)
	h.as("root", command.UserPut{Name: "ada", UID: &uid})
	h.people.known["ada"] = Person{UID: uid, Home: "/home/ada"}
	for name, path := range map[string]string{"data": "/srv/nlp", "gone": "/gone/x", "old": "/plain/x", "remote": "/away/x"} {
		h.as("root", command.FolderPut{Account: "nlp", Name: name, Path: path})
	}
	h.as("root", command.FolderPut{Account: "nlp", Name: "ro", Path: "/srv/ro", ReadOnly: true})
	h.as("root", command.AccountPut{Create: true, Name: "elsewhere"})
	h.as("root", command.FolderPut{Account: "elsewhere", Name: "theirs", Path: "/srv/vision"})
	h.storage.uses = map[string]quota.Use{"/home/ada": {Bytes: 11<<20 + 1, Limit: 1 << 30, Files: 4, MaxFiles: 9}, "/srv/nlp": {Bytes: 1}}
	got, err := v1.Collect(ada.Storage(t.Context(), "ada"))
	want := []v1.Storage{
		{User: "ada", Path: "/home/ada", FileSystem: "xfs", By: "user", Used: "12M", Limit: "1G", Files: 4, MaxFiles: 9, Free: "5G"},
		{Account: "nlp", Folder: "data", Path: "/srv/nlp", FileSystem: "xfs", By: "project", Used: "1K", Free: "5G"},
		{Account: "nlp", Folder: "gone", Path: "/gone/x", Note: "it isn't there"},
		{Account: "nlp", Folder: "old", Path: "/plain/x", FileSystem: "tmpfs", Free: "5G", Note: "no quotas"},
		{Account: "nlp", Folder: "remote", Path: "/away/x", Note: "it can't be looked at, or doesn't answer"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	one, err := olga.SetStorage(t.Context(), v1.StorageLimit{User: "ada", Limit: "2G", MaxFiles: 7})
	if err != nil || one.Limit != "2G" || one.MaxFiles != 7 || one.Path != "/home/ada" {
		t.Errorf("%+v, %v", one, err)
	}
	if one, err = olga.SetStorage(t.Context(), v1.StorageLimit{User: "ada", Limit: "none"}); err != nil || one.Limit != "" {
		t.Errorf("none: %+v, %v", one, err)
	}
	if one, err = olga.SetStorage(t.Context(), v1.StorageLimit{Account: "nlp", Folder: "data", Limit: "1T"}); err != nil || one.Limit != "1T" || one.Folder != "data" || one.By != "project" {
		t.Errorf("%+v, %v", one, err)
	}
	for name, tt := range map[string]struct {
		in   v1.StorageLimit
		code codes.Code
		text string
	}{
		"nobody":           {v1.StorageLimit{Limit: "1G"}, codes.Invalid, "name a user or an account"},
		"no amount":        {v1.StorageLimit{User: "ada"}, codes.Invalid, "limit"},
		"zero":             {v1.StorageLimit{User: "ada", Limit: "0"}, codes.Invalid, "limit"},
		"negative":         {v1.StorageLimit{User: "ada", Limit: "1G", MaxFiles: -1}, codes.Invalid, "limit"},
		"no such user":     {v1.StorageLimit{User: "none", Limit: "1G"}, codes.NotFound, "none"},
		"no home":          {v1.StorageLimit{User: "mia", Limit: "1G"}, codes.Invalid, "mia"},
		"which folder":     {v1.StorageLimit{Account: "nlp", Limit: "1G"}, codes.Invalid, "has 4 folders"},
		"no such folder":   {v1.StorageLimit{Account: "nlp", Folder: "x", Limit: "1G"}, codes.NotFound, "x"},
		"where none holds": {v1.StorageLimit{Account: "nlp", Folder: "old", Limit: "1G"}, codes.Conflict, "no quotas"},
		"one that is gone": {v1.StorageLimit{Account: "nlp", Folder: "gone", Limit: "1G"}, codes.Conflict, "isn't there"},
	} {
		if _, err := olga.SetStorage(t.Context(), tt.in); v1.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
