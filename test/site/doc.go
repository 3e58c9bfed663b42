// Package site sets up a whole Croft of its own on this machine for a test: the
// built programs, a data directory, a container runtime with its bridge, and Unix
// users. Close takes all of it away again; what a test that was killed left behind
// is taken away by the next one of the same name.
//
// It needs root, and what `make build images` builds.
package site
