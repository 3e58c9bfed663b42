// Package sshgate lets people into their running jobs by SSH. It is a transport: it finds
// out who comes by the key, asks whether he may enter the job that the SSH user name says,
// notes that in the log, and carries streams between the connection and the engine. A job
// needs no SSH server for that, nor anything else in its image.
package sshgate
