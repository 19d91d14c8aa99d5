"""The twin's Kubernetes API: what kubectl and client libraries need, as kube-apiserver answers it."""
