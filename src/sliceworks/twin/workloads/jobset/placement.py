"""One Job per topology domain: the leader pod keeps others away, the other pods of its Job follow it.

JobSet also looks at followers after the fact; in this version that only ever writes to its own log, so it is not done here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.twin.workloads.jobset import keys
from sliceworks.twin.workloads.jobset.keys import Obj, controller_uid
from sliceworks.twin.workloads.jobset.validation import denied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.admission.context import Admission
    from sliceworks.twin.controllers.loop import Change

_MARK = keys.EXCLUSIVE.encode()


@dataclass(frozen=True, slots=True)
class Leader:
    """What matters of a pod with completion index 0."""

    name: str
    owner: str
    node: str


class _NoLeader(Exception):
    """There is no leader to follow, and why."""


class Leaders:
    """Knows the leader pods of Jobs that are placed exclusively; changes and judges pods with that knowledge."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, str], dict[str, Leader]] = {}

    def observe(self, change: Change) -> None:
        if change.resource != keys.PODS or _MARK not in change.entry.data:
            return
        pod = change.obj
        metadata = pod["metadata"]
        if not _is_leader(metadata) or change.name.count("-") < 4:
            return
        place = (change.namespace, change.name.rpartition("-")[0])
        known = self._leaders.setdefault(place, {})
        known.pop(change.name, None)
        if change.type != "DELETED" and "deletionTimestamp" not in metadata:
            known[change.name] = Leader(change.name, controller_uid(metadata), pod["spec"].get("nodeName", ""))
        if not known:
            del self._leaders[place]

    def place(self, ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        """Give a leader its affinities, and a follower the domain of its leader."""
        metadata, spec = obj["metadata"], obj["spec"]
        if not _concerned(metadata):
            return
        if spec.get("priority") is not None:
            metadata["labels"][keys.PRIORITY] = str(spec["priority"])
        key = metadata["annotations"].get(keys.EXCLUSIVE)
        if key is None:
            return
        if _is_leader(metadata):
            _keep_others_away(metadata, spec, key)
            return
        try:
            leader = self._leader(ctx.namespace, metadata)
        except _NoLeader:
            return  # it is refused below
        if leader.node:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), key: _domain(ctx, leader.node, key)}

    def check(self, ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        """Refuse followers whose leader has no node yet."""
        metadata = obj["metadata"]
        if not _concerned(metadata) or keys.EXCLUSIVE not in metadata["annotations"] or _is_leader(metadata):
            return
        key, selector = metadata["annotations"][keys.EXCLUSIVE], obj["spec"].get("nodeSelector")
        if not selector:
            raise _refused("follower pod node selector not set")
        if key not in selector:
            raise _refused(f"follower pod node selector for topology domain not found. missing selector: {key}")
        try:
            leader = self._leader(ctx.namespace, metadata)
        except _NoLeader as error:
            raise _refused(str(error)) from error
        if not leader.node:
            raise _refused("leader pod not yet scheduled, not creating follower pod. this is an expected, transient error")

    def _leader(self, namespace: str, metadata: Obj) -> Leader:
        labels = metadata["labels"]
        for key in (keys.NAME, keys.REPLICATED_JOB, keys.JOB_INDEX):
            if key not in labels:
                raise _NoLeader(f"pod missing label: {key}")
        name = f"{labels[keys.NAME]}-{labels[keys.REPLICATED_JOB]}-{labels[keys.JOB_INDEX]}-0"
        found = list(self._leaders.get((namespace, name), {}).values())
        if len(found) != 1:
            raise _NoLeader(f"expected 1 leader pod ({name}), but got {len(found)}. this is an expected, transient error")
        follower = controller_uid(metadata)
        if not follower:
            raise _NoLeader("follower pod has no owner reference")
        if not found[0].owner:
            raise _NoLeader(f'leader pod "{found[0].name}" has no owner reference')
        if follower != found[0].owner:
            raise _NoLeader(f"follower pod owner UID ({follower}) != leader pod owner UID ({found[0].owner})")
        return found[0]


def _concerned(metadata: Obj) -> bool:
    """Whether a pod belongs to a JobSet that leaves placement to JobSet."""
    annotations = metadata.get("annotations") or {}
    return keys.NAME in (metadata.get("labels") or ()) and keys.NAME in annotations and keys.NODE_SELECTOR not in annotations


def _is_leader(metadata: Obj) -> bool:
    return (metadata.get("annotations") or {}).get(keys.COMPLETION_INDEX) == "0"


def _refused(text: str) -> Forbidden:
    return denied("vpod.kb.io", Forbidden(text))


def _domain(ctx: Admission, node: str, key: str) -> str:
    found = ctx.get(keys.NODES, "", node)
    if found is None:
        raise denied("mpod.kb.io", NotFound(f'Node "{node}" not found', details={"name": node, "kind": "Node"}))
    labels = found["metadata"].get("labels") or {}
    if key not in labels:
        raise denied("mpod.kb.io", Forbidden(f"node does not have topology label: {key}"))
    return str(labels[key])


def _keep_others_away(metadata: Obj, spec: Obj, key: str) -> None:
    """Affinity to the pods of its own Job, anti-affinity to those of other Jobs with the same priority."""
    labels = metadata["labels"]
    own = [labels.get(keys.JOB_KEY, "")]
    others = [
        {"key": keys.JOB_KEY, "operator": "Exists"},
        {"key": keys.JOB_KEY, "operator": "NotIn", "values": own},
        {"key": keys.PRIORITY, "operator": "In", "values": [labels.get(keys.PRIORITY, "")]},
    ]
    affinity = spec.setdefault("affinity", {})
    for field, expressions in (
        ("podAffinity", [{"key": keys.JOB_KEY, "operator": "In", "values": own}]),
        ("podAntiAffinity", others),
    ):
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": key, "namespaceSelector": {}}
        affinity.setdefault(field, {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
