package crash

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/test/site"
)

// TestSteps kills the server while real containers and programs on the machine run beside a
// job's own. Each of them runs once, and the job's goes on, as does one on the machine.
func TestSteps(t *testing.T) {
	const kills = 6
	s := open(t, site.Config{
		Name: "paces", Users: []string{"ada"}, Images: []string{"tiny.tar"},
		Extra: "qos: [{name: normal, grace: 2s}]\ndefaults: {cpu: 0.2, mem: 128M, time: 10m}\n",
	})
	populate(t, s.Client(), s.User("ada"))
	c := client(t, s, s.User("ada"))
	job, err := c.Submit(t.Context(), v1.JobSpec{Account: account, Image: "tiny:1", Command: []string{"sleep", "600"}})
	must(t, err)
	wait(t, c, job.ID, v1.Running)
	onHost, err := c.Submit(t.Context(), v1.JobSpec{Account: account, Kind: v1.KindBatch, Command: []string{"sh", "-c", "setsid sleep 599 & wait"}})
	must(t, err)
	killed := make(chan error, 1)
	go func() {
		k := &killer{site: s, rand: seeded(t), least: 50 * time.Millisecond, most: 3 * time.Second}
		killed <- k.run(t.Context(), kills)
	}()
	var steps []int
	for done := false; !done; {
		var step *v1.Step
		spec := v1.StepSpec{Command: []string{"sh", "-c", "echo $CROFT_STEP_ID >> ~/ran; sleep 0.$((CROFT_STEP_ID % 7))"}}
		if spec.Host = len(steps)%2 == 1; !spec.Host {
			spec.Mounts = []v1.Mount{{Source: s.Home("ada")}}
		}
		must(t, v1.Retry(t.Context(), away, func() (err error) {
			step, err = c.AddStep(t.Context(), job.ID, spec, v1.Key("step-"+strconv.Itoa(len(steps))))
			return err
		}))
		steps = append(steps, step.N)
		must(t, after(500*time.Millisecond)(t.Context()))
		select {
		case err := <-killed:
			must(t, err)
			done = true
		default:
		}
	}
	for _, n := range steps {
		end, err := c.WaitStep(t.Context(), job.ID, n, v1.Ended, v1.WaitOptions{Window: away})
		must(t, err)
		if end.Outcome != "completed" {
			t.Errorf("step %s: %s: %s", end.ID, end.Outcome, end.Message)
		}
	}
	text, err := os.ReadFile(filepath.Join(s.Home("ada"), "ran"))
	must(t, err)
	ran := strings.Fields(string(text))
	slices.Sort(ran)
	if n := len(slices.Compact(slices.Clone(ran))); n != len(steps) || len(ran) != len(steps) {
		t.Errorf("%d steps ran %d times: %v", n, len(ran), ran)
	}
	for _, j := range []*v1.Job{job, onHost} {
		if now, err := c.Job(t.Context(), j.ID); err != nil || now.State != "running" || now.Attempt != 1 {
			t.Errorf("job %s is %+v, %v", j.ID, now, err)
		}
		_, err = c.Stop(t.Context(), j.ID, v1.StopRequest{Now: true})
		must(t, err)
		wait(t, c, j.ID, v1.Ended)
	}
	consistent(t, s.Client())
	t.Logf("%d steps, %d kills", len(steps), kills)
}
