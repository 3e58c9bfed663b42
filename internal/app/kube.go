package app

import (
	"context"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/kube"
	"croft.dev/croft/internal/engine/kube/files"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/httpapi"
	"croft.dev/croft/internal/loop/groups"
	"croft.dev/croft/internal/loop/queues"
	"croft.dev/croft/internal/loop/run"
	"croft.dev/croft/internal/quota"
)

// kubeConfig is a cluster as the configuration describes it.
func (s *server) kubeConfig(k config.Kube) kube.Config {
	e := s.Config.Engine
	cfg := kube.Config{
		Kubeconfig: string(k.Kubeconfig), Context: k.Context, Instance: s.head.Instance, Namespace: k.Namespace, Image: k.Image,
		Scheduler: k.Scheduler, QueuePrefix: k.QueuePrefix, PriorityClass: k.PriorityClass, Scratch: int64(k.Scratch), LogDir: s.in("kube-logs"), LogRetention: e.LogRetention.Std(), LogMax: int64(e.LogMaxSize) * int64(1+e.LogFiles), Registries: s.hubs.Transport(), Mirrors: e.Mirrors, Logger: s.Log,
	}
	for _, m := range k.Models {
		cfg.Models = append(cfg.Models, kube.Model{Name: m.Name, Resource: m.Resource, Labels: m.Labels, Class: m.Class, Selectors: m.Selectors, Memory: int64(m.Memory)})
	}
	cfg.Claims.MakeHomes = k.Users == config.UsersCroft // else a directory has its own way
	for _, c := range k.Claims {
		cfg.Claims.List = append(cfg.Claims.List, files.Claim{Path: string(c.Path), Name: c.Claim, ReadOnly: c.ReadOnly, Here: string(c.Here)})
	}
	return cfg
}

// clusterClient is croft's own program for jobs on a cluster, which have it from the image
// that Croft itself runs there.
func clusterClient() []engine.Mount {
	return []engine.Mount{{Source: "/croft", Target: v1.JobClient, ReadOnly: true, Site: true}}
}

// users is what every consumer of a directory of users asks.
type users interface {
	httpapi.People
	run.People
	groups.Directory
}

// people are whom jobs run as.
func (s *server) people() users {
	switch e := s.Config.Engine; {
	case e.Kind == config.EngineSim:
		return simulated{s.machine}
	case e.Kind == config.EngineKube && e.Kube.Users == config.UsersCroft:
		return numbered{s.machine}
	}
	return s.machine
}

// numbered is for a cluster whose users are those that Croft has given a uid: no directory
// knows them. Only the socket's are the machine's.
type numbered struct{ machine }

// Resolve is the user by the number that Croft holds.
func (numbered) Resolve(_ context.Context, name string, uid int64) (engine.User, error) {
	if uid < 1 {
		return engine.User{}, &engine.StartError{Message: "user " + name + " has no uid: an admin gives one with croft user add --uid"}
	}
	return engine.User{Name: name, UID: uid, GID: uid, Home: "/home/" + name, Shell: "/bin/sh"}, nil
}

// Lookup is for the API: everybody's home is found by the name, and nobody's uid.
func (n numbered) Lookup(ctx context.Context, name string) (httpapi.Person, bool, error) {
	p, known, err := n.machine.Lookup(ctx, name)
	p.Home = "/home/" + name
	return p, known, err
}

// Warning is for groups: there is nothing that a name could have come to mean else.
func (numbered) Warning(context.Context, string, int64) (string, error) { return "", nil }

// subids are what users have for user namespaces. On a cluster the nodes choose.
func (s *server) subids() run.Subids {
	if s.Config.Engine.Kind == config.EngineKube {
		return run.Subids{}
	}
	return subidsOf(s.Config.Subids)
}

// storage is what bounds files.
func (s *server) storage() httpapi.Storage {
	if s.Config.Engine.Kind == config.EngineKube {
		return elsewhere{}
	}
	return &quota.Quotas{}
}

// elsewhere is for files that the server doesn't see: what it would say of a path of that
// name on its own machine would be of something else.
type elsewhere struct{}

var errElsewhere = fault.New(codes.Conflict, "files of jobs are the cluster's: what holds them says what is in them, and bounds it")

// Of implements httpapi.Storage.
func (elsewhere) Of(context.Context, string, int64) (quota.Place, error) {
	return quota.Place{Why: "it is on the cluster, which isn't asked"}, nil
}

// Set implements httpapi.Storage.
func (elsewhere) Set(context.Context, string, int64, quota.Use) (quota.Place, error) {
	return quota.Place{}, errElsewhere
}

// window is how many jobs of a queue are handed to the engine at a time before they run.
func (s *server) window() int {
	if s.Config.Engine.Kind != config.EngineKube {
		return 0
	}
	return s.Config.Engine.Kube.Window
}

// newQueues is the loop that keeps a batch scheduler's queues; nil where there is none.
func (s *server) newQueues() *queues.Loop {
	k := s.Config.Engine.Kube
	if s.Config.Engine.Kind != config.EngineKube || k.Scheduler == config.SchedulerNone {
		return nil
	}
	return queues.New(queues.Config{
		Port: s.port, Engine: s.link, Period: queuesPeriod, Repair: queuesRepair, Watch: k.Queues == config.QueuesWatch, Log: s.Log,
	})
}

// queuesAPI is what the API asks of them.
func (s *server) queuesAPI() httpapi.Queues {
	if s.loops.queues == nil {
		return nil
	}
	return s.loops.queues
}
