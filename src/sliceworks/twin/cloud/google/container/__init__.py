"""Google Kubernetes Engine: clusters, node pools and operations, with Nodes of the twin's cluster as their instances.

cluster_manager     routes of the container API, and the parts behind them
gke_cluster         clusters
node_pool           node pools
cluster_operation   operations on clusters and node pools
operation_steps     the steps of operations
gke_state           state that these parts share
node_pool_validation  rules of node pools
dependencies        networks, accounts, resource policies and images of other services
node_template       the machine shape of a node pool, and the Nodes of its instances
node_manager        creates, watches, drains and deletes Nodes
capacity            quotas, reservations and zone capacity
auto_repair         recreates deleted instances and repairs unhealthy ones
cluster_autoscaler  the cluster autoscaler and node auto-provisioning
managed_addons      kinds and addresses that GKE installs by the settings of a cluster
resource_names      resource paths, locations and generated names
"""
