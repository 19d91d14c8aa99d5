"""CEL, pure: typed environments made from schemas, and Kubernetes' function libraries."""
