// Gen writes what is generated from the API's own tables: api/v1/openapi.yaml and
// docs/reference/codes.md. It is run by go generate in internal/httpapi.
package main

import (
	"fmt"
	"os"

	"croft.dev/croft/internal/httpapi"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write() error {
	doc, err := httpapi.Document()
	if err != nil {
		return err
	}
	reference, err := codesReference("../../api/v1/codes")
	if err != nil {
		return err
	}
	for path, text := range map[string][]byte{"../../api/v1/openapi.yaml": doc, "../../docs/reference/codes.md": reference} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
