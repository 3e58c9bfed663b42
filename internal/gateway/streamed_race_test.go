//go:build race

package gateway

// streamed is less here: the race detector looks at every byte.
const streamed int64 = 1e9
