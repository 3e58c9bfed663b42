package app

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine"
)

// TestSiteOnACluster: what is the machine's isn't offered where jobs run elsewhere.
func TestSiteOnACluster(t *testing.T) {
	c := config.Default()
	c.Engine.Kind = config.EngineKube
	got := siteOf(c, "i").Site
	if len(got.MountRoots) > 0 || got.Network.FirstPort != 0 || got.Network.Host {
		t.Errorf("jobs on a cluster may have of the machine: mounts %v, network %+v", got.MountRoots, got.Network)
	}
	c.Engine.Kube.Claims = []config.KubeClaim{{Path: "/home", Claim: "homes"}}
	if got := siteOf(c, "i").Site.MountRoots; len(got) != 1 || got[0] != "~" {
		t.Errorf("with homes on the cluster jobs may mount %v", got)
	}
	if !got.NeedUID {
		t.Error("somebody without a uid may submit")
	}
	s := &server{Options: Options{Config: c}}
	if s.subids().Users != 0 {
		t.Error("the machine's ids are given to jobs on a cluster")
	}
	if _, ok := s.people().(machine); !ok {
		t.Errorf("users are %T, not the machine's", s.people())
	}
}

// TestNumbered: with users: croft nobody is looked up.
func TestNumbered(t *testing.T) {
	c := config.Default()
	c.Engine.Kind, c.Engine.Kube.Users = config.EngineKube, config.UsersCroft
	who := (&server{Options: Options{Config: c}}).people()
	got, err := who.Resolve(t.Context(), "nobody-knows-ada", 70001)
	if err != nil {
		t.Fatal(err)
	}
	want := engine.User{Name: "nobody-knows-ada", UID: 70001, GID: 70001, Home: "/home/nobody-knows-ada", Shell: "/bin/sh"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, uid := range []int64{-1, 0} {
		var refused *engine.StartError
		if _, err := who.Resolve(t.Context(), "ada", uid); !errors.As(err, &refused) {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
	if w, err := who.Warning(t.Context(), "nobody-knows-ada", 70001); w != "" || err != nil {
		t.Errorf("the binding is doubted: %q, %v", w, err)
	}
}
