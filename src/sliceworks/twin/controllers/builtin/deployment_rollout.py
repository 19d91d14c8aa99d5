"""The ReplicaSets of a Deployment during a rollout: sizes, revisions and annotations. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.builtin.pod_control import scaled_value
from sliceworks.twin.controllers.runtime.revisions import compute_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.resources import Object

TEMPLATE_HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
_MAX_NAME = 253
_MAX_HISTORY = 2000
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)


def desired_replicas(obj: Mapping[str, Any]) -> int:
    """spec.replicas of a Deployment or ReplicaSet."""
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def status_count(obj: Mapping[str, Any] | None, name: str) -> int:
    """A counter of an object's status."""
    return int(((obj or {}).get("status") or {}).get(name) or 0)


def total_desired(sets: Iterable[Object | None]) -> int:
    return sum(desired_replicas(replica_set) for replica_set in sets if replica_set is not None)


def total_status_count(sets: Iterable[Object | None], name: str) -> int:
    return sum(status_count(replica_set, name) for replica_set in sets)


def is_rolling_update(deployment: Object) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def surge_and_unavailable(deployment: Object) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers; if both are zero, one pod may be unavailable, or no rollout could progress."""
    if not is_rolling_update(deployment):
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    replicas = desired_replicas(deployment)
    surge = scaled_value(rolling.get("maxSurge", 0), replicas, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", 0), replicas)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, replicas)


def new_set_size(deployment: Object, sets: Iterable[Object | None], current: int) -> int:
    """The size that the new ReplicaSet, now of size `current`, may grow to."""
    if not is_rolling_update(deployment):
        return desired_replicas(deployment)
    free = desired_replicas(deployment) + surge_and_unavailable(deployment)[0] - total_desired(sets)
    return current if free <= 0 else current + min(free, desired_replicas(deployment) - current)


def active_sets(sets: Iterable[Object | None]) -> list[Object]:
    """The ReplicaSets with spec.replicas above zero."""
    return [replica_set for replica_set in sets if replica_set is not None and desired_replicas(replica_set) > 0]


def by_age(sets: Iterable[Object]) -> list[Object]:
    return sorted(sets, key=lambda replica_set: (replica_set["metadata"]["creationTimestamp"], replica_set["metadata"]["name"]))


def revision_number(obj: Mapping[str, Any]) -> int:
    value = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(value) if value.removeprefix("-").isdigit() else 0


def by_revision(sets: Iterable[Object]) -> list[Object]:
    return sorted(by_age(sets), key=revision_number)


def equals_ignoring_hash(template: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two pod templates are equal apart from the pod-template-hash label."""
    return _without_hash(template) == _without_hash(other)


def _without_hash(template: Mapping[str, Any]) -> Object:
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != TEMPLATE_HASH}
    return {"metadata": {**metadata, **({"labels": labels} if labels else {})}, "spec": template.get("spec") or {}}


def find_new_set(deployment: Object, sets: Iterable[Object]) -> Object | None:
    """The oldest ReplicaSet with the Deployment's template."""
    template = deployment["spec"]["template"]
    return next(
        (replica_set for replica_set in by_age(sets) if equals_ignoring_hash(replica_set["spec"]["template"], template)), None
    )


def template_hash(deployment: Object) -> str:
    """The pod-template-hash; it is stable, but differs from the one that Kubernetes computes."""
    return compute_hash(deployment["spec"]["template"], (deployment.get("status") or {}).get("collisionCount"))


def annotation_number(obj: Object, annotation: str) -> int | None:
    """The number in an annotation; None if it is missing or invalid."""
    value = (obj["metadata"].get("annotations") or {}).get(annotation, "")
    return int(value) if value.isascii() and value.isdigit() else None


def proportional_sizes(deployment: Object, sets: list[Object]) -> dict[str, int]:
    """The sizes of ReplicaSets by name, after the Deployment was scaled during a rollout.

    Each gets its share of the change; the largest one gets the remainder.
    """
    surge = surge_and_unavailable(deployment)[0]
    allowed = desired_replicas(deployment) + surge if desired_replicas(deployment) else 0
    change = allowed - total_desired(sets)
    ordered = by_age(sets)
    if change > 0:
        ordered.reverse()
    ordered.sort(key=desired_replicas, reverse=True)
    sizes, distributed = {}, 0
    for replica_set in ordered:
        share = _share(deployment, replica_set, allowed, change, distributed) if change else 0
        sizes[replica_set["metadata"]["name"]] = desired_replicas(replica_set) + share
        distributed += share
    if change and ordered:
        largest = ordered[0]["metadata"]["name"]
        sizes[largest] = max(0, sizes[largest] + change - distributed)
    return sizes


def _share(deployment: Object, replica_set: Object, allowed: int, change: int, distributed: int) -> int:
    if desired_replicas(replica_set) == 0 or change == distributed:
        return 0
    if desired_replicas(deployment) == 0:
        share = -desired_replicas(replica_set)
    else:
        max_replicas = annotation_number(replica_set, MAX_REPLICAS) or status_count(deployment, "replicas")
        share = (
            math.floor(desired_replicas(replica_set) * allowed / max_replicas + 0.5) - desired_replicas(replica_set)
            if max_replicas
            else 0
        )
    return min(share, change - distributed) if change > 0 else max(share, change - distributed)


def new_replica_set(deployment: Object, sets: list[Object], revision: int) -> Object:
    """A new ReplicaSet of a Deployment's template."""
    spec, metadata, pod_hash = deployment["spec"], deployment["metadata"], template_hash(deployment)
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), TEMPLATE_HASH: pod_hash}
    selector = spec.get("selector") or {}
    replica_set: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name'][: _MAX_NAME - 1 - len(pod_hash)]}-{pod_hash}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_reference(deployment)],
            "labels": labels,
        },
        "spec": {
            "replicas": new_set_size(deployment, sets, 0),
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: pod_hash}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }
    annotate_set(deployment, replica_set, revision)
    set_sizes(deployment, replica_set)
    return replica_set


def annotate_set(deployment: Object, replica_set: Object, revision: int) -> bool:
    """Copy the Deployment's annotations to its new ReplicaSet and set the revision; False if nothing changed."""
    annotations = replica_set["metadata"].setdefault("annotations", {})
    before = dict(annotations)
    copied = (deployment["metadata"].get("annotations") or {}).items()
    annotations.update({name: value for name, value in copied if name not in _NOT_COPIED})
    known = annotations.get(REVISION)
    if known is not None and not known.isdigit():
        return bool(annotations != before)
    if int(known or 0) < revision:
        annotations[REVISION] = str(revision)
        if known is not None:
            _add_to_history(annotations, known)
    return bool(annotations != before)


def _add_to_history(annotations: Object, old: str) -> None:
    history = [revision for revision in annotations.get(REVISION_HISTORY, "").split(",") if revision] + [old]
    while len(",".join(history)) > _MAX_HISTORY:
        del history[0]
    annotations[REVISION_HISTORY] = ",".join(history)


def _size_annotations(deployment: Object) -> Object:
    return {
        DESIRED_REPLICAS: str(desired_replicas(deployment)),
        MAX_REPLICAS: str(desired_replicas(deployment) + surge_and_unavailable(deployment)[0]),
    }


def has_stale_sizes(deployment: Object, replica_set: Object) -> bool:
    """Whether a ReplicaSet's size annotations differ from the Deployment's sizes."""
    return not (_size_annotations(deployment).items() <= (replica_set["metadata"].get("annotations") or {}).items())


def set_sizes(deployment: Object, replica_set: Object) -> None:
    """Write the Deployment's sizes into a ReplicaSet's annotations."""
    replica_set["metadata"].setdefault("annotations", {}).update(_size_annotations(deployment))


def scale_down(sets: Iterable[Object], limit: int, *, unavailable_only: bool = False) -> list[tuple[Object, int]]:
    """New sizes that remove up to `limit` pods, or unavailable pods, from the first ReplicaSets first."""
    sizes = []
    for replica_set in sets:
        kept = status_count(replica_set, "availableReplicas") if unavailable_only else 0
        removed = min(limit, max(0, desired_replicas(replica_set) - kept))
        limit -= removed
        sizes.append((replica_set, desired_replicas(replica_set) - removed))
    return sizes
