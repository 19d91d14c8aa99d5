"""The controllers that run in a real cluster.

manager   leader election, probes, metrics endpoint, rate limit, shutdown
graphs    serves ResourceGraphDefinitions, compatible with kro
slices    creates and deletes GKE node pools for JobSets, compatible with Google's TPU provisioner
"""
