// Command croft is the client: it submits, shows and stops jobs, and keeps the
// accounts. See docs/reference/cli.md.
package main

import (
	"os"

	"croft.dev/croft/internal/cli"
)

func main() { os.Exit(cli.Main(cli.System())) }
