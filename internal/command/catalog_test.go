package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/world"
)

// What is wrong with a QoS or a partition is told by code and field, and changes
// nothing.
func TestBadCatalog(t *testing.T) {
	list := func(s ...string) *[]string { return &s }
	tests := map[string]struct {
		cmd   world.Command
		code  codes.Code
		field string
	}{
		"a QoS twice":                    {command.QoSPut{Create: true, Name: "normal"}, codes.Exists, ""},
		"a name in capitals":             {command.QoSPut{Create: true, Name: "Urgent"}, codes.Invalid, "name"},
		"no such QoS":                    {command.QoSPut{Name: "none"}, codes.NotFound, ""},
		"what the configuration says":    {command.QoSPut{Name: "normal", Priority: num(5)}, codes.Conflict, ""},
		"a priority beyond all":          {command.QoSPut{Name: "high", Priority: num(1e9)}, codes.Invalid, "priority"},
		"a factor below nothing":         {command.QoSPut{Name: "high", Factor: num(-1)}, codes.Invalid, "factor"},
		"a default above the longest":    {command.QoSPut{Name: "high", MaxWall: num(hour), DefWall: num(2 * hour)}, codes.Invalid, "default_time"},
		"a grace above the site's":       {command.QoSPut{Name: "high", MaxGrace: num(2 * hour)}, codes.Invalid, "max_grace"},
		"a negative time":                {command.QoSPut{Name: "high", Contract: command.ContractChange{MinRun: num(-1)}}, codes.Invalid, "min_run"},
		"no such signal":                 {command.QoSPut{Name: "high", Contract: command.ContractChange{Signal: text("KILL")}}, codes.Invalid, "preempt_signal"},
		"no such account":                {command.QoSPut{Name: "high", Accounts: list("nobody")}, codes.Invalid, "accounts"},
		"no such partition":              {command.QoSPut{Name: "high", Partitions: list("none")}, codes.Invalid, "partitions"},
		"preempting nothing known":       {command.QoSPut{Name: "high", Preempts: list("none")}, codes.Invalid, "preempts"},
		"preempting itself":              {command.QoSPut{Name: "high", Preempts: list("high")}, codes.Invalid, "preempts"},
		"preempting back":                {command.QoSPut{Name: "normal", Preempts: list("high")}, codes.Invalid, "preempts"},
		"falling below whom it preempts": {command.QoSPut{Name: "high", Priority: num(0)}, codes.Invalid, "preempts"},
		"removing what is preempted":     {command.QoSRemove{Name: "low"}, codes.Conflict, ""},
		"removing what is configured":    {command.QoSRemove{Name: "normal"}, codes.Conflict, ""},
		"removing what isn't there":      {command.QoSRemove{Name: "none"}, codes.NotFound, ""},
		"a partition twice":              {command.PartitionPut{Create: true, Name: "main"}, codes.Exists, ""},
		"nodes of the configuration":     {command.PartitionPut{Name: "main", Nodes: list("gpu1")}, codes.Conflict, ""},
		"no such node":                   {command.PartitionPut{Name: "spare", Nodes: list("gpu9")}, codes.Invalid, "nodes"},
		"no such QoS for a partition":    {command.PartitionPut{Name: "spare", QoS: list("none")}, codes.Invalid, "qos"},
		"removing the default partition": {command.PartitionRemove{Name: "main"}, codes.Conflict, ""},
		"removing no partition":          {command.PartitionRemove{Name: "none"}, codes.NotFound, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			root := s.user("root")
			s.must(t, root, command.QoSPut{Create: true, Name: "low", Priority: num(-5)})
			s.must(t, root, command.QoSPut{Create: true, Name: "high", Priority: num(10), Preempts: list("normal", "low")})
			s.must(t, root, command.PartitionPut{Create: true, Name: "spare"})
			before := s.w
			_, err := s.do(root, tt.cmd)
			if fault.Of(err) != tt.code {
				t.Fatalf("%v (%s), want %s", err, fault.Of(err), tt.code)
			}
			if f, ok := err.(*fault.Error); ok && tt.field != "" && (len(f.Fields) == 0 || f.Fields[0].Path != tt.field) {
				t.Errorf("fields %v, want %s", f.Fields, tt.field)
			}
			if s.w != before {
				t.Error("something changed")
			}
		})
	}
}

// What a job uses can't be removed, and who uses it is said; afterwards it can.
func TestRemoveInUse(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.QoSPut{Create: true, Name: "fast"})
	s.must(t, root, command.PartitionPut{Create: true, Name: "spare"})
	s.must(t, root, command.LimitPut{Account: "nlp", Partition: "spare", Resource: "cpu", Max: 1_000_000})
	spec := example()
	spec.QoS, spec.Partition = "fast", "spare"
	s.must(t, s.user("ada"), command.Submit{Spec: spec})
	for _, cmd := range []world.Command{command.QoSRemove{Name: "fast"}, command.PartitionRemove{Name: "spare"}} {
		if _, err := s.do(root, cmd); err == nil || !strings.Contains(err.Error(), "job 1 has it") {
			t.Errorf("%s: %v", cmd.Kind(), err)
		}
	}
	s.must(t, s.user("ada"), command.JobStop{Job: 1})
	s.must(t, root, command.QoSRemove{Name: "fast"})
	if _, err := s.do(root, command.PartitionRemove{Name: "spare"}); err == nil || !strings.Contains(err.Error(), "limit 1 is about it") {
		t.Errorf("a limit's partition: %v", err)
	}
	s.must(t, root, command.LimitPut{Remove: 1})
	s.must(t, root, command.PartitionRemove{Name: "spare"})
	if _, ok := s.w.Catalog.Partitions.Get("spare"); ok {
		t.Error("it is there still")
	}
	s.must(t, root, command.PartitionPut{Create: true, Name: "spare"})
}

// The configuration says what it can say, what is administered stays, and what it no
// longer names is administered from then on.
func TestConfiguredAndAdministered(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	site := command.SitePut{
		Site:       s.w.Site,
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour}},
		QoS:        []catalog.QoS{{Name: "standard", Default: true, Factor: 2000}, {Name: "normal", Factor: 1000}},
	}
	s.must(t, root, command.QoSPut{Name: "normal", Refuse: yes(), Contract: command.ContractChange{MinRun: num(hour)}})
	s.must(t, system, site)
	got, _ := s.w.Catalog.QoS.Get("normal")
	want := catalog.QoS{Name: "normal", Factor: 1000, Refuse: true, Contract: catalog.Contract{MinRun: hour}, Configured: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	site.QoS = site.QoS[:1]
	s.must(t, system, site)
	want.Configured = false
	got, _ = s.w.Catalog.QoS.Get("normal")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("no longer named (-want +got)\n%s", diff)
	}
	if q, _ := s.w.Catalog.QoSNamed(""); q.Name != "standard" {
		t.Errorf("the default is %s", q.Name)
	}
	s.must(t, root, command.QoSPut{Name: "normal", Priority: num(7)})
	s.must(t, root, command.QoSRemove{Name: "normal"})
	before := s.w
	s.must(t, system, site)
	if s.w != before {
		t.Error("the same configuration changed something")
	}
}
