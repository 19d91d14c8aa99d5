"""ExtendedResourceToleration: a pod that asks for devices tolerates the taint that keeps other pods away from them.

kube-apiserver has this plugin switched off, GKE has it on: manifests for TPUs and GPUs there name no such toleration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.admission.context import CREATE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.admission.context import Admission, Obj
    from sliceworks.twin.admission.plugins import Webhooks

_NATIVE = "kubernetes.io/"


def install(webhooks: Webhooks, wanted: Callable[[], bool]) -> None:
    """Have pods tolerate, whenever `wanted` says so."""

    def admit(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        if wanted():
            tolerate(obj)

    for operation in (CREATE, UPDATE):
        webhooks.change("/pods", operation, admit)


def tolerate(pod: Obj) -> None:
    """Add a toleration for each extended resource that a pod asks for, in the order of their names."""
    spec = pod.get("spec") or {}
    asked = {
        name
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
        for name in (container.get("resources") or {}).get("requests") or ()
        if "/" in name and _NATIVE not in name and not name.startswith("requests.")
    }
    given = spec.get("tolerations") or []
    wanted = ({"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in sorted(asked))
    added = [each for each in wanted if each not in given]
    if added:
        spec["tolerations"] = [*given, *added]
