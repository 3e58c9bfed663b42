package kube

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
)

// waitOf is what keeps a Pod's first program from beginning, as far as the cluster says so.
func waitOf(p *corev1.Pod, in around) engine.Wait {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		if c.Reason == corev1.PodReasonSchedulingGated {
			return engine.Wait{For: engine.WaitForQueue, Message: "a queue of the cluster hasn't let it in yet"}
		}
		node, _ := in.node(chosen(p))
		return engine.Wait{For: engine.WaitForPlace, Message: unplaced(c.Message, chosen(p), node)}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError":
			return engine.Wait{For: engine.WaitForImage, Message: "the node can't get the image: " + pullWords(w.Message)}
		case "CreateContainerError", "RunContainerError", "CreatePodSandboxError", "CreateContainerConfigError":
			return engine.Wait{For: engine.WaitForPlace, Message: "the node can't make the container: " + oneLine(w.Message)}
		}
	}
	if claims := claimsOf(p); p.Spec.NodeName != "" && len(claims) > 0 && !has(p, corev1.PodReadyToStartContainers) {
		return engine.Wait{For: engine.WaitForPlace, Message: p.Spec.NodeName + " is to mount " + strings.Join(claims, ", ")}
	}
	return engine.Wait{}
}

// claimsOf are the PersistentVolumeClaims that a Pod has something of.
func claimsOf(p *corev1.Pod) []string {
	var out []string
	for _, v := range p.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil {
			out = append(out, "the claim "+c.ClaimName)
		}
	}
	return out
}

func has(p *corev1.Pod, t corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}

// cause is why some nodes don't take a Pod.
type cause struct {
	nodes int
	text  string // as the scheduler words it
}

var (
	available = regexp.MustCompile(`^(\d+)/(\d+) nodes are available: ?`)
	nextCause = regexp.MustCompile(`, \d+ `)
	labelled  = regexp.MustCompile(`\{([^{}]*)\}`)
)

// parseUnschedulable reads what the scheduler says of a Pod that it finds no node for: how
// many nodes there are, and how many are out for which cause. ok is false for what it
// doesn't word so.
func parseUnschedulable(text string) (nodes int, causes []cause, ok bool) {
	head := available.FindStringSubmatch(text)
	if head == nil {
		return 0, nil, false
	}
	nodes, err := strconv.Atoi(head[2])
	if err != nil {
		return 0, nil, false
	}
	text = text[len(head[0]):]
	// What follows says what else was tried: to make room, or to free devices.
	for _, more := range []string{" preemption: ", " pod group preemption: ", " no new claims to deallocate"} {
		text, _, _ = strings.Cut(text, more)
	}
	text = strings.TrimRight(text, ". ,")
	for text != "" {
		one := text
		if at := nextCause.FindStringIndex(text); at != nil {
			one, text = text[:at[0]], text[at[0]+2:]
		} else {
			text = ""
		}
		count, words, counted := strings.Cut(one, " ")
		n, err := strconv.Atoi(count)
		if !counted || err != nil {
			n, words = nodes, one // it concerns all of them
		}
		if words = oneLine(words); words != "" {
			causes = append(causes, cause{n, words})
		}
	}
	return nodes, causes, true
}

// elsewheres is how the scheduler says of nodes that a Pod is to be on another one.
var elsewheres = []string{"node affinity/selector", "didn't satisfy plugin(s) [NodeAffinity]"}

// unplaced words why no node takes a Pod. It is to run on a node that Croft has chosen, which
// may be gone; that the others aren't that one goes without saying.
func unplaced(text, name string, node *corev1.Node) string {
	nodes, causes, ok := parseUnschedulable(text)
	if !ok {
		return "the cluster's scheduler: " + cmp.Or(oneLine(text), "it gives no reason")
	}
	elsewhere := 0
	var out []string
	for _, c := range causes {
		if name != "" && slices.ContainsFunc(elsewheres, func(words string) bool { return strings.Contains(c.text, words) }) {
			elsewhere += c.nodes
			continue
		}
		out = append(out, worded(c, name, node))
	}
	switch {
	case len(out) > 0:
		return strings.Join(out, "; ")
	case elsewhere >= nodes && name != "":
		return fmt.Sprintf("none of %d nodes is %s, or has the labels that its devices' model asks for", nodes, name)
	}
	return fmt.Sprintf("the cluster's scheduler finds none of %d nodes", nodes)
}

// worded is a cause in Croft's words. Where it is of one node alone, that is the chosen one.
func worded(c cause, name string, node *corev1.Node) string {
	who, has, is, runs := fmt.Sprintf("%d nodes", c.nodes), "have", "are", "run"
	if c.nodes == 1 {
		who, has, is, runs = cmp.Or(name, "1 node"), "has", "is", "runs"
	}
	label := labelled.FindStringSubmatch(c.text)
	claim, _, gone := strings.Cut(strings.TrimPrefix(c.text, "persistentvolumeclaim "), " not found")
	switch what, short := strings.CutPrefix(c.text, "Insufficient "); {
	case short:
		return fmt.Sprintf("%s %s too little %s left", who, has, resourceWords(what))
	case strings.Contains(c.text, "untolerated taint"):
		taints := "a taint that keeps jobs away"
		switch {
		case label != nil:
			taints = "the taint " + strings.TrimSuffix(strings.Replace(label[1], ": ", "=", 1), "=")
		case node != nil && c.nodes == 1 && len(repelling(node)) > 0:
			taints = "the taint " + strings.Join(repelling(node), ", ")
		}
		return fmt.Sprintf("%s %s %s", who, has, taints)
	case strings.Contains(c.text, "node affinity/selector"):
		return fmt.Sprintf("%s %s other labels than it asks for", who, has)
	case strings.Contains(c.text, "were unschedulable"):
		return fmt.Sprintf("%s %s cordoned", who, is)
	case c.text == "Too many pods":
		return fmt.Sprintf("%s %s as many Pods as it may", who, runs)
	case gone && strings.HasPrefix(c.text, "persistentvolumeclaim "):
		return "the claim " + claim + " isn't there"
	case strings.Contains(c.text, "unbound immediate PersistentVolumeClaims"):
		return "a claim that it mounts isn't bound to a volume"
	case strings.Contains(c.text, "volume node affinity"), strings.Contains(c.text, "available persistent volumes to bind"):
		return fmt.Sprintf("%s %s no way to the volume of a claim that it mounts", who, has)
	case strings.Contains(c.text, "cannot allocate all claims"):
		return fmt.Sprintf("%s %s not all devices that it claims", who, has)
	}
	return fmt.Sprintf("%s: %s", who, strings.TrimPrefix(c.text, "node(s) "))
}

func resourceWords(name string) string {
	switch name {
	case "cpu":
		return "CPU"
	case "memory", "pods", "ephemeral-storage":
		return strings.ReplaceAll(name, "-", " ")
	}
	return name
}

// mostWords bounds what is told of others' words.
const mostWords = 300

// oneLine is a text of the cluster on one line that isn't too long.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(text); len(r) > mostWords {
		text = string(r[:mostWords]) + "…"
	}
	return text
}

// refusedPull is why an image can never be had; empty while trying again may help.
func refusedPull(text string) string {
	words := strings.ToLower(text)
	has := func(any ...string) bool {
		return slices.ContainsFunc(any, func(s string) bool { return strings.Contains(words, s) })
	}
	switch {
	case has("401 unauthorized", "403 forbidden", "authorization failed", "insufficient_scope", "pull access denied", "access denied", "no basic auth"):
		return "the registry denies the image to the node, which pulls without users' logins: " + pullWords(text)
	case has("not found", "manifest unknown", "name unknown", "no match for platform"):
		return "there is no such image: " + pullWords(text)
	}
	return ""
}

// pullWords are the registry's own words, out of what the kubelet and the runtime have put
// around them.
func pullWords(text string) string {
	text = oneLine(text)
	for _, start := range []string{"desc = ", "ErrImagePull: "} {
		if i := strings.LastIndex(text, start); i >= 0 {
			text = text[i+len(start):]
		}
	}
	if rest, ok := strings.CutPrefix(text, "Back-off pulling image "); ok {
		if _, why, said := strings.Cut(rest, ": "); said {
			text = why
		} else {
			text = "it has tried several times"
		}
	}
	return cmp.Or(strings.TrimSpace(text), "no reason given")
}

// disruptions are why Pods are ended by the cluster itself.
var disruptions = map[string]string{
	corev1.PodReasonPreemptionByScheduler: "the cluster's scheduler gave its place to a Pod of higher priority",
	"PreemptionByKubeScheduler":           "the cluster's scheduler gave its place to a Pod of higher priority",
	"DeletionByTaintManager":              "its node was given a taint that ends what runs there",
	"EvictionByEvictionAPI":               "it was evicted from its node, as when that is drained",
	"DeletionByPodGC":                     "its node was taken out of the cluster",
	corev1.PodReasonTerminationByKubelet:  "its node ended it, being short of something or shutting down",
}

// takenAway says of a step that has ended if somebody else than Croft or its program is why,
// or that its job took more of its node than it may.
func takenAway(s engine.Status, p *corev1.Pod) engine.Status {
	if s.Phase != engine.PhaseExited || s.Failure != "" || s.OutOfMemory || s.ExitCode == 0 && !s.Lost {
		return s
	}
	if said := p.Status.Message; p.Status.Reason == evicted && ownFault(said) && !s.Finished.Before(lastEnd(p).Add(-slack)) {
		s.Lost, s.Failure = false, "its node ended it: "+oneLine(said)
		return s
	}
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue || !after(s, c.LastTransitionTime.Time) {
			continue
		}
		s.Taken = cmp.Or(disruptions[c.Reason], "the cluster ended it: "+c.Reason)
		if c.Reason == corev1.PodReasonTerminationByKubelet && p.Status.Message != "" {
			s.Taken = "its node ended it: " + oneLine(p.Status.Message)
		}
		return s
	}
	if p.DeletionTimestamp == nil {
		return s
	}
	grace := time.Duration(0)
	if g := p.DeletionGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	if after(s, p.DeletionTimestamp.Add(-grace)) {
		s.Taken = "its Pod was deleted in the cluster"
	}
	return s
}

// after reports whether a step ended by what was done to its Pod at a time: it was killed
// then or later, or ended otherwise well after it was told. What ended by itself and was
// cleared away within the same second did so.
func after(s engine.Status, at time.Time) bool {
	if s.Lost || s.ExitCode > 128 {
		return !s.Finished.Before(at.Add(-slack))
	}
	return s.Finished.Truncate(time.Second).After(at)
}

// slack is by how much the cluster's times, in whole seconds and of several machines, may
// differ.
const slack = 2 * time.Second

// evicted is the reason of a Pod that its node's kubelet has ended.
const evicted = "Evicted"

// ownFault reports whether a Pod was evicted for what it took itself: of disk or memory beyond
// its own bounds, or of processes, where the kubelet begins with who has the most.
func ownFault(message string) bool {
	for _, words := range []string{
		"exceeds the limit", "exceeds the total limit", "exceeded its local ephemeral storage limit", "ephemeral local storage usage exceeds", "low on resource: pids",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// lastEnd is when the last of a Pod's containers ended that is known to have.
func lastEnd(p *corev1.Pod) (end time.Time) {
	for _, c := range slices.Concat(p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	return end
}

// given are the devices that a Pod has, by the names that the cluster has for them: what the
// kubelet has put into its containers, and what its claim was given.
func (e *Engine) given(p *corev1.Pod) string {
	if p.Annotations[annotationDevices] == "" {
		return ""
	}
	var out []string
	for _, c := range p.Status.ContainerStatuses {
		for _, r := range c.AllocatedResourcesStatus {
			if strings.HasPrefix(string(r.Name), "claim:") {
				continue // the claim says it better
			}
			for _, d := range r.Resources {
				out = append(out, string(r.Name)+"="+string(d.ResourceID))
			}
		}
	}
	if len(p.Spec.ResourceClaims) > 0 {
		out = append(out, e.claimedBy(p)...)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}
