package sim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/engine"
)

func TestReadNodes(t *testing.T) {
	nodes, devices, err := ReadNodes(strings.NewReader("sn,model,cpu_milli,memory_mib,gpu,extra,gpu_memory_mib\nn1,T4,64000,262144,2,x,15360\nn2,,96000,1024,0,,\nn3,V100,1000,1024,1,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]engine.Node{{Name: "n1", CPU: 64000, Memory: 256 << 30, Ready: true}, {Name: "n2", CPU: 96000, Memory: 1 << 30, Ready: true}, {Name: "n3", CPU: 1000, Memory: 1 << 30, Ready: true}}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	want := []engine.Device{
		{UUID: "SIM-n1-0", Node: "n1", Index: 0, Name: "gpu0", Model: "T4", Memory: 15 << 30, Healthy: true},
		{UUID: "SIM-n1-1", Node: "n1", Index: 1, Name: "gpu1", Model: "T4", Memory: 15 << 30, Healthy: true},
		{UUID: "SIM-n3-0", Node: "n3", Index: 0, Name: "gpu0", Model: "V100", Healthy: true},
	}
	if diff := cmp.Diff(want, devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

func TestReadNodesErrors(t *testing.T) {
	const columns = "sn,cpu_milli,memory_mib,gpu,model\n"
	tests := map[string]struct{ text, want string }{
		"nothing":          {"", "the line with the columns"},
		"a column missing": {"sn,cpu_milli,memory_mib,gpu\nn1,1,1,0\n", "no column model"},
		"no nodes":         {columns, "has no nodes"},
		"a field missing":  {columns + "n1,1,1,0\n", "line 2"},
		"not a number":     {columns + "n1,1,1,0,\nn2,many,1,0,\n", `line 3: cpu_milli "many"`},
		"negative":         {columns + "n1,1,-1,0,\n", "line 2: memory_mib"},
		"too many devices": {columns + "n1,1,1,1000000,T4\n", "line 2: gpu"},
		"device memory":    {"sn,cpu_milli,memory_mib,gpu,model,gpu_memory_mib\nn1,1,1,1,T4,16G\n", `line 2: gpu_memory_mib "16G"`},
		"no model":         {columns + "n1,1,1,1,\n", `line 2: "" isn't a model`},
		"a bad name":       {columns + "n 1,1,1,1,T4\n", `line 2: "n 1" isn't a node`},
		"twice":            {columns + "n1,1,1,0,\nn1,1,1,0,\n", "line 3: node n1 is there twice"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := ReadNodes(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzReadNodes(f *testing.F) {
	f.Add("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\n")
	f.Add("gpu,sn,cpu_milli,memory_mib,model\n1,n1,1,1,\"T\n4\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		nodes, devices, err := ReadNodes(strings.NewReader(text))
		if err != nil {
			return
		}
		if _, err := NewFleet(Config{Clock: clock.System{}, Instance: "fuzz", Nodes: nodes, Devices: devices}); err != nil {
			t.Fatalf("what was read makes no fleet: %v", err)
		}
	})
}
