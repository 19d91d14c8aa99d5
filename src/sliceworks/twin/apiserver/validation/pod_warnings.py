"""Warnings about valid pods, pod templates and Ingresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.apiserver.validation import error_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sliceworks.twin.apiserver.validation.defaults import Json

_NULL_SELECTOR = "a null labelSelector results in matching no pod"
_NOT_A_LABEL = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
_POD_NOT_A_LABEL = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_REQUIRED, _PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
_OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def pod_warnings(pod: Json) -> list[str]:
    return [*_name(pod, _POD_NOT_A_LABEL), *_spec(pod.get("spec") or {}, "spec")]


def template_warnings(*child_path: str, names_pods: bool = False) -> Callable[[Json], list[str]]:
    """Build the warnings function of a kind with a pod template at this path. Pod names derive from the names of most kinds."""
    path = ".".join(child_path)

    def check(obj: Json) -> list[str]:
        holder = obj
        for field in child_path:
            holder = holder.get(field) or {}
        return [*(_name(obj, _NOT_A_LABEL) if names_pods else ()), *_spec(holder.get("spec") or {}, f"{path}.spec")]

    return check


def ingress_warnings(obj: Json) -> list[str]:
    if _CLASS_ANNOTATION not in ((obj.get("metadata") or {}).get("annotations") or {}):
        return []
    return [f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _name(obj: Json, words: str) -> Iterator[str]:
    """Warn about a name that is not a DNS label, only on create because names are immutable."""
    meta = obj.get("metadata") or {}
    messages = error_list.dns1123_label_errors(meta.get("name") or "")
    if messages and not meta.get("resourceVersion"):
        yield f"metadata.name: {words}: [{' '.join(messages)}]"


def _spec(spec: Json, path: str) -> Iterator[str]:
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            yield f"{path}.topologySpreadConstraints[{index}].labelSelector: {_NULL_SELECTOR}"
    for index, volume in enumerate(spec.get("volumes") or ()):
        for field in [field for field in volume if field in _OLD_VOLUMES]:
            yield f"{path}.volumes[{index}].{'storageOS' if field == 'storageos' else field}: {_OLD_VOLUMES[field]}"
    containers = [
        (container, f"{path}.{field}[{index}]")
        for field in ("initContainers", "containers")
        for index, container in enumerate(spec.get(field) or ())
    ]
    for container, child_path in containers:
        yield from _fractions(container.get("resources") or {}, f"{child_path}.resources")
        yield from _hidden_variables(container.get("env") or (), f"{child_path}.env")
    yield from _ports(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    for side in ("podAffinity", "podAntiAffinity"):
        terms = (spec.get("affinity") or {}).get(side) or {}
        for index, term in enumerate(terms.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.affinity.{side}.{_REQUIRED}[{index}].labelSelector: {_NULL_SELECTOR}"
        for index, term in enumerate(terms.get(_PREFERRED) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.affinity.{side}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NULL_SELECTOR}"


def _fractions(resources: Json, path: str) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        for side in ("limits", "requests"):
            value = (resources.get(side) or {}).get(name)
            if value is not None and quantity.milli(value) % 1000:
                yield f'{path}.{side}[{name}]: fractional byte value "{value}" is invalid, must be an integer'


def _hidden_variables(variables: Sequence[Json], path: str) -> Iterator[str]:
    """Warn about a variable that is defined twice without referring to its first value."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == reference or reference not in value):
            yield f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(containers: list[tuple[Json, str]]) -> Iterator[str]:
    ports = [
        (port, f"{child_path}.ports[{index}]")
        for container, child_path in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    earlier: dict[tuple[Any, Any], list[tuple[Json, str]]] = {}
    for port, child_path in ports:
        same = earlier.setdefault((port.get("containerPort"), port.get("protocol")), [])
        for other, known in same:
            if all(port.get(field) == other.get(field) for field in ("hostIP", "hostPort")):
                yield f"{child_path}: duplicate port definition with {known}"
            elif not port.get("hostPort") or not other.get("hostPort"):
                yield f"{child_path}: overlapping port definition with {known}"
            elif port["hostPort"] == other["hostPort"] and bool(port.get("hostIP")) != bool(other.get("hostIP")):
                yield f"{child_path}: dangerously ambiguous port definition with {known}"
        same.append((port, child_path))
    names: dict[str, str] = {}
    for port, child_path in ports:
        name = port.get("name")
        if name and name in names:
            known = names[name]
            words = f"services and probes that select ports by name will use {known}"
            yield f'{child_path}: duplicate port name "{name}" with {known}, {words}'
        elif name:
            names[name] = child_path
