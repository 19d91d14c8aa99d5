"""The twin: an embedded Kubernetes cluster and Google Cloud.

Reading order:
`main`: the twin as a process.
`clock_control`: the clock of a running twin.
`exposed_services`: addresses outside of the twin that stand for Services.
`cluster`: all parts in one process.
`store`: versioned objects, durable in SQLite.
`apiserver`: the Kubernetes API.
`controllers`, `scheduler`, `nodes`: what runs workloads.
`cloud`: Google's APIs.
`backup`: a twin's objects and identity in one archive.
"""
