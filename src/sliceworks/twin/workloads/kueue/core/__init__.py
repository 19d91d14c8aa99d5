"""Kueue's decisions, pure: quotas, flavors, preemption, queues and the cycle that joins them. No I/O and no clock."""
