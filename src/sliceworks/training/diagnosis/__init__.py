"""Why a training job is pending, starts slowly or has failed: evidence in, diagnosis out.

Modules, in reading order:

- `model`: Evidence (the objects that were read) and Diagnosis (the ordered causes found in them)
- `cause_catalog`: every kind of cause, with its title and remedy
- `reader`: reads objects, and records which kinds may not be read
- `collection`: collects the evidence about one JobSet
- `analysis`: from evidence to a diagnosis, layer by layer
- `jobset_causes`: the JobSet is finished, suspended or restarting
- `workload_causes`: the Workload was evicted, preempted or deactivated, or admission checks are pending
- `queue_causes`: the queue cannot be used, or quota is insufficient
- `queue_order`: jobs ahead, and jobs that hold quota
- `slice_causes`: what the slices controller and the cloud report about node pools
- `placement_causes`: pods that were not created or are unschedulable
- `container_causes`: containers that cannot start, crash or have failed
"""
