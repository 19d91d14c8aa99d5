"""The names by which GKE says what a node has: labels, taints and resources of TPU and GPU nodes."""

from __future__ import annotations

TPU = "google.com/tpu"
TPU_ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TPU_TOPOLOGY = "cloud.google.com/gke-tpu-topology"

GPU = "nvidia.com/gpu"
GPU_ACCELERATOR = "cloud.google.com/gke-accelerator"
GPU_DRIVER = "cloud.google.com/gke-gpu-driver-version"

ACCELERATOR_COUNT = "cloud.google.com/gke-accelerator-count"
"""How many chips or GPUs one node has."""


def taint(resource: str) -> dict[str, str]:
    """The taint that keeps pods which do not ask for the resource away from its nodes."""
    return {"key": resource, "value": "present", "effect": "NoSchedule"}
