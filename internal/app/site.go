package app

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a machine may have no time zone database

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/httpapi"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/password"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// siteOf is the configuration as the world holds it.
func siteOf(c config.Config, instance string) command.SitePut {
	cmd := command.SitePut{Site: world.Site{
		Instance: instance, MountRoots: mountRoots(c), Network: networkOf(c), Userns: workload.Userns(c.Defaults.Userns), PlanDepth: c.Plan.Depth, MaxGrace: int64(c.MaxGrace),
		DefCPU: int64(c.Defaults.CPU), DefMem: int64(c.Defaults.Mem), DefWall: int64(c.Defaults.Time), UserJobs: int64(c.Defaults.UserJobs), UserImages: int64(c.Defaults.UserImages), UserWorkspaces: int64(c.Defaults.UserWorkspaces),
		Zone: zoneOf(c.TimeZone), Rolling: int64(c.Money.RollingWindow),
		NeedUID: c.Engine.Kind != config.EngineSim, Mixed: c.Devices.Mixed, HostPrograms: c.Engine.Host.Programs,
		Weights: weightsOf(c.Priority), Apps: appsOf(c), Mail: notice.Rules{On: c.Notify.Mail.Host != "", Domains: c.Notify.Mail.Domains},
		Hooks: notice.HookRules{Hosts: c.Notify.Webhook.Hosts, Plain: len(c.Notify.Webhook.Networks) > 0},
	}}
	for _, t := range c.Workspaces() {
		cmd.Site.Templates = append(cmd.Site.Templates, t.Name)
	}
	for _, p := range c.Idle {
		cmd.Site.Idle = append(cmd.Site.Idle, idleOf(p))
	}
	for _, p := range c.Partitions {
		cmd.Partitions = append(cmd.Partitions, catalog.Partition{
			Name: p.Name, Nodes: slices.Sorted(slices.Values(p.Nodes)), Default: p.Default,
			MaxWall: int64(p.MaxTime), DefWall: cmp.Or(int64(p.DefaultTime), int64(c.Defaults.Time)),
		})
	}
	for _, q := range c.QoS {
		cmd.QoS = append(cmd.QoS, catalog.QoS{
			Name: q.Name, Default: q.Default, Priority: int64(q.Priority), Factor: int64(q.Factor),
			MaxWall: int64(q.MaxTime), Grace: int64(q.Grace), MaxGrace: int64(q.MaxGrace),
		})
	}
	return cmd
}

// mountRoots are the folders that jobs may mount.
func mountRoots(c config.Config) []string {
	if c.Engine.Kind == config.EngineKube && len(c.Engine.Kube.Claims) == 0 {
		return nil
	}
	return c.Mounts
}

// networkOf is what jobs may have of a machine's network.
func networkOf(c config.Config) admission.Network {
	if c.Engine.Kind == config.EngineKube {
		return admission.Network{}
	}
	return admission.Network{Host: c.Network.Host, FirstPort: c.Network.Ports.First(), LastPort: c.Network.Ports.Last()}
}

func idleOf(p config.IdlePolicy) idle.Policy {
	out := idle.Policy{
		Kinds: p.Kinds, Partitions: p.Partitions, QoS: p.QoS, Accounts: p.Accounts, Mode: idle.Mode(p.Mode),
		After: int64(p.After), Notice: int64(p.Notice), Device: int64(p.Device) * 10, CPU: int64(p.CPU), KeepMax: int64(p.KeepMax),
	}
	for _, s := range p.Signals {
		out.Signals = append(out.Signals, idle.Signal(s))
	}
	return out
}

// loginOf is how the configuration has passwords taken.
func loginOf(c config.Login) (httpapi.Login, error) {
	if !c.Passwords {
		return httpapi.Login{}, nil
	}
	h, err := password.New(password.Config{})
	return httpapi.Login{Hasher: h, Session: c.Session.Std(), Idle: c.Idle.Std(), Forwarded: c.Forwarded}, err
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToLower(n)
	}
	return out
}

func weightsOf(p config.Priority) admission.Weights {
	return admission.Weights{
		Age: int64(p.Age), AgeCap: int64(p.AgeCap), Share: int64(p.FairShare), Queue: int64(p.Guarantee), HalfLife: int64(p.HalfLife),
		Devices: int64(p.Devices), Cores: int64(p.Cores),
	}
}

// zoneOf is the clock of a time zone in the years that count.
func zoneOf(name string) limits.Zone {
	loc := location(name)
	year := func(y int) int64 { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() }
	return limits.ZoneOf(loc, year(2020), year(2070))
}

// settle tells the world what the configuration says, and makes sure that the
// platform has its administrators. An administrator whom the configuration no
// longer names keeps the role: an admin takes it away.
func settle(ctx context.Context, port loop.Port, m machine, c config.Config, instance string) error {
	if _, err := port.Command(ctx, siteOf(c, instance)); err != nil {
		return err
	}
	role := string(access.Admin)
	for _, name := range append([]string{"root"}, c.Admins...) {
		u, exists := port.World().Tenancy.User(name)
		if exists && u.Platform == access.Admin {
			continue // not looked up: a directory that is away must not keep the server down
		}
		uid, ok, err := m.UID(ctx, name)
		if err != nil {
			return err
		}
		if !ok {
			return fault.Invalid("admins", "the machine has no user %s", name)
		}
		cmd := command.UserPut{Create: !exists, Name: name, Role: &role}
		if !exists {
			cmd.UID = &uid
		}
		if _, err := port.Command(ctx, cmd); err != nil && fault.Of(err) != codes.Exists {
			return err
		}
	}
	return nil
}
