"""Load tests whose workers are pods of a cluster.

cluster_runner  creates the worker pods, follows them and deletes everything
worker_job      the Job of the workers, and the objects around it
agent           runs in each worker pod
collector       collects the request log of one pod
"""
