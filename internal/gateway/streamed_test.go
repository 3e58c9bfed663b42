//go:build !race

package gateway

// streamed is how much an application sends in TestStreams, in bytes.
const streamed int64 = 10e9
