// Package crash kills the server at random points under load, many times, and then
// looks whether anything was lost, done twice or charged wrongly.
package crash
