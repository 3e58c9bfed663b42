// Package asset has what users own and jobs use besides the machine: images that were
// saved from jobs, templates of workspaces, and folders of accounts that all their jobs find.
package asset
