package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
)

// Annotations of a sandbox, which say how its containers are to be made, also by a server
// that knows its job by another configuration.
const (
	annotationUserns = "croft.userns"
	annotationNote   = "croft.note" // what the user is to be told about it
)

// usernsIDs is the least that a namespace must have: programs expect nobody to be 65534.
const usernsIDs = 65536

// rootCapabilities are what root has in a user namespace, over what belongs to that alone.
// They suffice for packages to be installed and for identities to be changed. Raw packets
// aren't among them: jobs share a bridge.
var rootCapabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// noImages says that images, which a namespace shows as its own root's, can't be shown so.
const noImages = "the container runtime's images are on a file system without idmapped mounts"

// noUserns says why containers can't have a user namespace here; empty if they can. images
// is where the runtime keeps images, empty if it doesn't say.
func noUserns(features *runtimeapi.RuntimeHandlerFeatures, images string) string {
	if !features.GetUserNamespaces() {
		return "the container runtime has no user namespaces"
	}
	ns, err := bind.Namespace(bind.IDs{}, bind.IDs{UID: 1, GID: 1}, bind.Range{})
	if err != nil {
		return "this machine's kernel allows no user namespaces"
	}
	defer ns.Close()
	if images != "" && errors.Is(bind.TryIDMap(images), bind.ErrNoIDMap) {
		return noImages
	}
	return ""
}

// outside are the ids that a namespace's own user has on the machine.
func outside(ns *engine.Userns) bind.IDs {
	return bind.IDs{UID: ns.First + ns.UID, GID: ns.First + ns.GID}
}

// options are a namespace as the runtime wants it; nil: none.
func options(ns *engine.Userns) *runtimeapi.UserNamespace {
	if ns == nil {
		return nil
	}
	ids := []*runtimeapi.IDMapping{{HostId: uint32(ns.First), ContainerId: 0, Length: uint32(ns.Size)}}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}
}

// annotationsOf are a sandbox's.
func annotationsOf(ns *engine.Userns, note string) map[string]string {
	out := map[string]string{}
	if ns != nil {
		out[annotationUserns] = fmt.Sprintf("%d:%d:%d:%d", ns.First, ns.Size, ns.UID, ns.GID)
	}
	if note != "" {
		out[annotationNote] = note
	}
	return out
}

// usernsOf reads back what a sandbox was made with.
func usernsOf(annotations map[string]string) (*engine.Userns, string, error) {
	text := annotations[annotationUserns]
	if text == "" {
		return nil, annotations[annotationNote], nil
	}
	var ns engine.Userns
	if _, err := fmt.Sscanf(text, "%d:%d:%d:%d", &ns.First, &ns.Size, &ns.UID, &ns.GID); err != nil {
		return nil, "", fmt.Errorf("cri: annotation %s %q: %w", annotationUserns, text, err)
	}
	return &ns, annotations[annotationNote], nil
}

// checkUserns refuses a namespace that can't be what is meant.
func checkUserns(ns *engine.Userns) error {
	switch {
	case ns == nil || ns.Lack != "":
		return nil
	case ns.First <= 0 || ns.Size < usernsIDs || ns.First+ns.Size > 1<<32-1:
		return &engine.StartError{Message: fmt.Sprintf("the %d ids from %d on are no range for a user namespace", ns.Size, ns.First)}
	case ns.UID < 0 || ns.GID < 0 || ns.UID >= ns.Size || ns.GID >= ns.Size:
		return &engine.StartError{Message: fmt.Sprintf("there is no user %d:%d in a container: ids go up to %d", ns.UID, ns.GID, ns.Size-1)}
	}
	return nil
}

// settle decides how an attempt's containers are made, and changes a and its primary's
// mounts accordingly: as its sandbox was, or else with a user namespace if a asks for one
// and can have it. note is for the user, who didn't get what he may expect.
func (e *Engine) settle(ctx context.Context, a *engine.Allocation, ts *trees, sandbox *runtimeapi.PodSandbox) (note string, err error) {
	if sandbox != nil {
		return e.join(a, *ts, sandbox)
	}
	if err := checkUserns(a.Userns); a.Userns == nil || err != nil {
		return "", err
	}
	lack := cmp.Or(a.Userns.Lack, e.facts.NoUserns)
	if a.Pod.HostNetwork && !e.facts.UsernsOnHost {
		lack = cmp.Or(lack, "the container runtime has no user namespaces on the machine's network")
	}
	if e.noIDMap.Load() {
		lack = cmp.Or(lack, noImages)
	}
	if !a.Userns.Required {
		lack = cmp.Or(lack, ts.byGroup(a.User))
	}
	if lack == "" {
		lack, err = ts.remap(a.User, a.Userns)
	}
	switch {
	case err != nil || lack == "":
		return "", err
	case a.Userns.Required:
		return "", &engine.StartError{Message: "no fake root: " + lack}
	}
	a.Userns = nil
	ts.close() // some may have other ids already
	*ts, err = e.openMounts(ctx, *a, a.Mounts)
	return "no fake root, the job runs as " + a.User.Name + ": " + lack, err
}

// likelyMounts are what containers will most likely mount that are added to a program on
// the machine: whether there is to be a user namespace is settled before they come.
func (e *Engine) likelyMounts(ctx context.Context, a engine.Allocation) (ts trees) {
	if a.Userns == nil {
		return nil
	}
	for _, dir := range []string{a.User.Home, a.Workdir} {
		t, err := e.openMount(ctx, a, engine.Mount{Source: dir, Within: []string{dir}})
		if err == nil { // else no step mounts it either
			ts = append(ts, t)
		}
	}
	return ts
}

// join makes a and a step's mounts fit the sandbox that is there.
func (e *Engine) join(a *engine.Allocation, ts trees, sandbox *runtimeapi.PodSandbox) (note string, err error) {
	a.Userns, note, err = usernsOf(sandbox.GetAnnotations())
	if err != nil || a.Userns == nil {
		return note, err
	}
	lack, err := ts.remap(a.User, a.Userns)
	if err == nil && lack != "" {
		err = &engine.StartError{Message: lack + ": no step of a job with fake root can mount it"}
	}
	return note, err
}

// remap shows a step's mounts with the ids of a namespace. It says which of them can't be.
func (ts trees) remap(u engine.User, ns *engine.Userns) (lack string, err error) {
	if !slices.ContainsFunc(ts, func(t tree) bool { return !t.site && t.Tree != nil }) {
		return "", nil
	}
	as, err := bind.Namespace(bind.IDs{UID: u.UID, GID: u.GID}, outside(ns), bind.Range{First: ns.First, Size: ns.Size})
	if err != nil {
		return "", &engine.UnavailableError{Cause: err}
	}
	defer as.Close()
	for i := range ts {
		t := &ts[i]
		if t.site || t.Tree == nil {
			continue // it is for everybody to read, or isn't there
		}
		if t.own {
			if err := t.Chown(outside(ns)); err != nil {
				return "", mountError(u, t.source, err)
			}
			continue
		}
		switch err := t.Map(as); {
		case errors.Is(err, bind.ErrNoIDMap) && t.optional != "":
			t.drop("it is on a file system without idmapped mounts, which fake root needs: run without for it")
		case errors.Is(err, bind.ErrNoIDMap):
			return t.source + " is on a file system without idmapped mounts", nil
		case err != nil:
			return "", mountError(u, t.source, err)
		}
	}
	return "", nil
}

// byGroup names a mount that is the user's by a supplementary group, which he hasn't in a
// user namespace.
func (ts trees) byGroup(u engine.User) string {
	for _, t := range ts {
		if t.group != 0 && t.optional == "" {
			return t.source + " is open to " + u.Name + " by the group " + u.GroupName(t.group) + " only"
		}
	}
	return ""
}

// refusesIDMap reports whether a runtime's error says that it has no place for images
// which could be shown with other ids.
func refusesIDMap(err error) bool {
	return err != nil && strings.Contains(err.Error(), "doesn't support idmap mounts")
}
