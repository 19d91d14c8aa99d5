"""The ReplicaSets of a Deployment: how a new one is made, what its annotations say, and how old ones shrink. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.kube.resources import owner_reference
from sliceworks.twin.workloads.deployments import numbers
from sliceworks.twin.workloads.deployments.numbers import Obj, wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_NAME = 253
_LONGEST_HISTORY = 2000
_OWN = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        numbers.REVISION,
        numbers.HISTORY,
        numbers.DESIRED,
        numbers.MOST,
        "deprecated.deployment.rollback.to",
    }
)


def new_set(deployment: Obj, sets: list[Obj], revision: int) -> Obj:
    """The ReplicaSet of a Deployment's template."""
    spec, metadata, short = deployment["spec"], deployment["metadata"], numbers.template_hash(deployment)
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), numbers.HASH: short}
    selector = spec.get("selector") or {}
    made: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name'][: _LONGEST_NAME - 1 - len(short)]}-{short}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_reference(deployment)],
            "labels": labels,
        },
        "spec": {
            "replicas": numbers.next_size(deployment, sets, 0),
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), numbers.HASH: short}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }
    annotate(deployment, made, revision)
    note_sizes(deployment, made)
    return made


def annotate(deployment: Obj, newest: Obj, revision: int) -> bool:
    """Copy the Deployment's annotations to its newest set and keep count of revisions; False when all was there already."""
    annotations = newest["metadata"].setdefault("annotations", {})
    before = dict(annotations)
    copied = (deployment["metadata"].get("annotations") or {}).items()
    annotations.update({name: value for name, value in copied if name not in _OWN})
    known = annotations.get(numbers.REVISION)
    if known is not None and not known.isdigit():
        return bool(annotations != before)
    if int(known or 0) < revision:
        annotations[numbers.REVISION] = str(revision)
        if known is not None:
            _note_history(annotations, known)
    return bool(annotations != before)


def _note_history(annotations: Obj, old: str) -> None:
    history = [each for each in annotations.get(numbers.HISTORY, "").split(",") if each] + [old]
    while len(",".join(history)) > _LONGEST_HISTORY:
        del history[0]
    annotations[numbers.HISTORY] = ",".join(history)


def _sizes(deployment: Obj) -> Obj:
    return {
        numbers.DESIRED: str(wanted(deployment)),
        numbers.MOST: str(wanted(deployment) + numbers.limits(deployment)[0]),
    }


def has_other_sizes(deployment: Obj, found: Obj) -> bool:
    """Whether a set knows other sizes than the Deployment has."""
    return not (_sizes(deployment).items() <= (found["metadata"].get("annotations") or {}).items())


def note_sizes(deployment: Obj, found: Obj) -> None:
    """Tell a set the sizes that the Deployment has."""
    found["metadata"].setdefault("annotations", {}).update(_sizes(deployment))


def without_unhealthy(sets: Iterable[Obj], most: int) -> list[tuple[Obj, int]]:
    """The sizes of sets, oldest first, without at most so many pods that are not available."""
    found = []
    for each in sets:
        gone = min(most, max(0, wanted(each) - numbers.state(each, "availableReplicas")))
        most -= gone
        found.append((each, wanted(each) - gone))
    return found


def smaller(sets: Iterable[Obj], spare: int) -> list[tuple[Obj, int]]:
    """The sizes after so many pods are taken, from the oldest set first."""
    found = []
    for each in sets:
        gone = min(wanted(each), spare)
        spare -= gone
        found.append((each, wanted(each) - gone))
    return found
