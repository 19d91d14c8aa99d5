"""The controllers of kube-controller-manager.

pod_control                                                                       what controllers of pods share
replicaset_controller                                                             ReplicaSets, ReplicationControllers
deployment_controller, deployment_rollout, deployment_progress                    Deployments
statefulset_controller, statefulset_identity                                      StatefulSets
daemonset_controller, daemonset_plan                                              DaemonSets
job_controller, job_state, job_status, job_policy, indexed_job                    Jobs
cronjob_controller                                                                CronJobs
podautoscaler_controller, replica_calculator, metric_source, autoscaler_behavior  HorizontalPodAutoscalers
disruption_controller                                                             PodDisruptionBudgets
service_controller, endpoints_controller, endpoints_reconciler                    Endpoints of Services
endpointslice_controller, endpointslice_reconciler                                EndpointSlices of Services
endpointslicemirroring_controller                                                 EndpointSlices of other Endpoints
garbage_collector, dependency_graph                                               owners and dependents
namespace_controller, resource_quota_controller                                   namespaces and their quotas
serviceaccount_controller, serviceaccount_tokens, clusterrole_aggregation         accounts and roles
admission_policy_status                                                           types of expressions of admission policies
node_lifecycle, taint_eviction, pod_gc                                            nodes that stop reporting, and their pods
persistentvolume_controller, volume_index                                         claims and their volumes
persistentvolume_expander, ephemeral_volume_controller                            claims that grow, claims of pods
storage_protection                                                                claims and volumes in use
"""

from __future__ import annotations
