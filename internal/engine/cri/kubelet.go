package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// refuseKubelet returns an error if a kubelet uses the same runtime. A kubelet
// removes pods that aren't its own within seconds.
func (e *Engine) refuseKubelet(ctx context.Context) error {
	sandboxes, err := e.rt.sandboxes(ctx, nil)
	if err != nil {
		return err
	}
	for _, s := range sandboxes {
		// The source of a pod's specification is written by kubelets only.
		if s.GetLabels()["io.kubernetes.pod.uid"] != "" && s.GetAnnotations()["kubernetes.io/config.source"] != "" {
			return kubeletError(e.cfg.Endpoint, "it runs the pod "+s.GetMetadata().GetNamespace()+"/"+s.GetMetadata().GetName())
		}
	}
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range comms {
		text, err := os.ReadFile(comm)
		if err != nil || strings.TrimSpace(string(text)) != "kubelet" {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(filepath.Dir(comm), "cmdline"))
		if err != nil {
			continue
		}
		if sameFile(kubeletEndpoint(string(cmdline), os.ReadFile), e.cfg.Endpoint) {
			return kubeletError(e.cfg.Endpoint, "process "+filepath.Base(filepath.Dir(comm)))
		}
	}
	return nil
}

func kubeletError(endpoint, evidence string) error {
	return fmt.Errorf("cri: a kubelet uses %s (%s) and would remove Croft's containers: "+
		"leave the endpoint out to use Croft's own runtime, or use the kube engine", endpoint, evidence)
}

// defaultKubeletEndpoint is where a kubelet without configuration connects to.
const defaultKubeletEndpoint = "unix:///run/containerd/containerd.sock"

var kubeletConfigEndpoint = regexp.MustCompile(`(?m)^\s*"?containerRuntimeEndpoint"?:\s*"?([^"\s,#]+)`)

// kubeletEndpoint returns the runtime's endpoint from a kubelet's command line
// (arguments ended by NUL) or from the configuration file that it names.
func kubeletEndpoint(cmdline string, readFile func(string) ([]byte, error)) string {
	args := strings.Split(strings.TrimSuffix(cmdline, "\x00"), "\x00")
	if v := flagValue(args, "--container-runtime-endpoint"); v != "" {
		return v
	}
	if file := flagValue(args, "--config"); file != "" {
		if text, err := readFile(file); err == nil {
			if m := kubeletConfigEndpoint.FindSubmatch(text); m != nil {
				return string(m[1])
			}
		}
	}
	return defaultKubeletEndpoint
}

// flagValue finds "--flag value" or "--flag=value".
func flagValue(args []string, flag string) string {
	for i, arg := range args {
		if v, ok := strings.CutPrefix(arg, flag+"="); ok {
			return v
		}
		if arg == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// sameFile reports whether two endpoints are one socket, links followed.
func sameFile(a, b string) bool {
	a, b = strings.TrimPrefix(a, "unix://"), strings.TrimPrefix(b, "unix://")
	if a == b {
		return true
	}
	sa, err1 := os.Stat(a)
	sb, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(sa, sb)
}
