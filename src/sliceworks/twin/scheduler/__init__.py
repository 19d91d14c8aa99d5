"""kube-scheduler's default profile: finds a node for each pod, or reports in kube-scheduler's words why none fits.

- `scheduler`: takes pods from the queue, schedules them and has the results written.
- `event_handlers`: update the snapshot and the queue with every change.
- `pod_queue`: active and unschedulable pods.
- `schedule_one`: the decision for one pod; `default_preemption`: the victims if no node is feasible.
- `node_plugins`, `topology_plugins`: filter and score.
- `snapshot`, `node_info`, `pod_info`: the cached cluster state.
- `volume_binding`: the claims of a pod, and the volumes that nodes reach.
- `topology_constraints`, `topology_counts`: compiled affinity and spread constraints, and counts of pods by domain.
- `binder`: writes bindings, conditions and events.
"""
