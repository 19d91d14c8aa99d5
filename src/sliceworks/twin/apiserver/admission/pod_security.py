"""PodSecurity: enforce, audit and warn levels of namespaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.schemas.field_errors import FieldError, invalid, new_invalid
from sliceworks.twin.apiserver.admission.chain import CREATE
from sliceworks.twin.apiserver.admission.pod_security_checks import BASELINE, RESTRICTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj, Plugin

_LABEL = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_version = re.compile(r"latest|v1\.(0|[1-9][0-9]*)").fullmatch


class Standard(NamedTuple):
    """A level and its version. The checks are those of the latest version; the version only appears in messages."""

    level: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def violations(self, pod: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Reasons and details of all violations."""
        checks = {"baseline": BASELINE, "restricted": RESTRICTED}.get(self.level, ())
        return [violation for check in checks if (violation := check(pod)) is not None]


def check_pod(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject a pod that violates the enforced level, and warn about the warn level."""
    labels = _labels(ctx)
    if not any(key.startswith(_LABEL) for key in labels) or (old is not None and _images(obj) == _images(old)):
        return
    enforced = standard(labels, "enforce")
    violations = enforced.violations(obj)
    if violations:
        raise ctx.forbidden(obj, f'violates PodSecurity "{enforced}": {_format(violations)}')
    _warn(ctx, labels, obj)


def check_template(*path: str) -> Plugin:
    """A plugin that warns about the pod template at a path."""

    def check(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        labels = _labels(ctx)
        if not any(key.startswith(_LABEL) for key in labels):
            return
        template: Any = obj
        for key in path:
            template = (template or {}).get(key)
        if template:
            _warn(ctx, labels, template)

    return check


def check_namespace(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Validate the labels of a namespace, and warn about existing pods that violate a stricter level."""
    labels = _security_labels(obj)
    old_labels = _security_labels(old or {})
    if labels == old_labels:
        return
    errors = label_errors(labels)
    if errors and (ctx.operation == CREATE or errors != label_errors(old_labels)):
        raise new_invalid("", "Namespace", obj["metadata"]["name"], errors)
    new, previous = standard(labels, "enforce"), standard(old_labels, "enforce")
    relaxed = new.version == previous.version and _LEVELS.index(new.level) <= _LEVELS.index(previous.level)
    if old is not None and not errors and not relaxed:
        _warn_of_existing(ctx, obj["metadata"]["name"], new)


def _security_labels(namespace: Mapping[str, Any]) -> dict[str, str]:
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return {key: value for key, value in labels.items() if key.startswith(_LABEL)}


def label_errors(labels: Mapping[str, str]) -> list[FieldError]:
    """Errors in the PodSecurity labels of a namespace."""
    errors = []
    for mode in ("enforce", "audit", "warn"):
        level, version = labels.get(_LABEL + mode), labels.get(f"{_LABEL}{mode}-version")
        if level is not None and level not in _LEVELS:
            errors.append(invalid(f"metadata.labels[{_LABEL}{mode}]", level, f"must be one of {', '.join(_LEVELS)}"))
        if version is not None and not _version(version):
            errors.append(invalid(f"metadata.labels[{_LABEL}{mode}-version]", version, 'must be "latest" or "v1.x"'))
    return errors


def standard(labels: Mapping[str, str], mode: str) -> Standard:
    """The standard that labels set for a mode. An invalid level counts as `restricted`."""
    level = labels.get(_LABEL + mode)
    if level is None:
        # The audit and warn levels default to the enforced level.
        return standard(labels, "enforce") if mode != "enforce" else Standard()
    version = labels.get(f"{_LABEL}{mode}-version", "latest")
    return Standard(level if level in _LEVELS else "restricted", version if _version(version) else "latest")


def _labels(ctx: Admission) -> Mapping[str, str]:
    namespace = ctx.get("/namespaces", "", ctx.namespace)
    labels: Mapping[str, str] = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _images(pod: Mapping[str, Any]) -> list[Any]:
    """The images of all containers: an update that does not change them is not checked."""
    spec, keys = pod.get("spec") or {}, ("containers", "initContainers", "ephemeralContainers")
    return [(key, container.get("image")) for key in keys for container in spec.get(key) or ()]


def _warn(ctx: Admission, labels: Mapping[str, str], pod: Mapping[str, Any]) -> None:
    level = standard(labels, "warn")
    violations = level.violations(pod)
    if violations:
        ctx.warn(f'would violate PodSecurity "{level}": {_format(violations)}')


def _warn_of_existing(ctx: Admission, namespace: str, new: Standard) -> None:
    """Warn about pods that violate the new level: one warning per set of reasons."""
    pods: dict[str, list[str]] = {}
    for pod in ctx.find_all("/pods", namespace):
        reasons = ", ".join(reason for reason, _ in new.violations(pod))
        if reasons:
            pods.setdefault(reasons, []).append(pod["metadata"]["name"])
    if not pods:
        return
    ctx.warn(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{new}"')
    warnings = []
    for reasons, names in pods.items():
        others = len(names) - 1
        more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
        warnings.append(f"{min(names)}{more}: {reasons}")
    for warning in sorted(warnings):
        ctx.warn(warning)


def _format(violations: list[tuple[str, str]]) -> str:
    return ", ".join(f"{reason} ({detail})" for reason, detail in violations)
