// Package cluster runs a Kubernetes cluster of its own for tests: etcd, the API server,
// the controller manager and the scheduler on loopback, nodes by real kubelets that run
// real containers, or by KWOK, which only says that pods run. The programs come from
// make setup. It is told what to break: the API server stops and comes back.
package cluster
