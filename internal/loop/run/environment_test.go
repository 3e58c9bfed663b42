package run

import (
	"testing"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/workload"
)

// What a program is told in others' words, and what it isn't told about ranks.
func TestEnvironment(t *testing.T) {
	gpu := func(uuid string) engine.Device { return engine.Device{UUID: uuid, Name: uuid, Memory: 1} }
	for name, tc := range map[string]struct {
		pod     workload.Pod
		host    bool
		devices []engine.Device // of the step, of the job's two
		cpu     int64
		want    map[string]string // "-": isn't set
	}{
		"one device": {
			devices: []engine.Device{gpu("a")}, cpu: 2500,
			want: map[string]string{
				"CRANE_JOB_ID": "118", "CRANE_JOB_NAME": "train", "CRANE_JOB_ACCOUNT": "nlp", "CRANE_JOB_PARTITION": "main", "CRANE_JOB_QOS": "normal",
				"CRANE_JOB_NODELIST": "gpu1", "CRANE_JOB_NUM_NODES": "1", "CRANE_JOB_END_TIME": "1000", "CRANE_STEP_ID": "2", "CRANE_NODEID": "0",
				"CRANE_NTASKS": "1", "CRANE_NTASKS_PER_NODE": "1", "CRANE_CPUS_PER_TASK": "3", "CRANE_CPUS_ON_NODE": "8", "CRANE_MEM_PER_NODE": "2048", "CRANE_MEM_PER_CPU": "256",
				"CRANE_GPUS": "1", "CRANE_CLUSTER_NAME": "croft", "CRANE_TIMELIMIT": "26:01:05", "CUDA_VISIBLE_DEVICES": "a", "CRANE_ARRAY_JOB_ID": "-",
				"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1",
			},
		},
		"none":                {cpu: 8000, want: map[string]string{"RANK": "0", "WORLD_SIZE": "1", "CRANE_GPUS": "0", "CUDA_VISIBLE_DEVICES": "-"}},
		"several devices":     {devices: []engine.Device{gpu("a"), gpu("b")}, cpu: 8000, want: map[string]string{"MASTER_PORT": "29500", "RANK": "-", "LOCAL_RANK": "-", "WORLD_SIZE": "-", "CRANE_GPUS": "2"}},
		"on the host":         {host: true, cpu: 8000, want: map[string]string{"MASTER_PORT": "29618", "CUDA_VISIBLE_DEVICES": ""}},
		"the machine's ports": {pod: workload.Pod{HostNetwork: true}, cpu: 8000, want: map[string]string{"MASTER_PORT": "29618"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := &workload.Job{ID: 118, Attempt: workload.Attempt{N: 1, Until: 1000e9}, Spec: workload.Spec{
				Name: "train", Partition: "main", QoS: "normal", CPU: 7500, Mem: 2 << 30, Time: (26*3600 + 65) * 1e9, Pod: tc.pod,
			}}
			a := engine.Allocation{N: 1, Node: "gpu1", Account: "nlp", CPU: 7500, Memory: 2 << 30, Devices: []engine.Device{gpu("a"), gpu("b")}}
			got := environment(j, a, engine.Step{N: 2, Container: engine.Container{Host: tc.host}, CPU: tc.cpu, Memory: 1 << 30, Devices: tc.devices})
			for k, want := range tc.want {
				if v, ok := got[k]; ok != (want != "-") || ok && v != want {
					t.Errorf("%s is %q, want %q", k, v, want)
				}
			}
		})
	}
}

// What containers are given by mounts a program on the machine is told where it is there.
func TestSiteOnTheHost(t *testing.T) {
	site := Site{CAFile: "/srv/ca.pem", Socket: "/run/croft.sock", HTTPProxy: "http://proxy"}
	for host, want := range map[bool]string{false: caFile, true: "/srv/ca.pem"} {
		c := engine.Container{Host: host, Env: map[string]string{}}
		site.apply(&c)
		if c.Env["CROFT_CA_FILE"] != want || c.Env["NODE_EXTRA_CA_CERTS"] != want || c.Env["http_proxy"] != "http://proxy" || len(c.Mounts) == 0 != host {
			t.Errorf("on the host %v: %+v", host, c)
		}
	}
}
