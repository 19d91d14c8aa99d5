"""The scheduler: finds a node for each pod as kube-scheduler's default profile does, and says in its words why there is none."""
