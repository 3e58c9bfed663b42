// Package kube runs attempts on a Kubernetes cluster. A job's attempt is a Pod that is
// never restarted; Croft has chosen its node, and the cluster's own scheduler confirms that.
//
//   - A finalizer keeps the Pod until Remove, so that how it ended is known whoever deletes it.
//   - croft-init, which an init container copies to a folder of the Pod's own, starts each
//     step's program, passes signals on, and reports how it ended through the container's
//     termination message. It is also what commands, terminals and files are reached by.
//   - Further steps are ephemeral containers of the Pod.
//
// Objects carry the labels of the instance and the attempt, by which they are found again.
// Nothing else in the cluster is touched.
package kube
