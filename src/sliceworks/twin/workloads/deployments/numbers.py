"""How many pods each ReplicaSet of a Deployment may have. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.hashes import safe_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"

Obj = dict[str, Any]


def wanted(found: Mapping[str, Any]) -> int:
    """The replicas that a Deployment or ReplicaSet asks for."""
    replicas = found["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def state(found: Mapping[str, Any] | None, name: str) -> int:
    """A number of a ReplicaSet's status."""
    return int(((found or {}).get("status") or {}).get(name) or 0)


def total_wanted(sets: Iterable[Obj | None]) -> int:
    return sum(wanted(each) for each in sets if each is not None)


def total(sets: Iterable[Obj | None], name: str) -> int:
    return sum(state(each, name) for each in sets)


def is_rolling(deployment: Obj) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def limits(deployment: Obj) -> tuple[int, int]:
    """How many pods there may be too many, and how many too few. Both zero would never move: then one may be missing."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    replicas = wanted(deployment)
    surge, missing = scaled(rolling.get("maxSurge", 0), replicas, up=True), scaled(rolling.get("maxUnavailable", 0), replicas)
    if not surge and not missing:
        missing = 1
    return surge, min(missing, replicas)


def scaled(value: int | str, whole: int, *, up: bool = False) -> int:
    """A number, or a percentage of a whole."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * whole
    return -(-part // 100) if up else part // 100


def next_size(deployment: Obj, sets: Iterable[Obj | None], newest: int) -> int:
    """The size that the newest set, of size `newest`, may grow to now."""
    if not is_rolling(deployment):
        return wanted(deployment)
    room = wanted(deployment) + limits(deployment)[0] - total_wanted(sets)
    return newest if room <= 0 else newest + min(room, wanted(deployment) - newest)


def active(sets: Iterable[Obj | None]) -> list[Obj]:
    """Those sets that are to have pods."""
    return [each for each in sets if each is not None and wanted(each) > 0]


def by_age(sets: Iterable[Obj]) -> list[Obj]:
    return sorted(sets, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))


def revision(found: Mapping[str, Any]) -> int:
    text = (found["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.removeprefix("-").isdigit() else 0


def by_revision(sets: Iterable[Obj]) -> list[Obj]:
    return sorted(by_age(sets), key=revision)


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two templates are equal but for the hash that a ReplicaSet's has."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Mapping[str, Any]) -> Obj:
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != HASH}
    return {"metadata": {**metadata, **({"labels": labels} if labels else {})}, "spec": template.get("spec") or {}}


def newest_of(deployment: Obj, sets: Iterable[Obj]) -> Obj | None:
    """The set that has the Deployment's own template: the oldest, should there be several."""
    template = deployment["spec"]["template"]
    return next((each for each in by_age(sets) if same_template(each["spec"]["template"], template)), None)


def template_hash(deployment: Obj) -> str:
    """The short name of a template, in Kubernetes' letters. It is stable, but not the one that Kubernetes computes."""
    return safe_hash(deployment["spec"]["template"], (deployment.get("status") or {}).get("collisionCount"))


def number(found: Obj, annotation: str) -> int | None:
    """A number that an annotation holds; None when it holds none."""
    text = (found["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() else None


def proportions(deployment: Obj, sets: list[Obj]) -> dict[str, int]:
    """The sizes of sets in the middle of a rollout after the Deployment was scaled: each gets its share, the largest the rest."""
    surge = limits(deployment)[0]
    allowed = wanted(deployment) + surge if wanted(deployment) else 0
    change = allowed - total_wanted(sets)
    ordered = by_age(sets)
    if change > 0:
        ordered.reverse()
    ordered.sort(key=wanted, reverse=True)
    sizes, given = {}, 0
    for each in ordered:
        part = _share(deployment, each, allowed, change, given) if change else 0
        sizes[each["metadata"]["name"]] = wanted(each) + part
        given += part
    if change and ordered:
        first = ordered[0]["metadata"]["name"]
        sizes[first] = max(0, sizes[first] + change - given)
    return sizes


def _share(deployment: Obj, found: Obj, allowed: int, change: int, given: int) -> int:
    if wanted(found) == 0 or change == given:
        return 0
    if wanted(deployment) == 0:
        share = -wanted(found)
    else:
        before = number(found, MOST) or state(deployment, "replicas")
        share = math.floor(wanted(found) * allowed / before + 0.5) - wanted(found) if before else 0
    return min(share, change - given) if change > 0 else max(share, change - given)
