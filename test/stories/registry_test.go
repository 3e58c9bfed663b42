package stories

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"croft.dev/croft/test/site"
)

// Who is let in to the private registry of the stories.
const (
	hubUser     = "hubber"
	hubPassword = "s3cret-of-the-hub"
)

// hub is a registry that lets everybody have open/greet:1, and wants a password for
// team/greet:1 and for all else. Both are the tiny image with an entry point that greets.
func hub(t *testing.T, s *site.Site) (host string) {
	t.Helper()
	blobs := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		if open := r.Method != http.MethodPut && strings.HasPrefix(r.URL.Path, "/v2/open/"); !open && (user != hubUser || pass != hubPassword) {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		blobs.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	for _, image := range []string{"open/greet:1", "team/greet:1"} {
		ref, err := name.ParseReference(host + "/" + image)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, greeting(t, s), remote.WithAuth(&authn.Basic{Username: hubUser, Password: hubPassword})); err != nil {
			t.Fatal(err)
		}
	}
	return host
}

// greeting is the tiny image with an entry point and a command.
func greeting(t *testing.T, s *site.Site) v1.Image {
	t.Helper()
	img, err := mutate.Config(archived(t, filepath.Join(s.Images(), "tiny.tar")), v1.Config{Entrypoint: []string{"/bin/echo", "hello,"}, Cmd: []string{"world"}, Env: []string{"PATH=/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}
