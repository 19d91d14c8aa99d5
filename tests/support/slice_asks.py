"""Pods that ask for pools, as the tests of the slices controller write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.controllers.slices import asks

if TYPE_CHECKING:
    from sliceworks.controllers.slices.asks import Ask

TPU = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", "cloud.google.com/gke-tpu-topology": "2x2x4"}
GPU = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}


def pod(selector: dict[str, str], *requests: dict[str, Any], **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata and spec of a pod."""
    containers = [{"resources": {"requests": each}} for each in requests]
    metadata: dict[str, Any] = {name: more.pop(name) for name in ("labels", "annotations") if name in more}
    return metadata, {"nodeSelector": selector, "containers": containers, **more}


def read(selector: dict[str, str], *requests: dict[str, Any], pods: int = 1, **more: Any) -> Ask:
    metadata, spec = pod(selector, *requests, **more)
    kind = asks.wanted(metadata, spec)
    assert kind is not None
    return asks.of_job(asks.read(kind, metadata, spec, ("team",)), pods)
