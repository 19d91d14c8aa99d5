"""The reference of the causes that `train why` knows."""

from __future__ import annotations

from sliceworks.training.why import kinds

_OPENING = """\
# Why a job waits: all causes

What [`sliceworks train why`](../how-to/why-a-job-waits.md) may answer. This page is made from the program by `make fix`. The first
column is `cause` in `-o json`; the last is what to do where nothing closer is known. An answer has all causes that hold at once,
the one to look at first before the others, each with the object and field that it was read from.
"""
_LAYERS = {
    kinds.JOB: "Read from the JobSet: its conditions, `spec.suspend`, and its Jobs.",
    kinds.QUEUE: "Read from the job's Workload, its LocalQueue and ClusterQueue, the cohort, flavors, and Kueue's visibility API.",
    kinds.CHECK: "Read from `status.admissionChecks` of the Workload, and from the AdmissionCheck.",
    kinds.PLACE: "Read from the job's pods, the events of its Jobs, and the nodes that its pods select.",
    kinds.SLICE: "Read from what the slice controller writes on the JobSet and its pods, from node pools and operations.",
    kinds.CONTAINER: "Read from the containers' states in the pods, and from the pods' events.",
}


def causes() -> str:
    """The page."""
    parts = [_OPENING]
    for layer, told in _LAYERS.items():
        rows = [f"| `{each.name}` | {each.title} | {each.remedy} |\n" for each in kinds.KINDS if each.layer == layer]
        parts.append(
            f"## {layer.capitalize()}\n\n{told}\n\n| cause | the job … | what to do |\n| --- | --- | --- |\n{''.join(rows)}"
        )
    return "\n".join(parts)
