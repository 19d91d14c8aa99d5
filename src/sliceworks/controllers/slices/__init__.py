"""The slices controller: creates GKE node pools for unschedulable JobSets and deletes them when the JobSets end.

It uses the labels, annotations and settings of Google's TPU provisioner. Each reconcile takes a snapshot of the cluster and the
cloud, decides without I/O, and performs the actions. Reading order:

well_known               labels, annotations, conditions, event reasons
settings                 settings from file, environment and flags
model                    views, Snapshot, actions and Decision
capacity                 capacity types and candidates
node_pool_requirements   what a pod needs of its node pool
node_pool                shape, name and labels of node pools; container API
object_views             views of pods, JobSets and Workloads
placements               node pools of scheduled leaders
cluster_cache            informers
slice_requests           the slices that JobSets need
provisioner              the next step for one slice request
garbage_collection       node pools to delete
jobset_progress          suspension, conditions and admission checks
decide                   all actions for one snapshot
telemetry                metrics, events, log lines
node_pool_operations     create and delete operations
action_writer            writes to pods, JobSets and Workloads
controller               the control loop
"""
