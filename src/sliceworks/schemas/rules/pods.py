"""Pods and pod templates: the spec they share, and what only one of them may have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_found, not_supported, required
from sliceworks.schemas.rules.containers import (
    PodContext,
    container_errors,
    ephemeral_container_errors,
    init_container_errors,
    padded_image_errors,
)
from sliceworks.schemas.rules.metadata import annotation_errors, label_errors
from sliceworks.schemas.rules.placement import affinity_errors, gate_errors, spread_errors, toleration_errors
from sliceworks.schemas.rules.pod_network import dns_errors, host_alias_errors, host_network_errors, hostname_errors
from sliceworks.schemas.rules.pod_resources import is_pod_level, total
from sliceworks.schemas.rules.resources import is_huge, requirement_errors, resource_name
from sliceworks.schemas.rules.security import host_process_errors, os_errors, pod_security_errors
from sliceworks.schemas.rules.texts import MAX_INT32, Errors, in_range, label, qualified, subdomain
from sliceworks.schemas.rules.volumes import volume_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.schemas.rules.shape import Json

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_POD_LEVEL = ("cpu", "hugepages-", "memory")
_MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_is_int = re.compile(r"0|[+-]?[1-9]\d*", re.ASCII).fullmatch


def pod_errors(pod: Json) -> Errors:
    """A whole pod, as it is created and again on every update."""
    out: Errors = []
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if annotations := meta.get("annotations"):
        pod_annotation_errors(out, annotations, spec, "metadata.annotations")
    pod_spec_errors(out, spec, "spec", meta.get("name") or "")
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    place = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    out.append(forbidden(place, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        if containers := spec.get(field):
            padded_image_errors(out, containers, f"spec.{field}")
    return out


def pod_object_errors(pod: Json) -> Errors:
    """A pod that has no resource version yet is being created."""
    out = pod_errors(pod)
    spec = pod.get("spec") or {}
    if (pod.get("metadata") or {}).get("resourceVersion"):
        return out
    if spec.get("ephemeralContainers"):
        out.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        out.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return out


def pod_template_errors(out: Errors, template: Json, path: str) -> None:
    """A template's metadata is reported without `metadata` in the path, as Kubernetes does."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    if labels := meta.get("labels"):
        label_errors(out, labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        annotation_errors(out, annotations, f"{path}.annotations")
        pod_annotation_errors(out, annotations, spec, f"{path}.annotations")
    pod_spec_errors(out, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        out.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))


def pod_annotation_errors(out: Errors, annotations: dict[str, str], spec: Json, path: str) -> None:
    if _MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        out.append(invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], detail))
    if (cost := annotations.get(_DELETION_COST)) is not None and not (_is_int(cost) and -MAX_INT32 - 1 <= int(cost) <= MAX_INT32):
        out.append(invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))


def pod_spec_errors(out: Errors, spec: Json, path: str, pod_name: str | None = None) -> None:
    """`pod_name` is None in templates; some rules hold only for pods."""
    get = spec.get
    grace = get("terminationGracePeriodSeconds")
    if grace is None:
        out.append(required(f"{path}.terminationGracePeriodSeconds"))
    volumes = get("volumes")
    known = volume_errors(out, volumes, f"{path}.volumes", pod_name or "") if volumes else {}
    claims = get("resourceClaims") or ()
    if claims:
        _claims(out, claims, f"{path}.resourceClaims")
    restart, containers = get("restartPolicy") or "", get("containers") or []
    pod = PodContext(known, {claim["name"] for claim in claims if claim.get("name")}, grace, restart, get("hostUsers") is not False)
    container_errors(out, containers, f"{path}.containers", pod)
    if inits := get("initContainers"):
        init_container_errors(out, inits, containers, f"{path}.initContainers", pod)
    if get("ephemeralContainers"):
        ephemeral_container_errors(out, spec, f"{path}.ephemeralContainers", pod)
    if get("resources") is not None:
        _pod_resources(out, spec, f"{path}.resources")
    if get("hostNetwork"):
        host_network_errors(out, containers, f"{path}.containers", is_pod=pod_name is not None)
    if restart not in _RESTART_POLICIES:
        out.append(
            not_supported(f"{path}.restartPolicy", restart, _RESTART_POLICIES) if restart else required(f"{path}.restartPolicy")
        )
    if (policy := get("dnsPolicy") or "") not in _DNS_POLICIES:
        out.append(not_supported(f"{path}.dnsPolicy", policy, _DNS_POLICIES) if policy else required(f"{path}.dnsPolicy"))
    if context := get("securityContext"):
        pod_security_errors(out, context, spec, f"{path}.securityContext")
        if context.get("windowsOptions"):
            host_process_errors(out, spec, path)
    if get("dnsConfig") is not None or policy == "None":
        dns_errors(out, get("dnsConfig"), policy, f"{path}.dnsConfig")
    for field, check in _RARE.items():
        if field in spec:
            check(out, spec, path)
    _file_key_volumes(out, spec, path)


def _namespaces(out: Errors, spec: Json, path: str) -> None:
    get = spec.get
    if get("shareProcessNamespace") and get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        out.append(invalid(f"{path}.securityContext.shareProcessNamespace", True, detail))
    if get("hostUsers") is False:
        for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if get(field):
                out.append(forbidden(f"{path}.{shown}", "when `hostUsers` is false"))


def _readiness(out: Errors, spec: Json, path: str) -> None:
    for index, gate in enumerate(spec["readinessGates"]):
        qualified(out, gate.get("conditionType") or "", f"{path}.readinessGates[{index}].conditionType")


def _deadline(out: Errors, spec: Json, path: str) -> None:
    in_range(out, spec["activeDeadlineSeconds"], f"{path}.activeDeadlineSeconds", 1, MAX_INT32)


def _preemption(out: Errors, spec: Json, path: str) -> None:
    found, place = spec["preemptionPolicy"], f"{path}.preemptionPolicy"
    if found not in _PREEMPTION_POLICIES:
        out.append(not_supported(place, found, _PREEMPTION_POLICIES) if found else required(place))


def _overhead(out: Errors, spec: Json, path: str) -> None:
    requirement_errors(out, {"limits": spec["overhead"]}, f"{path}.overhead")


def _of(field: str, check: Callable[[Errors, Any, str], None]) -> Callable[[Errors, Json, str], None]:
    """A check of one field's value alone."""
    return lambda out, spec, path: check(out, spec[field], f"{path}.{field}")


# Fields that few pods set: looked at only where they are.
_RARE: dict[str, Callable[[Errors, Json, str], None]] = {
    "readinessGates": _readiness,
    "schedulingGates": _of("schedulingGates", gate_errors),
    "topologySpreadConstraints": _of("topologySpreadConstraints", spread_errors),
    "affinity": _of("affinity", affinity_errors),
    "nodeSelector": _of("nodeSelector", label_errors),
    "shareProcessNamespace": _namespaces,
    "hostUsers": _namespaces,
    "hostnameOverride": hostname_errors,
    "serviceAccountName": _of("serviceAccountName", subdomain),
    "nodeName": _of("nodeName", subdomain),
    "activeDeadlineSeconds": _deadline,
    "hostname": _of("hostname", label),
    "subdomain": _of("subdomain", label),
    "tolerations": _of("tolerations", toleration_errors),
    "hostAliases": _of("hostAliases", host_alias_errors),
    "priorityClassName": _of("priorityClassName", subdomain),
    "runtimeClassName": _of("runtimeClassName", subdomain),
    "preemptionPolicy": _preemption,
    "overhead": _overhead,
    "os": os_errors,
}


def _claims(out: Errors, claims: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, place = claim.get("name") or "", f"{path}[{index}]"
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if not name:
            out.append(required(f"{place}.name"))
        elif name in seen:
            out.append(duplicate(f"{place}.name", name))
        else:
            label(out, name, f"{place}.name")
            seen.add(name)
        if direct is not None and template is not None:
            out.append(invalid(place, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
        if direct is None and template is None:
            out.append(invalid(place, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
        for field, found in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
            if found is not None:
                subdomain(out, found, f"{place}.{field}")


def _pod_resources(out: Errors, spec: Json, path: str) -> None:
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        out.append(forbidden(path, "may not be set for a windows pod"))
        return
    if resources.get("claims") is not None:
        out.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    requirement_errors(out, resources, path, name_rule=_pod_resource_name)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, found in total(spec, "requests").items():
        if name in requests and quantity.compare(found, requests[name]) > 0:
            detail = f"must be greater than or equal to aggregate container requests of {found}"
            out.append(invalid(f"{path}.requests[{name}]", requests[name], detail))
    for name, found in total(spec, "limits").items():
        if is_huge(name) and name in limits and quantity.compare(found, limits[name]) > 0:
            detail = f"must be greater than or equal to aggregate container limits of {found}"
            out.append(invalid(f"{path}.limits[{name}]", limits[name], detail))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, found in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.compare(found, limits[name]) > 0:
                place = f"{path}.containers[{index}][{name}].limits"
                out.append(invalid(place, found, f"must be less than or equal to pod limits of {limits[name]}"))


def _pod_resource_name(out: Errors, name: str, path: str) -> None:
    before = len(out)
    resource_name(out, name, path)
    if len(out) == before and not is_pod_level(name):
        out.append(not_supported(path, name, _POD_LEVEL))


def _file_key_volumes(out: Errors, spec: Json, path: str) -> None:
    for place, reference in _file_keys(spec, path):
        name = reference.get("volumeName") or ""
        volume = next((found for found in spec.get("volumes") or () if found.get("name") == name), None)
        if volume is None:
            out.append(not_found(place, name))
        elif volume.get("emptyDir") is None:
            out.append(invalid(place, name, "referenced volume must be of type emptyDir"))


def _file_keys(spec: Json, path: str) -> Iterator[tuple[str, Json]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for number, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is not None:
                    yield f"{path}.{field}[{index}].env[{number}].valueFrom.fileKeyRef.volumeName", reference
