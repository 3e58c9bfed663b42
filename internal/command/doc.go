// Package command is everything that can be asked of the world: one type for each
// command, in a file by subject. A command says which rows change; what is allowed
// and what it means is asked of the domain packages, and where a change touches
// several of them (a job's start moves money, devices and limits) it is put
// together here.
package command
