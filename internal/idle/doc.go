// Package idle judges by several signals whether a job does nothing, for how long, and
// when it is to be stopped for that. It knows neither where the signals come from nor how
// a job is stopped.
//
// What isn't known is never taken for idleness: while a signal that counts is unknown,
// nothing is stopped and no time is counted.
package idle
