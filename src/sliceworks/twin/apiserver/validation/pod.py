"""Pods and pod templates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.base import names, quantity
from sliceworks.kube.pod_requests import is_pod_level_resource
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_found, not_supported, required, too_long
from sliceworks.twin.apiserver.pod_resources import sum_containers
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.affinity import affinity_errors, gate_errors, spread_errors, toleration_errors
from sliceworks.twin.apiserver.validation.container import (
    PodContext,
    container_errors,
    ephemeral_container_errors,
    init_container_errors,
    padded_image_errors,
)
from sliceworks.twin.apiserver.validation.field_checks import (
    MAX_INT32,
    Errors,
    check_dns_label,
    check_dns_subdomain,
    check_ip,
    check_qualified_name,
    check_range,
)
from sliceworks.twin.apiserver.validation.object_meta import annotation_errors, label_errors
from sliceworks.twin.apiserver.validation.resource_requirements import check_resource_name, is_huge, requirement_errors
from sliceworks.twin.apiserver.validation.security_context import host_process_errors, os_errors, pod_security_errors
from sliceworks.twin.apiserver.validation.volume import volume_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.apiserver.validation.defaults import Json

_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCHES = 2048
_LONGEST_OVERRIDE = 64


def dns_errors(errors: Errors, config: Json | None, policy: str, path: str) -> None:
    servers = (config or {}).get("nameservers") or []
    if policy == "None" and config is None:
        errors.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
    elif policy == "None" and not servers:
        errors.append(required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"))
    if config is None or (policy == "None" and not servers):
        return
    if len(servers) > _MOST_NAMESERVERS:
        errors.append(invalid(f"{path}.nameservers", servers, f"must not have more than {_MOST_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        check_ip(errors, server, f"{path}.nameservers[{index}]")
    _searches(errors, config.get("searches") or [], f"{path}.searches")
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))


def host_alias_errors(errors: Errors, aliases: list[Json], path: str) -> None:
    for index, alias in enumerate(aliases):
        check_ip(errors, alias.get("ip") or "", f"{path}[{index}].ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            check_dns_subdomain(errors, name, f"{path}[{index}].hostnames[{number}]")


def host_network_errors(errors: Errors, containers: list[Json], path: str, *, is_pod: bool) -> None:
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                child_path = f"{path}[{index}].ports[{number}].hostPort"
                errors.append(invalid(child_path, host, "must match `containerPort` when `hostNetwork` is true"))


def hostname_errors(errors: Errors, spec: Json, path: str) -> None:
    name, child_path = spec["hostnameOverride"], f"{path}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(child_path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(child_path, "may not be specified when hostNetwork is true"))
    if len(name) > _LONGEST_OVERRIDE:
        errors.append(too_long(child_path, _LONGEST_OVERRIDE))
    check_dns_subdomain(errors, name, child_path)


def _searches(errors: Errors, searches: list[str], path: str) -> None:
    if len(searches) > _MOST_SEARCHES:
        errors.append(invalid(path, searches, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        detail = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        errors.append(invalid(path, searches, detail))
    for index, search in enumerate(searches):
        if search != "." and field_checks.dns1123_subdomain_errors(search.removesuffix(".").replace("_", "a")):
            name = search.removesuffix(".")
            errors += [invalid(f"{path}[{index}]", name, message) for message in _underscored()]


def _underscored() -> list[str]:
    """Kubernetes' message for a search domain, in which underscores are allowed."""
    part = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    words = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [names.regex_error(words, rf"{part}(\.{part})*", "example.com")]


_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_POD_LEVEL = ("cpu", "hugepages-", "memory")
_MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_is_int = re.compile(r"0|[+-]?[1-9]\d*", re.ASCII).fullmatch


def pod_errors(pod: Json) -> Errors:
    """Errors of a pod, on create and on update."""
    errors: Errors = []
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if annotations := meta.get("annotations"):
        pod_annotation_errors(errors, annotations, spec, "metadata.annotations")
    pod_spec_errors(errors, spec, "spec", meta.get("name") or "")
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    child_path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    errors.append(forbidden(child_path, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        if containers := spec.get(field):
            padded_image_errors(errors, containers, f"spec.{field}")
    return errors


def pod_object_errors(pod: Json) -> Errors:
    """Errors of a pod; one without a resource version is being created."""
    errors = pod_errors(pod)
    spec = pod.get("spec") or {}
    if (pod.get("metadata") or {}).get("resourceVersion"):
        return errors
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def pod_template_errors(errors: Errors, template: Json, path: str) -> None:
    """Errors of a pod template. Like Kubernetes, paths into its metadata omit `metadata`."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    if labels := meta.get("labels"):
        label_errors(errors, labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        annotation_errors(errors, annotations, f"{path}.annotations")
        pod_annotation_errors(errors, annotations, spec, f"{path}.annotations")
    pod_spec_errors(errors, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))


def pod_annotation_errors(errors: Errors, annotations: dict[str, str], spec: Json, path: str) -> None:
    if _MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], detail))
    if (cost := annotations.get(_DELETION_COST)) is not None and not (_is_int(cost) and -MAX_INT32 - 1 <= int(cost) <= MAX_INT32):
        errors.append(invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))


def pod_spec_errors(errors: Errors, spec: Json, path: str, pod_name: str | None = None) -> None:
    """Errors of a pod spec. `pod_name` is None for templates, to which some rules do not apply."""
    get = spec.get
    grace = get("terminationGracePeriodSeconds")
    if grace is None:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    volumes = get("volumes")
    known = volume_errors(errors, volumes, f"{path}.volumes", pod_name or "") if volumes else {}
    claims = get("resourceClaims") or ()
    if claims:
        _claims(errors, claims, f"{path}.resourceClaims")
    restart, containers = get("restartPolicy") or "", get("containers") or []
    pod = PodContext(known, {claim["name"] for claim in claims if claim.get("name")}, grace, restart, get("hostUsers") is not False)
    container_errors(errors, containers, f"{path}.containers", pod)
    if inits := get("initContainers"):
        init_container_errors(errors, inits, containers, f"{path}.initContainers", pod)
    if get("ephemeralContainers"):
        ephemeral_container_errors(errors, spec, f"{path}.ephemeralContainers", pod)
    if get("resources") is not None:
        _pod_resources(errors, spec, f"{path}.resources")
    if get("hostNetwork"):
        host_network_errors(errors, containers, f"{path}.containers", is_pod=pod_name is not None)
    if restart not in _RESTART_POLICIES:
        errors.append(
            not_supported(f"{path}.restartPolicy", restart, _RESTART_POLICIES) if restart else required(f"{path}.restartPolicy")
        )
    if (policy := get("dnsPolicy") or "") not in _DNS_POLICIES:
        errors.append(not_supported(f"{path}.dnsPolicy", policy, _DNS_POLICIES) if policy else required(f"{path}.dnsPolicy"))
    if context := get("securityContext"):
        pod_security_errors(errors, context, spec, f"{path}.securityContext")
        if context.get("windowsOptions"):
            host_process_errors(errors, spec, path)
    if get("dnsConfig") is not None or policy == "None":
        dns_errors(errors, get("dnsConfig"), policy, f"{path}.dnsConfig")
    for field, check in _RARE_FIELD_CHECKS.items():
        if field in spec:
            check(errors, spec, path)
    _file_key_volumes(errors, spec, path)


def _namespaces(errors: Errors, spec: Json, path: str) -> None:
    get = spec.get
    if get("shareProcessNamespace") and get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.securityContext.shareProcessNamespace", True, detail))
    if get("hostUsers") is False:
        for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if get(field):
                errors.append(forbidden(f"{path}.{shown}", "when `hostUsers` is false"))


def _readiness(errors: Errors, spec: Json, path: str) -> None:
    for index, gate in enumerate(spec["readinessGates"]):
        check_qualified_name(errors, gate.get("conditionType") or "", f"{path}.readinessGates[{index}].conditionType")


def _deadline(errors: Errors, spec: Json, path: str) -> None:
    check_range(errors, spec["activeDeadlineSeconds"], f"{path}.activeDeadlineSeconds", 1, MAX_INT32)


def _preemption(errors: Errors, spec: Json, path: str) -> None:
    policy, child_path = spec["preemptionPolicy"], f"{path}.preemptionPolicy"
    if policy not in _PREEMPTION_POLICIES:
        errors.append(not_supported(child_path, policy, _PREEMPTION_POLICIES) if policy else required(child_path))


def _overhead(errors: Errors, spec: Json, path: str) -> None:
    requirement_errors(errors, {"limits": spec["overhead"]}, f"{path}.overhead")


def _of(field: str, check: Callable[[Errors, Any, str], None]) -> Callable[[Errors, Json, str], None]:
    """Adapt a check of a single value to the signature of `_RARE_FIELD_CHECKS`."""
    return lambda errors, spec, path: check(errors, spec[field], f"{path}.{field}")


# Checks of rarely set fields, run only for the fields that are present.
_RARE_FIELD_CHECKS: dict[str, Callable[[Errors, Json, str], None]] = {
    "readinessGates": _readiness,
    "schedulingGates": _of("schedulingGates", gate_errors),
    "topologySpreadConstraints": _of("topologySpreadConstraints", spread_errors),
    "affinity": _of("affinity", affinity_errors),
    "nodeSelector": _of("nodeSelector", label_errors),
    "shareProcessNamespace": _namespaces,
    "hostUsers": _namespaces,
    "hostnameOverride": hostname_errors,
    "serviceAccountName": _of("serviceAccountName", check_dns_subdomain),
    "nodeName": _of("nodeName", check_dns_subdomain),
    "activeDeadlineSeconds": _deadline,
    "hostname": _of("hostname", check_dns_label),
    "subdomain": _of("subdomain", check_dns_label),
    "tolerations": _of("tolerations", toleration_errors),
    "hostAliases": _of("hostAliases", host_alias_errors),
    "priorityClassName": _of("priorityClassName", check_dns_subdomain),
    "runtimeClassName": _of("runtimeClassName", check_dns_subdomain),
    "preemptionPolicy": _preemption,
    "overhead": _overhead,
    "os": os_errors,
}


def _claims(errors: Errors, claims: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, child_path = claim.get("name") or "", f"{path}[{index}]"
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if not name:
            errors.append(required(f"{child_path}.name"))
        elif name in seen:
            errors.append(duplicate(f"{child_path}.name", name))
        else:
            check_dns_label(errors, name, f"{child_path}.name")
            seen.add(name)
        if direct is not None and template is not None:
            errors.append(
                invalid(child_path, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            )
        if direct is None and template is None:
            errors.append(invalid(child_path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
        for field, reference in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
            if reference is not None:
                check_dns_subdomain(errors, reference, f"{child_path}.{field}")


def _pod_resources(errors: Errors, spec: Json, path: str) -> None:
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        errors.append(forbidden(path, "may not be set for a windows pod"))
        return
    if resources.get("claims") is not None:
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    requirement_errors(errors, resources, path, name_rule=_pod_resource_name)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in sum_containers(spec, "requests").items():
        if name in requests and quantity.compare(amount, requests[name]) > 0:
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], detail))
    for name, amount in sum_containers(spec, "limits").items():
        if is_huge(name) and name in limits and quantity.compare(amount, limits[name]) > 0:
            detail = f"must be greater than or equal to aggregate container limits of {amount}"
            errors.append(invalid(f"{path}.limits[{name}]", limits[name], detail))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.compare(amount, limits[name]) > 0:
                child_path = f"{path}.containers[{index}][{name}].limits"
                errors.append(invalid(child_path, amount, f"must be less than or equal to pod limits of {limits[name]}"))


def _pod_resource_name(errors: Errors, name: str, path: str) -> None:
    before = len(errors)
    check_resource_name(errors, name, path)
    if len(errors) == before and not is_pod_level_resource(name):
        errors.append(not_supported(path, name, _POD_LEVEL))


def _file_key_volumes(errors: Errors, spec: Json, path: str) -> None:
    for child_path, reference in _file_keys(spec, path):
        name = reference.get("volumeName") or ""
        volume = next((candidate for candidate in spec.get("volumes") or () if candidate.get("name") == name), None)
        if volume is None:
            errors.append(not_found(child_path, name))
        elif volume.get("emptyDir") is None:
            errors.append(invalid(child_path, name, "referenced volume must be of type emptyDir"))


def _file_keys(spec: Json, path: str) -> Iterator[tuple[str, Json]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for number, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is not None:
                    yield f"{path}.{field}[{index}].env[{number}].valueFrom.fileKeyRef.volumeName", reference
