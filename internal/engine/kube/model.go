package kube

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/cel"

	"croft.dev/croft/internal/engine/product"
)

// Model is how an accelerator is found and asked for: by a Resource that nodes count, or as
// devices that drivers name one by one (DRA), by a Class and Selectors.
type Model struct {
	Name     string            // of the catalogue: "a100-80g"
	Resource string            // what Pods ask for: "nvidia.com/gpu"
	Labels   map[string]string // of nodes whose Resource is of this model; empty: of all
	Class    string            // the DeviceClass that claims ask for
	// Selectors are CEL expressions, all of which the devices of the class meet that are
	// of this model. With none all devices that the class selects are.
	Selectors []string
	Memory    int64 // of one, in bytes; 0 if it isn't known or said by the node
}

// catalogue says of which model accelerators are: the first that fits of those that are
// configured, and else what their makers' own labels and attributes say.
type catalogue struct {
	models []Model
	cel    *cel.Cache
}

// modelName is what the catalogue's names may be.
var modelName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// checkModels is what is wrong with models, of which each names its field. It compiles
// their selectors.
func checkModels(models []Model) error {
	var errs []error
	for i, m := range models {
		fault := func(field, format string, args ...any) {
			errs = append(errs, fmt.Errorf("models[%d].%s: %s", i, field, fmt.Sprintf(format, args...)))
		}
		if !modelName.MatchString(m.Name) {
			fault("name", "%q: must be lower-case letters, digits, '.', '_' and '-'", m.Name)
		}
		switch {
		case (m.Resource == "") == (m.Class == ""):
			fault("resource", "say either resource (of a device plugin) or class (of a DRA driver)")
		case m.Resource != "" && (len(validation.IsQualifiedName(m.Resource)) > 0 || !strings.Contains(m.Resource, "/")):
			fault("resource", "%q: must be as nvidia.com/gpu", m.Resource)
		case m.Class != "" && len(validation.IsDNS1123Subdomain(m.Class)) > 0:
			fault("class", "%q: must be the name of a DeviceClass", m.Class)
		case m.Resource != "" && len(m.Selectors) > 0:
			fault("selectors", "they are for a class, and labels for a resource")
		case m.Class != "" && len(m.Labels) > 0:
			fault("labels", "they are for a resource, and selectors for a class")
		}
		if _, err := labels.ValidatedSelectorFromSet(m.Labels); err != nil {
			fault("labels", "%v", err)
		}
		if m.Memory < 0 {
			fault("memory", "must be 0 or more")
		}
		for k, text := range m.Selectors {
			if r := compiler().CompileCELExpression(text, cel.Options{}); r.Error != nil {
				fault(fmt.Sprintf("selectors[%d]", k), "%v", r.Error)
			}
		}
	}
	return errors.Join(errs...)
}

func compiler() interface {
	CompileCELExpression(string, cel.Options) cel.CompilationResult
} {
	return cel.GetCompiler(cel.Features{})
}

func newCatalogue(models []Model) (catalogue, error) {
	return catalogue{models: models, cel: cel.NewCache(100, cel.Features{})}, checkModels(models)
}

// counted is of which model a node's accelerators of a resource are, which it only counts.
// Of resources that aren't accelerators ok is false.
func (c catalogue) counted(n *corev1.Node, name corev1.ResourceName) (m Model, ok bool) {
	for _, m := range c.models {
		if m.Resource == string(name) && labels.SelectorFromSet(m.Labels).Matches(labels.Set(n.Labels)) {
			return m, true
		}
	}
	switch {
	case strings.HasPrefix(string(name), "nvidia.com/"):
		return nvidia(n, string(name))
	case strings.HasPrefix(string(name), "huawei.com/Ascend"):
		return ascend(n, string(name)), true
	}
	return Model{}, false
}

// nvidia reads the labels of NVIDIA's GPU feature discovery. By MIG's strategy "single" an
// instance is a nvidia.com/gpu, whose product says what it is; by "mixed" each profile is a
// resource of its own.
func nvidia(n *corev1.Node, name string) (Model, bool) {
	kind := strings.TrimPrefix(name, "nvidia.com/")
	profile, mig := strings.CutPrefix(kind, "mig-")
	if kind != "gpu" && !mig {
		return Model{}, false
	}
	m := Model{Resource: name}
	if q, err := resource.ParseQuantity(n.Labels[name+".memory"] + "Mi"); err == nil {
		m.Memory = q.Value()
	}
	whole, part, cut := strings.Cut(n.Labels[name+".product"], "-MIG-")
	if !cut && mig {
		part = profile
		if whole == "" {
			whole = n.Labels["nvidia.com/gpu.product"]
		}
	}
	whole, shared := strings.CutSuffix(whole, "-SHARED") // several have one at a time
	part, sharedPart := strings.CutSuffix(part, "-SHARED")
	m.Name = product.Model(whole)
	if part != "" {
		m.Name = product.Part(m.Name, part)
	}
	if shared || sharedPart {
		m.Name += "-shared"
		m.Memory = 0 // it is all of theirs together
	}
	return m, true
}

// ascend reads the labels of Huawei's device plugin. A part of a chip is a resource of its
// own: huawei.com/Ascend910-4c.
func ascend(n *corev1.Node, name string) Model {
	kind, part, cut := strings.Cut(strings.TrimPrefix(name, "huawei.com/"), "-")
	if chip := n.Labels["node.kubernetes.io/npu.chip.name"]; chip != "" {
		kind = chip
	}
	m := Model{Resource: name, Name: "ascend-" + strings.TrimPrefix(strings.ToLower(kind), "ascend")}
	if cut {
		m.Name = product.Part(m.Name, part)
	}
	return m
}

// named is of which model a device is that its driver names. A driver's devices that no
// class of the catalogue has are no accelerators.
func (c catalogue) named(ctx context.Context, driver string, d *resourcev1.Device, classes map[string]*resourcev1.DeviceClass) (m Model, ok bool) {
	input := cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity}
	for _, m := range c.models {
		class := classes[m.Class]
		if class == nil || !c.meets(ctx, input, class.Spec.Selectors) {
			continue
		}
		if c.meets(ctx, input, selectors(m.Selectors)) {
			return m, true
		}
	}
	if driver != "gpu.nvidia.com" {
		return Model{}, false
	}
	return nvidiaDevice(d)
}

// nvidiaDevice reads the attributes of NVIDIA's DRA driver.
func nvidiaDevice(d *resourcev1.Device) (Model, bool) {
	text := func(name resourcev1.QualifiedName) string {
		if v := d.Attributes[name].StringValue; v != nil {
			return *v
		}
		return ""
	}
	m := Model{Name: product.Model(text("productName"))}
	if c, ok := d.Capacity["memory"]; ok {
		m.Memory = c.Value.Value()
	}
	switch text("type") {
	case "gpu":
		m.Class = "gpu.nvidia.com"
	case "mig":
		m.Class, m.Name = "mig.nvidia.com", product.Part(m.Name, text("profile"))
	default:
		return Model{}, false // it isn't known what else there is
	}
	return m, true
}

func selectors(texts []string) []resourcev1.DeviceSelector {
	var out []resourcev1.DeviceSelector
	for _, text := range texts {
		out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: text}})
	}
	return out
}

// meets reports whether a device meets all selectors. One that can't be told does not: the
// cluster doesn't give it away either.
func (c catalogue) meets(ctx context.Context, d cel.Device, all []resourcev1.DeviceSelector) bool {
	for _, s := range all {
		if s.CEL == nil {
			return false
		}
		r := c.cel.GetOrCompile(s.CEL.Expression)
		if r.Error != nil {
			return false
		}
		if ok, _, err := r.DeviceMatches(ctx, d); err != nil || !ok {
			return false
		}
	}
	return true
}
