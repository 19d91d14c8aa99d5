"""Google's container API: clusters, node pools and operations, with Kubernetes' own Nodes behind them."""
