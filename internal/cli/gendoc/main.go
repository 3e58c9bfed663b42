// Command gendoc writes the reference of the command line to a file.
package main

import (
	"bytes"
	"fmt"
	"os"

	"croft.dev/croft/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gendoc FILE")
		os.Exit(2)
	}
	var b bytes.Buffer
	cli.Reference(&b)
	if err := os.WriteFile(os.Args[1], b.Bytes(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}
