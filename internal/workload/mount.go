package workload

import (
	"path"
	"regexp"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/quantity"
)

// Mount is something that a container has at a place of its own.
type Mount struct {
	Type     MountType `json:"type,omitempty"`
	Source   string    `json:"source,omitempty"`
	Target   string    `json:"target"`
	ReadOnly bool      `json:"read_only,omitempty"`
	Size     int64     `json:"size,omitempty"` // bytes of a tmpfs; 0: half of the memory
}

// MountType says what is mounted.
type MountType string

// The types.
const (
	MountBind  MountType = ""      // a folder or file of the machine
	MountTmpfs MountType = "tmpfs" // an empty folder in the job's memory

	MountVolume MountType = "volume" // a folder of the user's, by its name
)

// Home is what the source of a mount begins with that is below its user's home on the
// machine: ~ or ~/FOLDER. It is looked up before a request is read.
const Home = "~"

// leastTmpfs is a page: less is none.
const leastTmpfs = 4 << 10

func (p *parser) mounts(s *Spec, in []v1.Mount) {
	if len(in) > maxMounts {
		p.bad.Add("mounts", "has more than %d entries", maxMounts)
		return
	}
	for _, m := range in {
		out := Mount{Type: MountType(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
		before := len(p.bad)
		switch m.Type {
		case "", "bind":
			p.bind(&out, m)
		case "volume":
			p.volume(m)
		case "tmpfs":
			p.tmpfs(&out, m, s.Mem)
		default:
			p.bad.Add("mounts", "type %q must be bind, volume or tmpfs", clip(m.Type))
			continue
		}
		switch {
		case len(p.bad) > before: // one thing at a time
		case !absolute(out.Target) || path.Clean(out.Target) == "/":
			p.bad.Add("mounts", "target %q must be an absolute path without .. and not /", clip(out.Target))
		case underReserved(path.Clean(out.Target)):
			p.bad.Add("mounts", "target %q is used by the container itself", clip(out.Target))
		default:
			out.Target = path.Clean(out.Target)
			s.Mounts = append(s.Mounts, out)
		}
	}
}

func (p *parser) bind(out *Mount, in v1.Mount) {
	out.Type = MountBind
	if out.Target == "" {
		out.Target = in.Source
	}
	if !absolute(in.Source) {
		p.bad.Add("mounts", "source %q must be an absolute path without ..", clip(in.Source))
	}
	if in.Size != "" {
		p.bad.Add("mounts", "only a tmpfs has a size: leave it out for %q", clip(in.Source))
	}
	out.Source = path.Clean(in.Source)
}

// volumeName is what a volume may be called.
var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// KnownVolume reports whether a volume may be called so.
func KnownVolume(name string) bool { return volumeName.MatchString(name) }

func (p *parser) volume(in v1.Mount) {
	if !KnownVolume(in.Source) {
		p.bad.Add("mounts", "%q can't be a volume's name: at most 64 letters, digits and _ . -, the first a letter or digit", clip(in.Source))
	}
	if in.Size != "" {
		p.bad.Add("mounts", "only a tmpfs has a size: leave it out for %q", clip(in.Source))
	}
}

// tmpfs checks a mount that is counted in mem; 0: not known yet.
func (p *parser) tmpfs(out *Mount, in v1.Mount, mem int64) {
	if in.Source != "" || in.ReadOnly {
		p.bad.Add("mounts", "a tmpfs is empty and of the container's own: leave source and read_only out for %q", clip(in.Target))
	}
	if out.Size = p.amount("mounts", in.Size, quantity.ParseBytes, 0, leastTmpfs, 1<<60, "size is an amount such as 1G, at least 4K"); mem > 0 && out.Size > mem {
		p.bad.Add("mounts", "a tmpfs of %s is more than the memory that it counts in, %s", quantity.FormatBytes(out.Size), quantity.FormatBytes(mem))
	}
}

// underReserved says that a mount there could break what Croft itself puts in.
func underReserved(target string) bool {
	for _, r := range []string{"/proc", "/sys", "/dev", "/.croft", "/etc/passwd", "/etc/group"} {
		if target == r || strings.HasPrefix(target, r+"/") {
			return true
		}
	}
	return false
}

// wireMounts is mounts as the API shows them.
func wireMounts(mounts []Mount) []v1.Mount {
	var out []v1.Mount
	for _, m := range mounts {
		w := v1.Mount{Type: string(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
		if m.Size > 0 {
			w.Size = v1.Quantity(quantity.FormatBytes(m.Size))
		}
		out = append(out, w)
	}
	return out
}

// FolderTarget is where something can be mounted in every container of an account's; false
// for what is no such place.
func FolderTarget(target string) (string, bool) {
	clean := path.Clean(target)
	if !absolute(target) || clean == "/" || underReserved(clean) {
		return "", false
	}
	for _, r := range []string{"/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/tmp", "/run", "/var"} {
		if clean == r {
			return "", false // what is below may be hidden, none of these whole
		}
	}
	return clean, true
}

// HostPath is a path of the machine as it is kept; false for what isn't absolute or climbs.
func HostPath(p string) (string, bool) { return path.Clean(p), absolute(p) && path.Clean(p) != "/" }

// EnvName reports whether a variable may be called so.
func EnvName(name string) bool { return envName.MatchString(name) }
