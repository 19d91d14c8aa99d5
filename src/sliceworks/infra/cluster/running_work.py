"""Jobs and models that run on nodes of a cluster: what a change of its node pools would end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.catalog.labels import JOBSET_NAME, MODEL_SERVICE, NODE_POOL
from sliceworks.kube.resources import NODE, POD

if TYPE_CHECKING:
    from collections.abc import Collection

    from sliceworks.kube.client import Client

_ENDED = ("Succeeded", "Failed")
_NOUNS = {JOBSET_NAME: "job", MODEL_SERVICE: "model"}


async def find_running_work(client: Client, pools: Collection[str] | None = None) -> list[str]:
    """Jobs and models with pods on nodes of these node pools, or of any; as `job NAMESPACE/NAME`."""
    nodes = {
        str(node["metadata"]["name"])
        for node in (await client.list_all(NODE)).items
        if pools is None or (node["metadata"].get("labels") or {}).get(NODE_POOL) in pools
    }
    work = set()
    for pod in (await client.list_all(POD)).items:
        if pod["spec"].get("nodeName") not in nodes or (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        work |= {f"{noun} {metadata['namespace']}/{labels[label]}" for label, noun in _NOUNS.items() if label in labels}
    return sorted(work)
