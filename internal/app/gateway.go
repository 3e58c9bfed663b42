package app

import (
	"fmt"
	"net"

	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/gateway"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/seal"
	"croft.dev/croft/internal/world"
)

// cookieFile is the file of the key that cookies are sealed with, in the data directory: a
// browser that is known stays so when the server is started again.
const cookieFile = "cookie.key"

// addressOf is where people find a server that listens there; web is nil where it doesn't.
func addressOf(c config.Config, web net.Listener) (address.Site, error) {
	if web == nil {
		return c.Address(0)
	}
	if a, ok := web.Addr().(*net.TCPAddr); ok {
		return c.Address(a.Port)
	}
	return address.Site{}, nil
}

// appsOf is what the configuration allows of applications.
func appsOf(c config.Config) world.Apps {
	site, err := c.Address(0)
	byName := err == nil && site.ByName()
	return world.Apps{Shared: byName || c.Apps.ShareByPath, Pages: byName || !c.Apps.ShareByPath, Public: c.Apps.Public}
}

// newGateway makes the way to applications, over the API.
func (s *server) newGateway() (*gateway.Server, error) {
	key, err := seal.Load(s.in(cookieFile))
	if err != nil {
		return nil, fmt.Errorf("the key that cookies are sealed with: %w", err)
	}
	a := s.Config.Apps
	return gateway.New(gateway.Deps{
		Site: s.site, Sequencer: s.seq, Engine: s.link, Logins: s.api, Terminals: s.api, Tickets: s.tickets, Key: key, Now: s.clock.Nanos, Logger: s.Log,
		Presence: s.presence, Progress: s.loops.progress, StopsAt: s.loops.stopsAt,
		Limits: gateway.Limits{PerJob: a.Connections, PerUser: a.UserConnections, Header: a.Patience.Std()},
	})
}

// appAddress is where browsers find an application, for the job's own programs.
func (s *server) appAddress(job id.Job, app string, first bool) string {
	at := address.App{Job: job, Name: app}
	if first {
		at.Name = ""
	}
	if s.site.None() {
		return s.site.Base(at)
	}
	return s.site.AppURL(at, "/")
}

// hosts are the names beside loopback that requests may give for the server itself.
func (s *server) hosts() []string {
	out := lower(s.Config.Listen.Hosts)
	if !s.site.None() {
		out = append(out, s.site.Hostname())
	}
	return out
}
