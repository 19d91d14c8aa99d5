"""TrainingJobs: document in, JobSet out; submission, status, logs, queues, diagnosis.

Modules, in reading order:

- `submission`: loads and validates a TrainingJob
- `slice_request`: the slices that a job requests
- `jobset`, `pod_template`: compile a TrainingJob into a JobSet
- `queues`: Kueue objects of an environment
- `pod_fit`, `quota`, `flavor_fit`, `admissibility`: whether a queue can ever admit a job
- `lifecycle`: cancels, restarts and resubmits jobs
- `status`, `timeline`, `log_source`: the state, history and logs of a job
- `queue_status`: quota, usage and pending workloads of queues
- `diagnosis`: why a job is pending, starts slowly or has failed
"""
