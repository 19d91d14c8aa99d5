"""Labels of training jobs and words for how they stand, where they can be had without loading anything else."""

from __future__ import annotations

TYPE = "sliceworks.dev/type"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
RUNS = ("running", "starting", "restarting")
WAITS = ("queued", "suspended")
ENDED = ("failed", "completed")
STATES = (*RUNS, *WAITS, *ENDED)
