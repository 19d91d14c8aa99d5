"""View models: pure functions of the cluster cache, tested without a browser.

hosts                     one TPU or GPU host: state, work and problem
slice_view, slice_svg     slices, and the drawing of one
queue_view, queue_reason  queues, and why workloads are pending
start_forecast            predicted starts of pending workloads
job_view                  training jobs: rows, queries, and one job
model_view, latency_view  model services, and their live latency
graph_view                definitions and instances with their state
environment_view          stages, resources and drift
load_test_view            load test runs on disk
incidents                 recent incidents
cluster_summary           the overview
chip_usage                the chips that pods occupy
team_usage                chips and cost of each team over time
timeline                  events and chip usage of a cluster over time
faults                    faults that the console can inject into a twin
"""
