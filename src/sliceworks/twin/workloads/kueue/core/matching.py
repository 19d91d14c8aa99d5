"""Whether pods can run on the nodes of a flavor: its taints, and the labels that their selectors and affinities name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.scheduler.selection import Tolerations, node_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.scheduler.selection import Taint
    from sliceworks.twin.workloads.kueue.core.model import Flavor, PodSet

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def mismatch(flavor: Flavor | None, name: str, pods: PodSet, keys: frozenset[str]) -> str:
    """Why pods cannot have a flavor, in Kueue's words; empty when they can. Only labels that some flavor has count."""
    if flavor is None:
        return f"flavor {name} not found"
    if flavor.taints:
        bears = Tolerations([*(pods.spec.get("tolerations") or ()), *flavor.tolerations])
        for taint in flavor.taints:
            if taint[2] in ("NoSchedule", "NoExecute") and not bears.bears(taint):
                return f"untolerated taint {_taint_text(taint)} in flavor {name}"
    if not pods.spec.get("nodeSelector") and not pods.spec.get("affinity"):
        return ""
    if not node_choice(_narrowed(pods.spec, keys)).accepts("", flavor.labels):
        return f"flavor {name} doesn't match node affinity"
    return ""


def _taint_text(taint: Taint) -> str:
    """A taint as Go prints its structure."""
    key, value, effect = taint
    return f"{{{key} {value} {effect} <nil>}}"


def _narrowed(spec: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """What of a pod's choice of nodes speaks of these labels. A term that says nothing of them allows every flavor."""
    found: dict[str, Any] = {"nodeSelector": {key: value for key, value in (spec.get("nodeSelector") or {}).items() if key in keys}}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = []
    for term in affinity.get("nodeSelectorTerms") or ():
        kept = [one for one in term.get("matchExpressions") or () if one["key"] in keys]
        if not kept:
            return found
        terms.append({"matchExpressions": kept})
    if terms:
        found["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    return found
