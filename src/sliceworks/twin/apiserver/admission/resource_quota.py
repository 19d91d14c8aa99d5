"""ResourceQuota: usage of an object, matching quotas, and the charge of a write. Shared with the quota controller."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.kube.persistent_volumes import storage_class_of
from sliceworks.twin.apiserver import pod_resources
from sliceworks.twin.apiserver.admission.chain import CREATE, UPDATE, Admission, Charge, Obj

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.apiserver.pod_resources import Amounts


IGNORED = {"/events", "events.k8s.io/events"}

_ALIASES = {
    "/configmaps": "configmaps",
    "/resourcequotas": "resourcequotas",
    "/replicationcontrollers": "replicationcontrollers",
    "/secrets": "secrets",
}

_POD_NAMES = {
    "count/pods",
    "pods",
    *(f"{prefix}{name}" for name in ("cpu", "memory", "ephemeral-storage") for prefix in ("", "requests.", "limits.")),
}

_SERVICE_NAMES = {"count/services", "services", "services.nodeports", "services.loadbalancers"}

_CLAIM_NAMES = {"count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"}

_STORAGE_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"

_REQUIRED = {f"{prefix}{name}" for name in ("cpu", "memory") for prefix in ("", "requests.", "limits.")}


def usage_of(resource: str, obj: Mapping[str, Any]) -> Amounts:
    """The usage of one object of a `group/plural`."""
    evaluate = _EVALUATORS.get(resource)
    if evaluate is not None:
        return evaluate(obj)
    used = {object_count_name(resource): "1"}
    if resource in _ALIASES:
        used[_ALIASES[resource]] = "1"
    return used


def object_count_name(resource: str) -> str:
    """The quota name that counts objects of a resource: `count/deployments.apps`."""
    group, _, plural = resource.rpartition("/")
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def matching_names(resource: str, names: Iterable[str]) -> list[str]:
    """The quota names that apply to objects of a resource."""
    if resource == "/pods":
        return [name for name in names if name in _POD_NAMES or _is_pod_extra(name)]
    if resource == "/services":
        return [name for name in names if name in _SERVICE_NAMES]
    if resource == "/persistentvolumeclaims":
        ends = tuple(_STORAGE_CLASS_SUFFIX + name for name in ("persistentvolumeclaims", "requests.storage"))
        return [name for name in names if name in _CLAIM_NAMES or name.endswith(ends)]
    known = {object_count_name(resource), _ALIASES.get(resource)}
    return [name for name in names if name in known]


def resource_of(name: str) -> str | None:
    """The `group/plural` that a quota name applies to; None for an unknown name."""
    if name.startswith("count/"):
        plural, _, group = name[len("count/") :].partition(".")
        return f"{group}/{plural}"
    for resource in ("/pods", "/services", "/persistentvolumeclaims", *_ALIASES):
        if matching_names(resource, [name]):
            return resource
    return None


def in_scope(quota: Mapping[str, Any], resource: str, obj: Mapping[str, Any]) -> bool:
    """Whether an object matches the scopes of a quota; only pods match scopes."""
    spec = quota.get("spec") or {}
    selectors = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return not selectors or (resource == "/pods" and all(_matches(selector, obj) for selector in selectors))


def missing_requests(names: Iterable[str], pod: Mapping[str, Any]) -> str:
    """The error for containers without requests or limits that a quota requires; empty if there are none."""
    spec = pod.get("spec") or {}
    if set((spec.get("resources") or {}).get("requests") or ()) | set((spec.get("resources") or {}).get("limits") or ()):
        return ""
    required = _REQUIRED & set(names)
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        for name in required - set(_compute(resources.get("requests") or {}, resources.get("limits") or {})):
            missing.setdefault(name, set()).add(container.get("name", ""))
    parts = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
    return f"must specify {'; '.join(parts)}" if parts else ""


def is_charged(pod: Mapping[str, Any]) -> bool:
    """Whether a pod uses quota: it has not finished, and its deletion grace period has not passed."""
    if (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return False
    end = charged_until(pod)
    return end is None or clock.now().timestamp() <= end


def charged_until(pod: Mapping[str, Any]) -> float | None:
    """The time when a pod that is being deleted stops using quota; None for other pods."""
    since, grace = pod["metadata"].get("deletionTimestamp"), pod["metadata"].get("deletionGracePeriodSeconds")
    return datetime.fromisoformat(since).timestamp() + grace if since and grace is not None else None


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has a deadline: the scope Terminating."""
    return int((pod.get("spec") or {}).get("activeDeadlineSeconds", -1)) >= 0


def _pod(pod: Mapping[str, Any]) -> Amounts:
    used = {"count/pods": "1"}
    if is_charged(pod):
        spec = pod.get("spec") or {}
        used.update(_compute(pod_resources.pod_requests(spec), pod_resources.pod_limits(spec)))
    return used


def _compute(requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Amounts:
    used = {"pods": "1"}
    for name, amount in requests.items():
        value = quantity.canonical(amount)
        if name in {"cpu", "memory", "ephemeral-storage"} or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = value
        elif "/" in name:
            used[f"requests.{name}"] = value
    for name, amount in limits.items():
        if name in {"cpu", "memory", "ephemeral-storage"}:
            used[f"limits.{name}"] = quantity.canonical(amount)
    return used


def _service(service: Mapping[str, Any]) -> Amounts:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    node_ports = 0
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False):
        node_ports = len(ports)
    elif kind == "LoadBalancer":
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    balancers = "1" if kind == "LoadBalancer" else "0"
    return {"count/services": "1", "services": "1", "services.nodeports": str(node_ports), "services.loadbalancers": balancers}


def _claim(claim: Mapping[str, Any]) -> Amounts:
    used = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"}
    name = storage_class_of(claim)
    requested = (((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
    if name:
        used[f"{name}{_STORAGE_CLASS_SUFFIX}persistentvolumeclaims"] = "1"
    if requested is not None:
        allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
        if allocated is not None and quantity.compare(allocated, requested) > 0:
            requested = allocated
        size = quantity.canonical(requested)
        used["requests.storage"] = size
        if name:
            used[f"{name}{_STORAGE_CLASS_SUFFIX}requests.storage"] = size
    return used


_EVALUATORS: dict[str, Callable[[Mapping[str, Any]], Amounts]] = {
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
        return (pod_resources.qos_class(spec) == "BestEffort") == (scope == "BestEffort")
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
        terms += [term.get("podAffinityTerm") or {} for term in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def charge(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None, quotas: Iterable[Mapping[str, Any]]) -> None:
    """Check a write against the quotas of its namespace, and add their new usage to `ctx.charges`."""
    if ctx.resource in IGNORED or not _changes_usage(ctx, obj, old):
        return
    charges: list[Charge] = []
    for quota in quotas:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = matching_names(ctx.resource, hard)
        if not names or not in_scope(quota, ctx.resource, obj):
            continue
        _check_status(ctx, obj, quota, names)
        name, requested = quota["metadata"]["name"], _requested(ctx, quota, obj, old, hard)
        if not requested:
            continue
        new_used = {**used, **{key: quantity.add(used.get(key, "0"), amount) for key, amount in requested.items()}}
        exceeded = [key for key in requested if quantity.compare(new_used[key], hard[key]) > 0]
        if exceeded and ctx.subresource != "status":
            titled = (("requested", requested), ("used", used), ("limited", hard))
            amounts = ", ".join(f"{title}: {_format(values, exceeded)}" for title, values in titled)
            raise ctx.forbidden(obj, f"exceeded quota: {name}, {amounts}")
        charges.append(Charge(ctx.namespace, name, new_used))
    if not ctx.dry_run:
        ctx.charges.extend(charges)


def _changes_usage(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> bool:
    """Whether such a write can change the usage of a quota."""
    if ctx.resource == "/pods":
        if ctx.subresource == "resize":
            return ctx.operation == UPDATE
        changed = old is not None and is_terminating(old) != is_terminating(obj)
        return not ctx.subresource and (ctx.operation == CREATE or changed)
    if ctx.subresource:
        return False
    return ctx.operation == CREATE or (ctx.operation == UPDATE and ctx.resource in {"/services", "/persistentvolumeclaims"})


def _check_status(ctx: Admission, obj: Obj, quota: Mapping[str, Any], names: list[str]) -> None:
    name, used = quota["metadata"]["name"], (quota.get("status") or {}).get("used") or {}
    missing = missing_requests(names, obj) if ctx.resource == "/pods" else ""
    if missing:
        raise ctx.forbidden(obj, f"failed quota: {name}: {missing}")
    if any(key not in used for key in names):
        raise ctx.forbidden(obj, f"status unknown for quota: {name}, resources: {','.join(sorted(names))}")


def _requested(
    ctx: Admission, quota: Mapping[str, Any], obj: Obj, old: Mapping[str, Any] | None, hard: Mapping[str, str]
) -> Amounts:
    """The additional usage of a write, where the quota limits it. A decrease is left to the quota controller."""
    usage = usage_of(ctx.resource, obj)
    if old is not None and in_scope(quota, ctx.resource, old):
        old_usage = usage_of(ctx.resource, old)
        usage = {name: quantity.subtract(amount, old_usage.get(name, "0")) for name, amount in usage.items()}
    return {name: amount for name, amount in usage.items() if name in hard and quantity.nanos(amount) > 0}


def _format(amounts: Mapping[str, str], names: Iterable[str]) -> str:
    return ",".join(f"{name}={quantity.canonical(amounts[name])}" for name in sorted(names) if name in amounts)
