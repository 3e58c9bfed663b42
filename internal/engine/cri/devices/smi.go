package devices

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/internal/engine"
)

// gpuFields are the fields of the query whose answer parseGPUs reads. All of them
// are known to every driver since 450.
const gpuFields = "index,uuid,name,memory.total,memory.used,driver_version,mig.mode.current"

// gpu is one line of the answer.
type gpu struct {
	index       int
	uuid, name  string
	total, used int64 // bytes
	driver      string
	mig         bool
	fault       string // what nvidia-smi says in place of values
}

// rows reads nvidia-smi's CSV: fields separated by a comma and a space. A line
// with another number of fields is a message ("No devices were found") and is
// left out.
func rows(text string, fields int) ([][]string, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	r.TrimLeadingSpace = true
	r.LazyQuotes = true
	var out [][]string
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("devices: nvidia-smi: %w", err)
		}
		if len(row) != fields {
			continue
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		out = append(out, row)
	}
}

func parseGPUs(text string) ([]gpu, error) {
	lines, err := rows(text, strings.Count(gpuFields, ",")+1)
	if err != nil {
		return nil, err
	}
	var out []gpu
	for _, f := range lines {
		index, err := strconv.Atoi(f[0])
		if err != nil || index < 0 || !strings.HasPrefix(f[1], "GPU-") {
			return nil, fmt.Errorf("devices: nvidia-smi: unexpected line %q", strings.Join(f, ", "))
		}
		g := gpu{index: index, uuid: f[1], name: f[2], driver: f[5], mig: f[6] == "Enabled"}
		for i, v := range []*int64{&g.total, &g.used} {
			value, broken := mebibytes(f[3+i])
			*v = value
			if broken {
				g.fault = "the driver reports " + f[3+i]
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// mebibytes reads an amount in MiB and returns bytes. broken says that the driver
// put an error in its place; "not available" is none.
func mebibytes(s string) (bytes int64, broken bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err == nil && n >= 0 && n < 1<<40:
		return n << 20, false
	case notAvailable(s):
		return 0, false
	}
	return 0, true
}

func notAvailable(s string) bool {
	s = strings.ToLower(strings.Trim(s, "[]"))
	return s == "n/a" || s == "not supported" || s == ""
}

// usageFields are the fields of the query whose answer parseUsage reads.
const usageFields = "uuid,utilization.gpu,memory.used"

// parseUsage returns how busy devices are, in thousandths. One of which the driver can't
// say it, as of one that is cut into MIG instances, is left out: nobody may take it for
// idle.
func parseUsage(text string, at time.Time) ([]engine.DeviceUsage, error) {
	lines, err := rows(text, strings.Count(usageFields, ",")+1)
	if err != nil {
		return nil, err
	}
	var out []engine.DeviceUsage
	for _, f := range lines {
		percent, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || percent < 0 || percent > 100 || !strings.HasPrefix(f[0], "GPU-") {
			continue
		}
		used, _ := mebibytes(f[2])
		out = append(out, engine.DeviceUsage{UUID: f[0], At: at, Busy: percent * 10, Memory: used})
	}
	return out, nil
}

// parseHealth reads the answer to one of healthQueries: the UUID, then as many of
// uncorrected errors, failed row remapping and recommended recovery as there are.
func parseHealth(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		f := strings.Split(line, ",")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if !strings.HasPrefix(f[0], "GPU-") {
			continue
		}
		var reasons []string
		for i, v := range f[1:] {
			if reason := healthReason(i, v); reason != "" {
				reasons = append(reasons, reason)
			}
		}
		if len(reasons) > 0 {
			out[f[0]] = strings.Join(reasons, ", ")
		}
	}
	return out
}

func healthReason(field int, v string) string {
	if notAvailable(v) {
		return ""
	}
	switch field {
	case 0:
		if n, err := strconv.ParseInt(v, 10, 64); err != nil {
			return "the driver reports " + v
		} else if n > 0 {
			return fmt.Sprintf("%d uncorrected memory errors since the driver was loaded: reset it", n)
		}
	case 1:
		if v != "0" && !strings.EqualFold(v, "No") {
			return "its memory can't be repaired any more: replace it"
		}
	case 2:
		if !strings.EqualFold(v, "None") {
			return "the driver asks for " + v
		}
	}
	return ""
}

// app is a process on a GPU.
type app struct {
	gpu  string // UUID of the GPU or, with some drivers, of the MIG instance
	pid  int
	used int64 // bytes, 0 if unknown
}

func parseApps(text string) ([]app, error) {
	lines, err := rows(text, 3)
	if err != nil {
		return nil, err
	}
	var out []app
	for _, f := range lines {
		pid, err := strconv.Atoi(f[1])
		if err != nil || pid <= 0 {
			continue // a process of another machine's partition has no number
		}
		used, _ := mebibytes(f[2])
		out = append(out, app{gpu: f[0], pid: pid, used: used})
	}
	return out, nil
}

// instance is a MIG instance.
type instance struct {
	index   int // among those of its GPU
	profile string
	uuid    string
}

var (
	listGPU = regexp.MustCompile(`^GPU \d+: .*\(UUID: (GPU-[^)]+)\)\s*$`)
	listMIG = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)\s*$`)
)

// parseList reads what nvidia-smi -L prints: each GPU, its MIG instances
// indented below it.
func parseList(text string) map[string][]instance {
	out := make(map[string][]instance)
	current := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := listGPU.FindStringSubmatch(line); m != nil {
			current = m[1]
			continue
		}
		m := listMIG.FindStringSubmatch(line)
		if m == nil || current == "" {
			continue
		}
		index, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		out[current] = append(out[current], instance{index: index, profile: m[1], uuid: m[3]})
	}
	return out
}
