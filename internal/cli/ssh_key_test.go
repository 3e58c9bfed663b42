package cli

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
)

// TestSSHKey: which key is read and which one is meant.
func TestSSHKey(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"id.pub": "ssh-ed25519 AAAA ada@laptop\n", "id": "-----BEGIN OPENSSH PRIVATE KEY-----\ns3cret\n-----END OPENSSH PRIVATE KEY-----\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		line, stdin string
		with        map[string]any
	}{
		"add":        {line: "croft ssh-key add DIR/id.pub"},
		"add-stdin":  {line: "croft ssh-key add --name agent --expires 2027-01-01 -", stdin: "ssh-ed25519 BBBB\n"},
		"private":    {line: "croft ssh-key add DIR/id"},
		"missing":    {line: "croft ssh-key add DIR/none"},
		"refused":    {line: "croft ssh-key add DIR/id.pub", with: map[string]any{"POST /v1/users/ada/ssh-keys": &v1.Problem{Status: 422, Code: "invalid", Fields: []v1.Field{{Path: "key", Message: "has options before the key, which mean nothing here: leave them out"}}}}},
		"ls":         {line: "croft ssh-key ls"},
		"ls-none":    {line: "croft ssh-key ls", with: map[string]any{"GET /v1/users/ada/ssh-keys": page[v1.SSHKey]()}},
		"rm":         {line: "croft ssh-key rm ada@laptop"},
		"rm-print":   {line: "croft ssh-key rm SHA256:a/b+c"},
		"rm-unknown": {line: "croft ssh-key rm zoe"},
		"rm-two":     {line: "croft ssh-key rm twin"},
	}
	used := map[string]bool{}
	for name, test := range tests {
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			key := v1.SSHKey{Fingerprint: "SHA256:a/b+c", Name: "ada@laptop", Type: "ssh-ed25519", Created: *at(14, 0)}
			twin := v1.SSHKey{Fingerprint: "SHA256:d", Name: "twin", Type: "ssh-rsa", Created: *at(14, 0), Expires: at(18, 0)}
			other := twin
			other.Fingerprint = "SHA256:e"
			gone := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			f := &fake{answers: map[string]any{
				"GET /v1/me": me, "POST /v1/users/ada/ssh-keys": key, "GET /v1/users/ada/ssh-keys": page(key, twin, other),
				"DELETE /v1/users/ada/ssh-keys/SHA256:a/b+c": gone,
			}}
			maps.Copy(f.answers, test.with)
			b := newBench(t, f)
			b.app.env.Stdin = strings.NewReader(test.stdin)
			words := strings.Split(strings.ReplaceAll(test.line, "DIR", dir), " ")
			code := b.runAs(words[0], words[1:]...)
			text := strings.Replace(transcript(test.line, b, code, f.requests()), "$ croft ", "$ ", 1)
			golden(t, "ssh-key/"+name, strings.ReplaceAll(text, dir, "DIR"))
			if strings.Contains(text, "s3cret") {
				t.Error("the private key is sent or printed")
			}
		})
	}
	noOrphans(t, "testdata/ssh-key", used)
}
