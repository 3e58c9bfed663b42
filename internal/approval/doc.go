// Package approval has requests: what somebody asks for that others have to approve. It knows
// what can be asked for, in which states a request is, and what may become of it. What
// approving does is a command's, and who may do that is access's.
package approval
