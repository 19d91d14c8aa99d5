"""Services whose resources are what they were asked to be: stored, echoed with what the cloud adds, and removed.

Networks, accounts, buckets, registries, topics, datasets: nothing runs in them here, and so one frame serves them all.
"""
