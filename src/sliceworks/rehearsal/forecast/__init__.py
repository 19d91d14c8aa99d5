"""When queued jobs will start and end: Kueue's scheduler run forward from a snapshot, in many trials.

snapshot     the state of all queues at one time
jobs         workloads as a forecast sees them
run_time     run time distributions of jobs
arrivals     jobs that are not in the cluster yet
whatif       quota, priority, capacity and submission events of a Scenario
trial        one trial: Kueue's scheduler in virtual time
explanation  why a job does not start in a trial, and what is assumed
forecaster   many trials from one snapshot, summarized for each job
"""
