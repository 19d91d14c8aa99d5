"""Pods and pod templates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.base import names, quantity
from sliceworks.kube.pod_requests import is_pod_level_resource
from sliceworks.twin.apiserver.pod_resources import sum_containers
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.affinity import (
    validate_affinity,
    validate_scheduling_gates,
    validate_tolerations,
    validate_topology_spread,
)
from sliceworks.twin.apiserver.validation.container import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_image_padding,
    validate_init_containers,
)
from sliceworks.twin.apiserver.validation.error_list import MAX_INT32, ErrorList, list_items
from sliceworks.twin.apiserver.validation.object_meta import validate_annotations, validate_labels
from sliceworks.twin.apiserver.validation.resource_requirements import (
    is_huge,
    validate_resource_name,
    validate_resource_requirements,
)
from sliceworks.twin.apiserver.validation.security_context import validate_host_process, validate_os, validate_pod_security_context
from sliceworks.twin.apiserver.validation.volume import validate_volumes

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_LENGTH = 2048
_MAX_OVERRIDE_LENGTH = 64
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_POD_LEVEL = ("cpu", "hugepages-", "memory")
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, which a kubelet creates for a static pod."""
_is_int = re.compile(r"0|[+-]?[1-9]\d*", re.ASCII).fullmatch


def validate_dns(errors: ErrorList, config: Json | None, policy: str, path: str) -> None:
    servers = (config or {}).get("nameservers") or []
    if policy == "None" and config is None:
        errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    elif policy == "None" and not servers:
        errors.required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    if config is None or (policy == "None" and not servers):
        return
    if len(servers) > _MAX_NAMESERVERS:
        errors.invalid(f"{path}.nameservers", servers, f"must not have more than {_MAX_NAMESERVERS} nameservers")
    for server, server_path in list_items(config, path, "nameservers"):
        errors.check_ip(server, server_path)
    _validate_searches(errors, config.get("searches") or [], f"{path}.searches")
    for option, option_path in list_items(config, path, "options"):
        if not option.get("name"):
            errors.required(option_path, "must not be empty")


def validate_host_aliases(errors: ErrorList, aliases: list[Json], path: str) -> None:
    for index, alias in enumerate(aliases):
        errors.check_ip(alias.get("ip") or "", f"{path}[{index}].ip")
        for name, name_path in list_items(alias, f"{path}[{index}]", "hostnames"):
            errors.check_dns_subdomain(name, name_path)


def validate_host_network(errors: ErrorList, containers: list[Json], path: str, *, is_pod: bool) -> None:
    for index, container in enumerate(containers):
        for port, port_path in list_items(container, f"{path}[{index}]", "ports"):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                errors.invalid(f"{port_path}.hostPort", host, "must match `containerPort` when `hostNetwork` is true")


def validate_hostname_override(errors: ErrorList, spec: Json, path: str) -> None:
    name, child_path = spec["hostnameOverride"], f"{path}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        errors.forbidden(child_path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        errors.forbidden(child_path, "may not be specified when hostNetwork is true")
    if len(name) > _MAX_OVERRIDE_LENGTH:
        errors.too_long(child_path, _MAX_OVERRIDE_LENGTH)
    errors.check_dns_subdomain(name, child_path)


def _validate_searches(errors: ErrorList, searches: list[str], path: str) -> None:
    if len(searches) > _MAX_SEARCHES:
        errors.invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_LENGTH:
        detail = f"must not have more than {_MAX_SEARCH_LENGTH} characters (including spaces) in the search list"
        errors.invalid(path, searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            errors.check_name(search.removesuffix("."), f"{path}[{index}]", _search_errors)


def _search_errors(name: str) -> list[str]:
    """Kubernetes' message for an invalid search domain, in which underscores are allowed."""
    if not error_list.dns1123_subdomain_errors(name.replace("_", "a")):
        return []
    part = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    message = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [names.regex_error(message, rf"{part}(\.{part})*", "example.com")]


def validate_pod(errors: ErrorList, pod: Json) -> None:
    """Validate a pod; one without a resource version is being created."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    validate_pod_metadata(errors, pod)
    validate_pod_spec(errors, spec, "spec", meta.get("name") or "")
    if not spec.get("serviceAccountName"):
        for volume, volume_path in list_items(spec, "spec", "volumes"):
            for source, path in list_items(volume.get("projected") or {}, f"{volume_path}.projected", "sources"):
                detail = "must not be specified when serviceAccountName is not set"
                errors.check_unset(source, path, detail, "serviceAccountToken")
    for field in ("containers", "initContainers"):
        if containers := spec.get(field):
            validate_image_padding(errors, containers, f"spec.{field}")
    if meta.get("resourceVersion"):
        return
    if spec.get("ephemeralContainers"):
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_pod_metadata(errors: ErrorList, pod: Json) -> None:
    """Validate the annotations of a pod that have a meaning; no rule reads its labels."""
    if annotations := (pod.get("metadata") or {}).get("annotations"):
        validate_pod_annotations(errors, annotations, pod.get("spec") or {}, "metadata.annotations")


def validate_pod_template(errors: ErrorList, template: Json, path: str) -> None:
    """Validate a pod template. Like Kubernetes, paths into its metadata omit `metadata`."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    if labels := meta.get("labels"):
        validate_labels(errors, labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        validate_annotations(errors, annotations, f"{path}.annotations")
        validate_pod_annotations(errors, annotations, spec, f"{path}.annotations")
    validate_pod_spec(errors, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def validate_pod_annotations(errors: ErrorList, annotations: dict[str, str], spec: Json, path: str) -> None:
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(f"{path}[{MIRROR}]", annotations[MIRROR], detail)
    if (cost := annotations.get(_DELETION_COST)) is not None and not (_is_int(cost) and -MAX_INT32 - 1 <= int(cost) <= MAX_INT32):
        errors.invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")


def validate_pod_spec(errors: ErrorList, spec: Json, path: str, pod_name: str | None = None) -> None:
    """Validate a pod spec. `pod_name` is None for templates, to which some rules do not apply."""
    get = spec.get
    grace = get("terminationGracePeriodSeconds")
    if grace is None:
        errors.required(f"{path}.terminationGracePeriodSeconds")
    volumes = get("volumes")
    known = validate_volumes(errors, volumes, f"{path}.volumes", pod_name or "") if volumes else {}
    claims = get("resourceClaims") or ()
    if claims:
        _validate_resource_claims(errors, claims, f"{path}.resourceClaims")
    restart, containers = get("restartPolicy") or "", get("containers") or []
    pod = PodContext(known, {claim["name"] for claim in claims if claim.get("name")}, grace, restart, get("hostUsers") is not False)
    validate_containers(errors, containers, f"{path}.containers", pod)
    if inits := get("initContainers"):
        validate_init_containers(errors, inits, containers, f"{path}.initContainers", pod)
    if get("ephemeralContainers"):
        validate_ephemeral_containers(errors, spec, path, pod)
    if get("resources") is not None:
        _validate_pod_resources(errors, spec, f"{path}.resources")
    if get("hostNetwork"):
        validate_host_network(errors, containers, f"{path}.containers", is_pod=pod_name is not None)
    errors.check_enum(spec, path, "restartPolicy", ("Always", "OnFailure", "Never"))
    errors.check_enum(spec, path, "dnsPolicy", _DNS_POLICIES)
    if context := get("securityContext"):
        validate_pod_security_context(errors, context, spec, f"{path}.securityContext")
        if context.get("windowsOptions"):
            validate_host_process(errors, spec, path)
    if get("dnsConfig") is not None or get("dnsPolicy") == "None":
        validate_dns(errors, get("dnsConfig"), get("dnsPolicy") or "", f"{path}.dnsConfig")
    for field, validate in _RARE_FIELDS.items():
        if field in spec:
            validate(errors, spec, path)
    _validate_file_key_volumes(errors, spec, path)


def _validate_host_namespaces(errors: ErrorList, spec: Json, path: str) -> None:
    get = spec.get
    if get("shareProcessNamespace") and get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.invalid(f"{path}.securityContext.shareProcessNamespace", True, detail)
    if get("hostUsers") is False:
        for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if get(field):
                errors.forbidden(f"{path}.{shown}", "when `hostUsers` is false")


def _validate_readiness_gates(errors: ErrorList, spec: Json, path: str) -> None:
    for gate, gate_path in list_items(spec, path, "readinessGates"):
        errors.check_qualified_name(gate.get("conditionType") or "", f"{gate_path}.conditionType")


def _of(field: str, validate: Callable[[ErrorList, Any, str], None]) -> Callable[[ErrorList, Json, str], None]:
    """Adapt the validation of a value to the signature of `_RARE_FIELDS`."""
    return lambda errors, spec, path: validate(errors, spec[field], f"{path}.{field}")


# The validation of rarely set fields, which runs only for the fields that are present.
_RARE_FIELDS: dict[str, Callable[[ErrorList, Json, str], None]] = {
    "readinessGates": _validate_readiness_gates,
    "schedulingGates": _of("schedulingGates", validate_scheduling_gates),
    "topologySpreadConstraints": _of("topologySpreadConstraints", validate_topology_spread),
    "affinity": _of("affinity", validate_affinity),
    "nodeSelector": _of("nodeSelector", validate_labels),
    "shareProcessNamespace": _validate_host_namespaces,
    "hostUsers": _validate_host_namespaces,
    "hostnameOverride": validate_hostname_override,
    "serviceAccountName": _of("serviceAccountName", ErrorList.check_dns_subdomain),
    "nodeName": _of("nodeName", ErrorList.check_dns_subdomain),
    "activeDeadlineSeconds": _of(
        "activeDeadlineSeconds", lambda errors, value, path: errors.check_range(value, path, 1, MAX_INT32)
    ),
    "hostname": _of("hostname", ErrorList.check_dns_label),
    "subdomain": _of("subdomain", ErrorList.check_dns_label),
    "tolerations": _of("tolerations", validate_tolerations),
    "hostAliases": _of("hostAliases", validate_host_aliases),
    "priorityClassName": _of("priorityClassName", ErrorList.check_dns_subdomain),
    "runtimeClassName": _of("runtimeClassName", ErrorList.check_dns_subdomain),
    "preemptionPolicy": lambda errors, spec, path: errors.check_enum(
        spec, path, "preemptionPolicy", ("PreemptLowerPriority", "Never")
    ),
    "overhead": _of("overhead", lambda errors, value, path: validate_resource_requirements(errors, {"limits": value}, path)),
    "os": validate_os,
}


def _validate_resource_claims(errors: ErrorList, claims: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, child_path = claim.get("name") or "", f"{path}[{index}]"
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if name and name in seen:
            errors.duplicate(f"{child_path}.name", name)
        else:
            errors.check_required_name(claim, child_path, "name", error_list.dns1123_label_errors)
        seen.add(name)
        if direct is not None and template is not None:
            errors.invalid(child_path, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
        if direct is None and template is None:
            errors.invalid(child_path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for field, reference in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
            if reference is not None:
                errors.check_dns_subdomain(reference, f"{child_path}.{field}")


def _validate_pod_resources(errors: ErrorList, spec: Json, path: str) -> None:
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        errors.forbidden(path, "may not be set for a windows pod")
        return
    errors.check_unset(resources, path, "claims may not be set for Resources at pod-level", "claims")
    validate_resource_requirements(errors, resources, path, name_rule=_validate_pod_resource_name)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in sum_containers(spec, "requests").items():
        if name in requests and quantity.compare(amount, requests[name]) > 0:
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            errors.invalid(f"{path}.requests[{name}]", requests[name], detail)
    for name, amount in sum_containers(spec, "limits").items():
        if is_huge(name) and name in limits and quantity.compare(amount, limits[name]) > 0:
            detail = f"must be greater than or equal to aggregate container limits of {amount}"
            errors.invalid(f"{path}.limits[{name}]", limits[name], detail)
    for container, container_path in list_items(spec, path, "containers"):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.compare(amount, limits[name]) > 0:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.invalid(f"{container_path}[{name}].limits", amount, detail)


def _validate_pod_resource_name(errors: ErrorList, name: str, path: str) -> None:
    before = len(errors)
    validate_resource_name(errors, name, path)
    if len(errors) == before and not is_pod_level_resource(name):
        errors.not_supported(path, name, _POD_LEVEL)


def _validate_file_key_volumes(errors: ErrorList, spec: Json, path: str) -> None:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for number, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is not None:
                    env_path = f"{path}.{field}[{index}].env[{number}]"
                    _validate_file_key_volume(errors, reference, spec, f"{env_path}.valueFrom.fileKeyRef.volumeName")


def _validate_file_key_volume(errors: ErrorList, reference: Json, spec: Json, path: str) -> None:
    name = reference.get("volumeName") or ""
    volume = next((candidate for candidate in spec.get("volumes") or () if candidate.get("name") == name), None)
    if volume is None:
        errors.not_found(path, name)
    elif volume.get("emptyDir") is None:
        errors.invalid(path, name, "referenced volume must be of type emptyDir")
