package admission_test

import (
	"fmt"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// twoModels is a lab whose node has two a100 and two h100, which cost twice as much.
func twoModels(t *testing.T) *lab {
	l := newLab(t, "enforce", 1000*money.Credit)
	inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 * gib, Ready: true}}}
	for i, model := range []string{"a100", "a100", "h100", "h100"} {
		inv.Devices = append(inv.Devices, placement.Device{UUID: fmt.Sprintf("SIM-%d", i), Node: "gpu1", Index: i, Name: fmt.Sprintf("gpu%d", i), Model: model, Healthy: true})
	}
	l.must(t, inv)
	l.must(t, command.PricePut{Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(money.Credit)}, {Model: "h100", Rate: 2 * money.Rate(money.Credit)}}})
	return l
}

// A job that leaves its model open is priced by the dearest that it may get, and
// gets one that its limits have room for.
func TestAnyOfModels(t *testing.T) {
	tests := map[string]struct {
		limits  map[string]int64 // of devices, by model
		model   string
		gpu     int64
		deposit string
		refused codes.Reason
		got     string
	}{
		"no limits":                      {nil, "a100|h100", 1, "2.000", "", "a100"},
		"no model named":                 {nil, "", 1, "2.000", "", "a100"},
		"the dear one isn't allowed":     {map[string]int64{"h100": 0}, "a100|h100", 1, "1.000", "", "a100"},
		"the cheap one isn't allowed":    {map[string]int64{"a100": 1}, "a100|h100", 2, "4.000", "", "h100"},
		"nor where none is named":        {map[string]int64{"a100": 0}, "", 1, "2.000", "", "h100"},
		"none is allowed":                {map[string]int64{"a100": 1, "h100": 1}, "a100|h100", 2, "0.000", codes.LimitDevices, ""},
		"only one of the named is there": {nil, "a100|t4", 1, "1.000", "", "a100"},
		"never of two models together":   {nil, "a100|h100", 3, "0.000", codes.DevicesNeverFit, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := twoModels(t)
			for model, most := range tt.limits {
				l.must(t, command.LimitPut{Account: "nlp", Resource: limits.Devices(model), Max: most * 1000})
			}
			spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "train:1", GPU: tt.gpu * 1000, Model: tt.model, CPU: 1000, Mem: gib, Time: hour, Pull: "missing"}
			out := l.submit(t, spec)
			if tt.refused != "" {
				if out.Fault == nil || out.Fault.Reasons[0].Code != tt.refused {
					t.Fatalf("%+v, want %s", out.Fault, tt.refused)
				}
				return
			}
			j := out.Result.(admission.Accepted).Job
			if j.Deposit.String() != tt.deposit {
				t.Errorf("deposit %s, want %s", j.Deposit, tt.deposit)
			}
			v, r := l.w.View(l.now), admission.Request{Spec: j.Spec, Gate: admission.Start, Job: j}
			r.Subject = v.SubjectOf(j)
			got, err := admission.Decide(v, r)
			if err != nil || !got.Admit {
				t.Fatalf("%+v %v", got.Reasons, err)
			}
			if models := got.Spot.Models(); len(models) != 1 || models[0].Model != tt.got || models[0].Count != tt.gpu*1000 {
				t.Errorf("%v, want %s", models, tt.got)
			}
			if want := v.Models(j); !catalog.Allows(want, tt.got) {
				t.Errorf("the planner would look for %q", want)
			}
		})
	}
}
