"""The embedded cluster and cloud: a store, the Kubernetes API, workloads, nodes and Google's APIs."""
