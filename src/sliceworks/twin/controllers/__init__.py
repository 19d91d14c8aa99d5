"""The twin's controllers.

- `runtime`: what all controllers share (work loop, cluster access, writes, events, conditions, indexes, revisions).
- `builtin`: the controllers of kube-controller-manager.
- `jobset`, `kueue`, `config_connector`: the controllers of these projects.
- `volume_provisioner`: the storage classes and CSI drivers of GKE.
- `controller_names`: the names of controllers that a twin can be started without.
- `installation`: the components that run workloads, and what each installs in the cluster.
- `manager`: starts, stops and restarts the components of one cluster.
"""
