"""The variables that GKE gives the containers of a TPU slice: pure, from the pod and the Job it belongs to."""

from __future__ import annotations

from math import prod
from typing import Any

from sliceworks.twin.nodes.processes.hosts import hostname

Obj = dict[str, Any]
RESOURCE = "google.com/tpu"
MEGASCALE_PORT = "8080"
_ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
_TOPOLOGY = "cloud.google.com/gke-tpu-topology"
_INDEX = "batch.kubernetes.io/job-completion-index"
_SLICES = ("jobset.sigs.k8s.io/global-replicas", "jobset.sigs.k8s.io/replicatedjob-replicas")
_SLICE = ("jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-index")

# The name of a slice counts chips, or cores where a chip has two of them.
_TYPES = {
    "tpu-v4-podslice": ("v4", 2),
    "tpu-v5-lite-podslice": ("v5litepod", 1),
    "tpu-v5-lite-device": ("v5litepod", 1),
    "tpu-v5p-slice": ("v5p", 2),
    "tpu-v6e-slice": ("v6e", 1),
    "tpu7x": ("tpu7x", 2),
}


def requests_tpu(container: Obj) -> bool:
    """Whether a container asks for TPU chips."""
    resources = container.get("resources") or {}
    return any(RESOURCE in (resources.get(part) or {}) for part in ("limits", "requests"))


def tpu_variables(pod: Obj, container: Obj, job: Obj | None) -> dict[str, str]:
    """What a container that asks for TPU chips is given; nothing for others."""
    if not requests_tpu(container):
        return {}
    metadata, spec = pod["metadata"], pod["spec"]
    known = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    subdomain, hosts = spec.get("subdomain") or "", _hosts(job)
    variables = {"TPU_WORKER_ID": known.get(_INDEX, "0"), "TPU_WORKER_HOSTNAMES": "localhost", "TPU_SKIP_MDS_QUERY": "true"}
    if job is not None and subdomain and _INDEX in known:
        name = job["metadata"]["name"]
        variables["TPU_WORKER_HOSTNAMES"] = ",".join(f"{name}-{index}.{subdomain}" for index in range(hosts))
    elif subdomain:
        variables["TPU_WORKER_HOSTNAMES"] = f"{hostname(pod)}.{subdomain}"
    selector = spec.get("nodeSelector") or {}
    if topology := selector.get(_TOPOLOGY):
        variables["TPU_TOPOLOGY"] = topology
        if named := _TYPES.get(selector.get(_ACCELERATOR, "")):
            variables["TPU_ACCELERATOR_TYPE"] = f"{named[0]}-{prod(int(side) for side in topology.split('x')) * named[1]}"
    return {**variables, **_megascale(known, subdomain)}


def _hosts(job: Obj | None) -> int:
    spec = (job or {}).get("spec") or {}
    return int(spec.get("completions") or spec.get("parallelism") or 1)


def _megascale(known: dict[str, str], subdomain: str) -> dict[str, str]:
    """What joins several slices into one job."""
    slices = next((known[name] for name in _SLICES if name in known), "1")
    if int(slices) < 2:
        return {}
    name, replicated = known["jobset.sigs.k8s.io/jobset-name"], known["jobset.sigs.k8s.io/replicatedjob-name"]
    return {
        "MEGASCALE_NUM_SLICES": slices,
        "MEGASCALE_SLICE_ID": next((known[label] for label in _SLICE if label in known), "0"),
        "MEGASCALE_COORDINATOR_ADDRESS": f"{name}-{replicated}-0-0.{subdomain or name}",
        "MEGASCALE_PORT": MEGASCALE_PORT,
    }
