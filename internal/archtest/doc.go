// Package archtest holds the code to docs/architecture.md: which package may
// import which, what the domain may not touch, how large a file may be, and that
// the documentation names only what exists. It has tests only. A rule says in its
// failure why it is there; an exception stands in a list with its reason, and is
// itself a failure once it is no longer needed.
package archtest
