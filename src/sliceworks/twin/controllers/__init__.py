"""The controllers without which an API is no cluster: garbage, namespaces, service accounts, quotas, roles, storage."""
