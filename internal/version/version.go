// Package version holds the version that a release build stamps into the binaries.
package version

// Version is set by
//
//	go build -ldflags "-X croft.dev/croft/internal/version.Version=v1.2.3"
//
// It is the one variable of package scope here, because the linker can set no
// other kind of thing.
var Version = "dev"
