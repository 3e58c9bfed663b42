package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// plurals are what kinds of objects are called in URLs.
var plurals = map[string]string{
	"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings", "ClusterRole": "clusterroles",
	"ClusterRoleBinding": "clusterrolebindings", "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings", "NetworkPolicy": "networkpolicies", "ConfigMap": "configmaps",
	"Service": "services", "StatefulSet": "statefulsets", "PersistentVolume": "persistentvolumes", "PersistentVolumeClaim": "persistentvolumeclaims",
}

// Apply makes the objects of files as kubectl apply --server-side does.
func (c *Cluster) Apply(ctx context.Context, files ...string) error {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			if err := c.apply(ctx, doc); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

func (c *Cluster) apply(ctx context.Context, doc string) error {
	field := func(pattern string) string {
		if m := regexp.MustCompile(`(?m)^` + pattern + `: (\S+)$`).FindStringSubmatch(doc); m != nil {
			return m[1]
		}
		return ""
	}
	kind, version, name, namespace := field("kind"), field("apiVersion"), field("  name"), field("  namespace")
	if plurals[kind] == "" || name == "" {
		return fmt.Errorf("can't tell what this is: %s", doc)
	}
	path := "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	_, err := c.do(ctx, http.MethodPatch, path+"/"+plurals[kind]+"/"+name+"?fieldManager=test&force=true", "application/apply-patch+yaml", doc)
	return err
}

// do asks the API server as an administrator.
func (c *Cluster) do(ctx context.Context, method, path, form, body string) ([]byte, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:"+c.port+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", form)
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	return text, err
}

// KubeconfigFor writes how a service account reaches the API server, and returns the path.
func (c *Cluster) KubeconfigFor(ctx context.Context, namespace, account string) (string, error) {
	text, err := c.do(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", "application/json",
		`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}`)
	if err != nil {
		return "", err
	}
	var answer struct{ Status struct{ Token string } }
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", err
	}
	path := c.kubeconfigOf(namespace + "-" + account)
	return path, os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:%s", certificate-authority: %s}}]
users: [{name: me, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: me}}]
current-context: test
`, c.port, c.ca.crt("ca"), answer.Status.Token), 0o600)
}
