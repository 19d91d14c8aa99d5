"""Why an object of an instance is not ready: from its conditions, its pods and their events.

Pods and events are read only while a workload is not ready. They are not watched, so the instance is reconciled again after
`POLL` seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import ApiError, Forbidden, Unreachable
from sliceworks.catalog.labels import JOBSET_NAME
from sliceworks.graph.rbac import WORKLOADS
from sliceworks.kube import pod_diagnosis
from sliceworks.kube.resources import CORE_EVENT, POD
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.graph.model import Node
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object
    from sliceworks.kube.selectors import LabelSelector

POLL = 15.0
"""Seconds until the causes are read again."""
_PODS_OF = {"JobSet": JOBSET_NAME, "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name"}
_FAILURES = (("Ready", "False"), ("Failed", "True"), ("ReplicaFailure", "True"), ("Progressing", "False"), ("Available", "False"))
_MAX_PODS = 50


def condition_cause(obj: Object) -> str:
    """`Kind name: reason: message` of the condition that says why an object is not ready; empty if no condition does."""
    name = f"{obj.get('kind')} {obj['metadata']['name']}"
    for kind, status in _FAILURES:
        condition = find_condition(obj, kind)
        if condition.get("status") == status:
            parts = [str(part) for part in (condition.get("reason"), condition.get("message")) if part]
            return ": ".join([name, *(parts or [f"{kind} is {status}"])])
    return ""


class ReadinessCauses:
    """Finds causes with the client of the controller. Without permission to list pods it uses conditions only."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_forbidden = False

    def polls(self, node: Node) -> bool:
        """Whether the causes of a node must be read again, because nothing reports their change."""
        return node.kind.kind in WORKLOADS and not self._is_forbidden

    async def find(self, node: Node, objects: Iterable[Object]) -> str:
        """The first cause of an object of a node that is not ready; empty if none is known."""
        for obj in objects:
            if cause := await self._pod_cause(obj) if self.polls(node) else "":
                return cause
            if cause := condition_cause(obj):
                return cause
        return ""

    async def _pod_cause(self, obj: Object) -> str:
        """The cause of a workload that its pods or its events show."""
        try:
            pods = await self._pods(obj)
            jobs = [obj] if obj["kind"] == "Job" else []
            unready = [pod for pod in pods if not is_condition_true(pod, "Ready")]
            failures = pod_diagnosis.explain(unready, jobs, ())
            if failures and not isinstance(failures[0], pod_diagnosis.PendingCause):
                return str(failures[0])
            events = await self._events(unready[0] if unready else obj)
            causes = pod_diagnosis.explain(unready, jobs, events)
        except Forbidden:
            self._is_forbidden = True
            return ""
        except (ApiError, Unreachable):
            return ""
        return str(causes[0]) if causes else ""

    async def _pods(self, obj: Object) -> list[Object]:
        if obj["kind"] == "Pod":
            return [obj]
        selector = _pod_selector(obj)
        if selector is None:
            return []
        return (await self._client.list(POD, obj["metadata"]["namespace"], labels=selector, limit=_MAX_PODS)).items

    async def _events(self, obj: Object) -> list[Object]:
        fields = f"involvedObject.uid={obj['metadata']['uid']}"
        return (await self._client.list(CORE_EVENT, obj["metadata"]["namespace"], fields=fields)).items


def _pod_selector(obj: Object) -> LabelSelector | str | None:
    if label := _PODS_OF.get(obj["kind"]):
        return f"{label}={obj['metadata']['name']}"
    selector = (obj.get("spec") or {}).get("selector")
    return from_label_selector(selector) if selector else None
