"""Objects that `env apply` installs in an Environment's cluster: composed as data, applied by our client.

- `inventory`: steps of objects, results, and the ConfigMap that records applied objects
- `addon`: pinned releases of JobSet, Kueue and Config Connector
- `mesh`: injection labels and the ingress gateway of the service mesh
- `self_service`: Config Connector, published graphs and their roles
- `composition`: from an Environment to ordered steps
- `applier`: applies steps, waits, prunes and previews
- `running_work`: jobs and models that a change of node pools would end
- `destroyer`: deletes everything in a safe order
"""
