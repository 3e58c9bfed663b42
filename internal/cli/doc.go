// Package cli is the command line of Croft. It knows the API client and nothing
// else of Croft, so that the binary stays small and starts at once.
//
// What a command prints is either the wire object (-o json, -o yaml) or text for
// people, in which everything that came from others is stripped of control
// characters. Results go to standard output; quotes, progress, receipts and
// refusals go to standard error.
package cli

//go:generate go run ./gendoc ../../docs/reference/cli.md
