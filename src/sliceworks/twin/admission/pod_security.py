"""PodSecurity: the labels of a namespace say which standard its pods must keep, and which they are warned about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.schemas.field_errors import FieldError, invalid, refusal
from sliceworks.twin.admission.context import CREATE
from sliceworks.twin.admission.pod_checks import BASELINE, RESTRICTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.admission.context import Admission, Obj

TEMPLATES = {
    "/podtemplates": ("template",),
    "/replicationcontrollers": ("spec", "template"),
    "apps/replicasets": ("spec", "template"),
    "apps/deployments": ("spec", "template"),
    "apps/daemonsets": ("spec", "template"),
    "apps/statefulsets": ("spec", "template"),
    "batch/jobs": ("spec", "template"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template"),
}
_LABEL = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_version = re.compile(r"latest|v1\.(0|[1-9][0-9]*)").fullmatch


class Standard(NamedTuple):
    """A level in a version; only its newest form is known here, and its version is only named."""

    level: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def violations(self, pod: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Reasons and details."""
        checks = {"baseline": BASELINE, "restricted": RESTRICTED}.get(self.level, ())
        return [found for check in checks if (found := check(pod)) is not None]


def check_pod(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    labels = _labels(ctx)
    if not any(key.startswith(_LABEL) for key in labels) or (old is not None and _images(obj) == _images(old)):
        return
    enforced = standard(labels, "enforce")
    found = enforced.violations(obj)
    if found:
        raise ctx.forbidden(obj, f'violates PodSecurity "{enforced}": {_shown(found)}')
    _warn(ctx, labels, obj)


def check_template(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    labels = _labels(ctx)
    if not any(key.startswith(_LABEL) for key in labels):
        return
    template: Any = obj
    for key in TEMPLATES[ctx.resource]:
        template = (template or {}).get(key)
    if template:
        _warn(ctx, labels, template)


def check_namespace(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    labels = obj["metadata"].get("labels") or {}
    before = ((old or {}).get("metadata") or {}).get("labels") or {}
    if {key: value for key, value in labels.items() if key.startswith(_LABEL)} == {
        key: value for key, value in before.items() if key.startswith(_LABEL)
    }:
        return
    errors = label_errors(labels)
    if errors and (ctx.operation == CREATE or errors != label_errors(before)):
        raise refusal("", "Namespace", obj["metadata"]["name"], errors)
    new, was = standard(labels, "enforce"), standard(before, "enforce")
    relaxed = new.version == was.version and _LEVELS.index(new.level) <= _LEVELS.index(was.level)
    if old is not None and not errors and not relaxed:
        _warn_of_existing(ctx, obj["metadata"]["name"], new)


def label_errors(labels: Mapping[str, str]) -> list[FieldError]:
    """What is wrong with the labels of a namespace."""
    errors = []
    for mode in ("enforce", "audit", "warn"):
        level, version = labels.get(_LABEL + mode), labels.get(f"{_LABEL}{mode}-version")
        if level is not None and level not in _LEVELS:
            errors.append(invalid(f"metadata.labels[{_LABEL}{mode}]", level, f"must be one of {', '.join(_LEVELS)}"))
        if version is not None and not _version(version):
            errors.append(invalid(f"metadata.labels[{_LABEL}{mode}-version]", version, 'must be "latest" or "v1.x"'))
    return errors


def standard(labels: Mapping[str, str], mode: str) -> Standard:
    """The standard that labels ask for in a mode. A level that makes no sense counts as the strictest."""
    level = labels.get(_LABEL + mode)
    if level is None:
        # Who enforces more than is warned about without saying so wants to be warned about as much.
        return standard(labels, "enforce") if mode != "enforce" else Standard()
    version = labels.get(f"{_LABEL}{mode}-version", "latest")
    return Standard(level if level in _LEVELS else "restricted", version if _version(version) else "latest")


def _labels(ctx: Admission) -> Mapping[str, str]:
    namespace = ctx.get("/namespaces", "", ctx.namespace)
    found: Mapping[str, str] = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    return found


def _images(pod: Mapping[str, Any]) -> list[Any]:
    """What a change must touch to be looked at: only images and containers decide."""
    spec = pod.get("spec") or {}
    return [
        (key, part.get("image")) for key in ("containers", "initContainers", "ephemeralContainers") for part in spec.get(key) or ()
    ]


def _warn(ctx: Admission, labels: Mapping[str, str], pod: Mapping[str, Any]) -> None:
    warned = standard(labels, "warn")
    found = warned.violations(pod)
    if found:
        ctx.warn(f'would violate PodSecurity "{warned}": {_shown(found)}')


def _warn_of_existing(ctx: Admission, namespace: str, new: Standard) -> None:
    """Tell which pods would not be let in any more: one line for each set of reasons."""
    pods: dict[str, list[str]] = {}
    for pod in ctx.find_all("/pods", namespace):
        reasons = ", ".join(reason for reason, _ in new.violations(pod))
        if reasons:
            pods.setdefault(reasons, []).append(pod["metadata"]["name"])
    if not pods:
        return
    ctx.warn(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{new}"')
    lines = []
    for reasons, names in pods.items():
        others = len(names) - 1
        more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
        lines.append(f"{min(names)}{more}: {reasons}")
    for line in sorted(lines):
        ctx.warn(line)


def _shown(found: list[tuple[str, str]]) -> str:
    return ", ".join(f"{reason} ({detail})" for reason, detail in found)
