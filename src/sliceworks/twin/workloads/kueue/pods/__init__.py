"""Pods in queues: alone, in groups, and as those of Deployments. They are held by a gate, and deleted to be stopped."""
