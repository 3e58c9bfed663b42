// Command croftd is the server. croft server and croft setup run it.
package main

import (
	"os"

	"croft.dev/croft/internal/app/daemon"
)

func main() { os.Exit(daemon.Main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }
