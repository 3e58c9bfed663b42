// Package app puts the server together and runs it: it is the one package that may
// import all others. Start-up is recovery: the world is loaded from its rows, the
// runtime that outlived the last server is found again, and the loops find what
// was missed in between.
package app
