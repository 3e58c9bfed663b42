// Package httpapi serves Croft's API over HTTP: on a unix socket, where the kernel
// says who is calling, and on loopback, where a personal token does. It holds no
// rules: it finds out who asks, reads the request, has a command decided or a
// question answered, and writes the answer down.
//
// Every operation stands in one table (table.go) with the access action that it
// needs; the OpenAPI document is made from the same table.
package httpapi

//go:generate go run ./gen
