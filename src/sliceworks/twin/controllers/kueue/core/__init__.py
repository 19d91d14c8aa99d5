"""Kueue's scheduling core: pure, without I/O and without a clock. The rehearsal's forecast uses it too.

`quota_tree`        ClusterQueues below Cohorts: nominal quota, lending, borrowing and usage
`model`             flavors, resource groups, pod sets, workloads and ClusterQueues
`flavor_assigner`   chooses a flavor for each pod set and resource group
`preemption`        finds the minimal set of workloads to preempt
`workload_queue`    the pending workloads of one ClusterQueue
`admission_cycle`   one cycle: nominate, sort, then admit, preempt or requeue
`queue_manager`     all of it together: put objects in, call `schedule()`
"""
