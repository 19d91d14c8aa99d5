"""Exclusive placement: the pod webhooks that give each Job its own topology domain.

JobSet's pod reconciler is left out: in this version it only writes to its log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.jobset import jobset_api
from sliceworks.twin.controllers.jobset.jobset_validation import denied
from sliceworks.twin.controllers.runtime.pod_index import COMPLETION_INDEX
from sliceworks.twin.controllers.runtime.resource_keys import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission
    from sliceworks.twin.controllers.jobset.jobset_api import Obj
    from sliceworks.twin.controllers.runtime.controller import Change


@dataclass(frozen=True, slots=True)
class LeaderPod:
    """A pod with completion index 0, its owner's UID and its node."""

    name: str
    owner: str
    node: str


class _LeaderNotFound(Exception):
    """The leader pod of a follower is missing or belongs to another Job."""


class LeaderPods:
    """Index of the leader pods of exclusively placed Jobs, and the webhooks that use it."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, str], dict[str, LeaderPod]] = {}

    def observe(self, change: Change) -> None:
        pod = change.obj
        metadata = pod["metadata"]
        is_exclusive = jobset_api.EXCLUSIVE_TOPOLOGY in (metadata.get("annotations") or ())
        if not is_exclusive or not _is_leader(metadata) or change.name.count("-") < 4:
            return
        key = (change.namespace, change.name.rpartition("-")[0])
        leaders = self._leaders.setdefault(key, {})
        leaders.pop(change.name, None)
        if change.type != "DELETED" and "deletionTimestamp" not in metadata:
            leaders[change.name] = LeaderPod(change.name, _owner_uid(pod), pod["spec"].get("nodeName", ""))
        if not leaders:
            del self._leaders[key]

    def mutate(self, ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        """Set the affinities of a leader, and the node selector of a follower to its leader's domain."""
        metadata, spec = obj["metadata"], obj["spec"]
        if not _uses_webhooks(metadata):
            return
        if spec.get("priority") is not None:
            metadata["labels"][jobset_api.PRIORITY] = str(spec["priority"])
        key = metadata["annotations"].get(jobset_api.EXCLUSIVE_TOPOLOGY)
        if key is None:
            return
        if _is_leader(metadata):
            _set_exclusive_affinities(metadata, spec, key)
            return
        try:
            leader = self._leader(ctx.namespace, obj)
        except _LeaderNotFound:
            return  # `validate` denies the pod
        if leader.node:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), key: _topology_domain(ctx, leader.node, key)}

    def validate(self, ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        """Deny followers whose leader is not scheduled yet."""
        metadata = obj["metadata"]
        if not _uses_webhooks(metadata) or jobset_api.EXCLUSIVE_TOPOLOGY not in metadata["annotations"] or _is_leader(metadata):
            return
        key, selector = metadata["annotations"][jobset_api.EXCLUSIVE_TOPOLOGY], obj["spec"].get("nodeSelector")
        if not selector:
            raise _denied("follower pod node selector not set")
        if key not in selector:
            raise _denied(f"follower pod node selector for topology domain not found. missing selector: {key}")
        try:
            leader = self._leader(ctx.namespace, obj)
        except _LeaderNotFound as error:
            raise _denied(str(error)) from error
        if not leader.node:
            raise _denied("leader pod not yet scheduled, not creating follower pod. this is an expected, transient error")

    def _leader(self, namespace: str, pod: Obj) -> LeaderPod:
        labels = pod["metadata"]["labels"]
        for key in (jobset_api.NAME_LABEL, jobset_api.REPLICATED_JOB, jobset_api.JOB_INDEX):
            if key not in labels:
                raise _LeaderNotFound(f"pod missing label: {key}")
        name = f"{labels[jobset_api.NAME_LABEL]}-{labels[jobset_api.REPLICATED_JOB]}-{labels[jobset_api.JOB_INDEX]}-0"
        leaders = list(self._leaders.get((namespace, name), {}).values())
        if len(leaders) != 1:
            raise _LeaderNotFound(f"expected 1 leader pod ({name}), but got {len(leaders)}. this is an expected, transient error")
        leader, owner = leaders[0], _owner_uid(pod)
        if not owner:
            raise _LeaderNotFound("follower pod has no owner reference")
        if not leader.owner:
            raise _LeaderNotFound(f'leader pod "{leader.name}" has no owner reference')
        if owner != leader.owner:
            raise _LeaderNotFound(f"follower pod owner UID ({owner}) != leader pod owner UID ({leader.owner})")
        return leader


def _uses_webhooks(metadata: Obj) -> bool:
    """Whether a pod belongs to a JobSet that does not use the node selector strategy."""
    annotations = metadata.get("annotations") or {}
    return (
        jobset_api.NAME_LABEL in (metadata.get("labels") or ())
        and jobset_api.NAME_LABEL in annotations
        and jobset_api.NODE_SELECTOR_STRATEGY not in annotations
    )


def _is_leader(metadata: Obj) -> bool:
    return (metadata.get("annotations") or {}).get(COMPLETION_INDEX) == "0"


def _owner_uid(pod: Obj) -> str:
    return str((controller_of(pod) or {}).get("uid", ""))


def _denied(message: str) -> Forbidden:
    return denied("vpod.kb.io", Forbidden(message))


def _topology_domain(ctx: Admission, node: str, key: str) -> str:
    obj = ctx.get(NODES, "", node)
    if obj is None:
        raise denied("mpod.kb.io", NotFound(f'Node "{node}" not found', details={"name": node, "kind": "Node"}))
    labels = obj["metadata"].get("labels") or {}
    if key not in labels:
        raise denied("mpod.kb.io", Forbidden(f"node does not have topology label: {key}"))
    return str(labels[key])


def _set_exclusive_affinities(metadata: Obj, spec: Obj, key: str) -> None:
    """Affinity to the pods of the same Job, anti-affinity to those of other Jobs with the same priority."""
    labels = metadata["labels"]
    own_key = [labels.get(jobset_api.JOB_KEY, "")]
    others = [
        {"key": jobset_api.JOB_KEY, "operator": "Exists"},
        {"key": jobset_api.JOB_KEY, "operator": "NotIn", "values": own_key},
        {"key": jobset_api.PRIORITY, "operator": "In", "values": [labels.get(jobset_api.PRIORITY, "")]},
    ]
    affinity = spec.setdefault("affinity", {})
    for field, expressions in (
        ("podAffinity", [{"key": jobset_api.JOB_KEY, "operator": "In", "values": own_key}]),
        ("podAntiAffinity", others),
    ):
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": key, "namespaceSelector": {}}
        affinity.setdefault(field, {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
