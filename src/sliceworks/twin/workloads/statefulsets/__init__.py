"""StatefulSets: pods with names, volumes and an order of their own."""
