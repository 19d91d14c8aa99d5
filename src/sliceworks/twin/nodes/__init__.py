"""Simulated nodes: kubelets whose behavior is data, and a runtime that runs containers as processes.

simulator         watches nodes and pods and applies their stages
stage             stages and the files that define them
stage_lifecycle   chooses the next stage of an object and computes its result
stage_queue       schedules the next stage of every object
simulated_node    a node, its address range and its pods
heartbeat         leases and node conditions
host_ports        host ports in use
pod_sources       what a pod needs to exist: ConfigMaps, Secrets, account, claims
pod_status        phase and conditions of a pod
container_status  container statuses and event messages
node_shape        builds and creates nodes of one machine type
embedded_nodes    the simulator of a twin in its own process
runtime           runs containers as processes
"""
