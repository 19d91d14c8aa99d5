"""Reads the side of a job that runs: its Jobs and pods, their events, and the nodes that pods without a place want."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import JOBSET_NAME
from sliceworks.kube.well_known import CORE_EVENT, JOB, NODE, PERSISTENT_VOLUME_CLAIM, POD
from sliceworks.training.why import hosts, matching, placement
from sliceworks.training.why.evidence import owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.training.why.reading import Reader

Object = dict[str, Any]
_MOST_PODS = 1000
_ASKED = 4  # so many objects of a kind are asked about more closely


class PodSide:
    """Reads into `found`, by the names that evidence has for it."""

    def __init__(self, read: Reader, namespace: str, found: Object) -> None:
        self._read, self._namespace, self._found = read, namespace, found

    async def read(self, name: str) -> None:
        """The Jobs and pods of a JobSet; for those that wait, what was told of them, and the nodes they wait for."""
        chosen = f"{JOBSET_NAME}={name}"
        jobs, pods = await asyncio.gather(
            self._read.items(JOB, self._namespace, labels=chosen),
            self._read.items(POD, self._namespace, labels=chosen, limit=_MOST_PODS),
        )
        pods = [pod for pod in pods or () if "deletionTimestamp" not in pod["metadata"] or pod["status"].get("phase") == "Failed"]
        self._found |= {"jobs": jobs or [], "pods": pods}
        waiting = [pod for pod in pods if pod["status"].get("phase") == "Pending"]
        short = [
            job
            for job in jobs or ()
            if int((job.get("status") or {}).get("active") or 0) < int(job["spec"].get("parallelism") or 1)
        ]
        tasks = [self.told("Pod", pod["metadata"]["name"]) for pod in waiting[:_ASKED]]
        tasks += [self.told("Job", job["metadata"]["name"]) for job in short[:_ASKED]]
        waiting = placement.unplaced(tuple(pods))
        await asyncio.gather(*tasks, self._nodes(waiting), self._claims(waiting))

    async def _nodes(self, unplaced: list[Object]) -> None:
        """The nodes that pods without a place select; where there are none, which of their labels no node has."""
        alike = {placement.selector_of(pod): pod for pod in unplaced}
        self._found |= {"nodes": {}, "lone_labels": {}, "guests": {}}
        for selector, pod in list(alike.items())[:_ASKED]:
            nodes = await self._read.items(NODE, None, labels=selector, limit=hosts.MOST)
            if nodes is None:
                return
            self._found["nodes"][selector] = tuple(nodes)
            if nodes:
                await self._guests(nodes, pod)
            else:
                await self._lone(f"{key}={value}" for key, value in (pod["spec"].get("nodeSelector") or {}).items())

    async def _lone(self, chosen: Iterable[str]) -> None:
        alone = list(chosen)
        found = await asyncio.gather(*(self._read.items(NODE, None, labels=each, limit=1) for each in alone))
        self._found["lone_labels"] |= {label: bool(nodes) for label, nodes in zip(alone, found, strict=True)}

    async def _guests(self, nodes: list[Object], waiting: Object) -> None:
        """Who is on the nodes that would fit: where a pod waits for chips, those who have them."""
        names = [each["metadata"]["name"] for each in nodes[:_ASKED]]
        chosen = "spec.nodeName={},status.phase=Running"
        found = await asyncio.gather(
            *(self._read.items(POD, None, fields=chosen.format(name), limit=100, quiet=True) for name in names)
        )
        scarce = {name for name in matching.requests(waiting["spec"]) if "/" in name}
        for name, pods in zip(names, found, strict=True):
            there = (pod for pod in pods or () if not scarce or scarce & matching.requests(pod["spec"]).keys())
            self._found["guests"][name] = tuple(dict.fromkeys(_whose(pod) for pod in there))

    async def _claims(self, unplaced: list[Object]) -> None:
        names = list(dict.fromkeys(name for pod in unplaced for name in placement.claims_of(pod)))[:_ASKED]
        found = await asyncio.gather(*(self._read.get(PERSISTENT_VOLUME_CLAIM, name, self._namespace) for name in names))
        if "PersistentVolumeClaim" not in self._read.hidden:
            self._found["claims"] = dict(zip(names, found, strict=True))

    async def told(self, kind: str, name: str) -> None:
        """The events about one object."""
        chosen = f"involvedObject.kind={kind},involvedObject.name={name}"
        found = await self._read.items(CORE_EVENT, self._namespace, fields=chosen, limit=100, quiet=True)
        self._found["events"] = [*self._found.get("events", ()), *(found or ())]


def _whose(pod: Object) -> str:
    """The job that a pod belongs to, as people know it."""
    metadata = pod["metadata"]
    named = (metadata.get("labels") or {}).get(JOBSET_NAME) or owner(pod)
    return f"{metadata['namespace']}/{named}"
