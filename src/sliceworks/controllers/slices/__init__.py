"""Slices on demand: node pools for JobSets that cannot be scheduled, and their return when the JobSets end.

    watching → world → decide → actions → performing

What should be done is decided by pure functions from a picture of the cluster and the cloud; one place performs it.
"""
