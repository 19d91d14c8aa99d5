"""What an object uses up of a ResourceQuota, and which quotas count it. Pure; admission and the quota controller share it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.twin.admission import pod_resources
from sliceworks.twin.admission.storage import storage_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.admission.pod_resources import Amounts

IGNORED = {"/events", "events.k8s.io/events"}
_ALIASES = {
    "/configmaps": "configmaps",
    "/resourcequotas": "resourcequotas",
    "/replicationcontrollers": "replicationcontrollers",
    "/secrets": "secrets",
}
_OF_PODS = {
    "count/pods",
    "pods",
    *(f"{prefix}{name}" for name in ("cpu", "memory", "ephemeral-storage") for prefix in ("", "requests.", "limits.")),
}
_OF_SERVICES = {"count/services", "services", "services.nodeports", "services.loadbalancers"}
_OF_CLAIMS = {"count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"}
_BY_CLASS = ".storageclass.storage.k8s.io/"
_REQUIRED = {f"{prefix}{name}" for name in ("cpu", "memory") for prefix in ("", "requests.", "limits.")}


def of(resource: str, obj: Mapping[str, Any]) -> Amounts:
    """What one object of a `group/plural` uses."""
    special = _SPECIAL.get(resource)
    if special is not None:
        return special(obj)
    used = {count_name(resource): "1"}
    if resource in _ALIASES:
        used[_ALIASES[resource]] = "1"
    return used


def count_name(resource: str) -> str:
    """The name under which objects of a resource are counted: `count/deployments.apps`."""
    group, _, plural = resource.rpartition("/")
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def counted(resource: str, names: Iterable[str]) -> list[str]:
    """Which of these quota names say something about objects of a resource."""
    if resource == "/pods":
        return [name for name in names if name in _OF_PODS or _is_pod_extra(name)]
    if resource == "/services":
        return [name for name in names if name in _OF_SERVICES]
    if resource == "/persistentvolumeclaims":
        ends = tuple(_BY_CLASS + name for name in ("persistentvolumeclaims", "requests.storage"))
        return [name for name in names if name in _OF_CLAIMS or name.endswith(ends)]
    known = {count_name(resource), _ALIASES.get(resource)}
    return [name for name in names if name in known]


def resource_of(name: str) -> str | None:
    """The `group/plural` that a quota name counts; None for a name that nothing counts."""
    if name.startswith("count/"):
        plural, _, group = name[len("count/") :].partition(".")
        return f"{group}/{plural}"
    for resource in ("/pods", "/services", "/persistentvolumeclaims", *_ALIASES):
        if counted(resource, [name]):
            return resource
    return None


def in_scope(quota: Mapping[str, Any], resource: str, obj: Mapping[str, Any]) -> bool:
    """Whether the quota's scopes take in this object; scopes are about pods alone."""
    spec = quota.get("spec") or {}
    selectors = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return not selectors or (resource == "/pods" and all(_matches(selector, obj) for selector in selectors))


def missing_requests(names: Iterable[str], pod: Mapping[str, Any]) -> str:
    """Containers that do not say how much CPU or memory they need though a quota counts it; empty when all do."""
    spec = pod.get("spec") or {}
    if set((spec.get("resources") or {}).get("requests") or ()) | set((spec.get("resources") or {}).get("limits") or ()):
        return ""
    wanted = _REQUIRED & set(names)
    lacking: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        asked = container.get("resources") or {}
        for name in wanted - set(_compute(asked.get("requests") or {}, asked.get("limits") or {})):
            lacking.setdefault(name, set()).add(container.get("name", ""))
    parts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(parts)}" if parts else ""


def is_charged(pod: Mapping[str, Any]) -> bool:
    """Whether a pod still counts: it has not ended, nor should it have by now."""
    if (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return False
    end = charged_until(pod)
    return end is None or clock.now().timestamp() <= end


def charged_until(pod: Mapping[str, Any]) -> float | None:
    """When a pod that is being deleted stops to count, whether or not it has ended by then."""
    since, grace = pod["metadata"].get("deletionTimestamp"), pod["metadata"].get("deletionGracePeriodSeconds")
    return datetime.fromisoformat(since).timestamp() + grace if since and grace is not None else None


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is of those that end by themselves: the scope Terminating."""
    return int((pod.get("spec") or {}).get("activeDeadlineSeconds", -1)) >= 0


def _pod(pod: Mapping[str, Any]) -> Amounts:
    used = {"count/pods": "1"}
    if is_charged(pod):
        spec = pod.get("spec") or {}
        used.update(_compute(pod_resources.requests(spec), pod_resources.limits(spec)))
    return used


def _compute(requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Amounts:
    used = {"pods": "1"}
    for name, amount in requests.items():
        shown = quantity.canonical(amount)
        if name in {"cpu", "memory", "ephemeral-storage"} or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = shown
        elif "/" in name:
            used[f"requests.{name}"] = shown
    for name, amount in limits.items():
        if name in {"cpu", "memory", "ephemeral-storage"}:
            used[f"limits.{name}"] = quantity.canonical(amount)
    return used


def _service(service: Mapping[str, Any]) -> Amounts:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    nodes = 0
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False):
        nodes = len(ports)
    elif kind == "LoadBalancer":
        nodes = sum(1 for port in ports if port.get("nodePort"))
    balancers = "1" if kind == "LoadBalancer" else "0"
    return {"count/services": "1", "services": "1", "services.nodeports": str(nodes), "services.loadbalancers": balancers}


def _claim(claim: Mapping[str, Any]) -> Amounts:
    used = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"}
    name = storage_class(claim)
    asked = (((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
    if name:
        used[f"{name}{_BY_CLASS}persistentvolumeclaims"] = "1"
    if asked is not None:
        given = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
        size = quantity.canonical(given if given is not None and quantity.compare(given, asked) > 0 else asked)
        used["requests.storage"] = size
        if name:
            used[f"{name}{_BY_CLASS}requests.storage"] = size
    return used


_SPECIAL: dict[str, Callable[[Mapping[str, Any]], Amounts]] = {
    "/pods": _pod,
    "/services": _service,
    "/persistentvolumeclaims": _claim,
}


def _is_pod_extra(name: str) -> bool:
    """Huge pages, and extended resources such as `requests.google.com/tpu`."""
    if name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def _matches(selector: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    spec: Mapping[str, Any] = pod.get("spec") or {}
    scope: str = selector.get("scopeName", "")
    if scope in {"Terminating", "NotTerminating"}:
        return is_terminating(pod) == (scope == "Terminating")
    if scope in {"BestEffort", "NotBestEffort"}:
        return pod_resources.best_effort(spec) == (scope == "BestEffort")
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    return scope == "PriorityClass" and _matches_class(selector, spec.get("priorityClassName") or "")


def _matches_class(selector: Mapping[str, Any], name: str) -> bool:
    operator, values = selector.get("operator"), list(selector.get("values") or ())
    if operator == "In":
        return name in values
    if operator == "NotIn":
        return name not in values
    return bool(name) == (operator == "Exists")


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        terms += [each.get("podAffinityTerm") or {} for each in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
