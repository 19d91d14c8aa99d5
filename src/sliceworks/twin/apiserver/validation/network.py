"""Ingresses, IngressClasses, NetworkPolicies, ServiceCIDRs and IPAddresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.error_list import list_items, parse_cidr, parse_ip
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector
from sliceworks.twin.apiserver.validation.service import validate_ingress_hostname

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS = ("/..", "/.")
_MAX_CONTROLLER_LENGTH = 250


def validate_ingress(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    backend, name = spec.get("defaultBackend"), spec.get("ingressClassName")
    if not spec.get("rules") and backend is None:
        errors.invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        _validate_backend(errors, backend, "spec.defaultBackend")
    for rule, path in list_items(spec, "spec", "rules"):
        _validate_rule(errors, rule, path)
    for tls, path in list_items(spec, "spec", "tls"):
        for host, host_path in list_items(tls, path, "hosts"):
            _validate_host_pattern(errors, host, host_path)
        errors.check_optional_names(tls, path, error_list.dns1123_subdomain_errors, "secretName")
    if name is not None:
        errors.check_dns_subdomain(name, "spec.ingressClassName")
    meta = obj.get("metadata") or {}
    annotated = (meta.get("annotations") or {}).get(_CLASS_ANNOTATION)
    if annotated is not None and name is not None and annotated != name and not meta.get("resourceVersion"):
        detail = "must match `ingressClassName` when both are specified"
        errors.invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, detail)


def validate_ingress_status(errors: ErrorList, new: Json, _old: Json) -> None:
    balancer = (new.get("status") or {}).get("loadBalancer") or {}
    for ingress, path in list_items(balancer, "status.loadBalancer", "ingress"):
        if ingress.get("ip"):
            errors.check_ip(ingress["ip"], f"{path}.ip")
        validate_ingress_hostname(errors, ingress, path)


def validate_ingress_class(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    if len(controller) > _MAX_CONTROLLER_LENGTH:
        errors.too_long("spec.controller", _MAX_CONTROLLER_LENGTH)
    errors.check_domain_prefixed_path(controller, "spec.controller")
    if parameters is not None:
        _validate_class_parameters(errors, parameters, "spec.parameters")


def validate_network_policy(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    validate_label_selector(errors, spec.get("podSelector"), "spec.podSelector")
    for field, side in (("ingress", "from"), ("egress", "to")):
        for rule, path in list_items(spec, "spec", field):
            for port, port_path in list_items(rule, path, "ports"):
                _validate_policy_port(errors, port, port_path)
            for peer, peer_path in list_items(rule, path, side):
                _validate_peer(errors, peer, peer_path)
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        errors.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for kind, path in list_items(spec, "spec", "policyTypes"):
        if kind not in ("Ingress", "Egress"):
            errors.not_supported(path, kind, ("Ingress", "Egress"))


def validate_service_cidr(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    cidrs = spec.get("cidrs") or []
    if not cidrs:
        errors.required("spec.cidrs", "at least one CIDR required")
    elif len(cidrs) > 2:
        errors.invalid("spec.cidrs", {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for cidr, path in list_items(spec, "spec", "cidrs"):
        errors.check_cidr(cidr, path)
    families = [network.version for network in map(parse_cidr, cidrs) if network is not None]
    if len(families) == 2 and families[0] == families[1]:
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.invalid("spec.cidrs", cidrs, detail)


def validate_service_cidr_update(errors: ErrorList, new: Json, old: Json) -> None:
    """The CIDRs of a ServiceCIDR are immutable, but a second one may be added."""
    now, before = ((obj.get("spec") or {}).get("cidrs") or [] for obj in (new, old))
    if len(now) == len(before) or (len(before), len(now)) == (1, 2):
        for index, cidr in enumerate(before):
            errors.check_immutable(now[index], cidr, f"spec.cidrs[{index}]")
    else:
        errors.check_immutable(now, before, "spec.cidrs")


def validate_ip_address(errors: ErrorList, obj: Json) -> None:
    parent = (obj.get("spec") or {}).get("parentRef")
    if parent is None:
        errors.required("spec.parentRef")
        return
    errors.check_optional_names(parent, "spec.parentRef", error_list.dns1123_subdomain_errors, "group")
    for field in ("resource", "name"):
        errors.check_required_name(parent, "spec.parentRef", field, names.path_segment_errors)
    errors.check_optional_names(parent, "spec.parentRef", names.path_segment_errors, "namespace")


def ip_address_name_errors(name: str) -> list[str]:
    """An IPAddress is named after its address."""
    return [] if error_list.is_ip(name) else [error_list.NOT_AN_IP]


def _validate_host_pattern(errors: ErrorList, host: str, path: str) -> None:
    errors.check_name(host, path, names.wildcard_subdomain_errors if "*" in host else error_list.dns1123_subdomain_errors)


def _validate_rule(errors: ErrorList, rule: Json, path: str) -> None:
    if host := rule.get("host"):
        if parse_ip(host) is not None:
            errors.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        _validate_host_pattern(errors, host, f"{path}.host")
    if (http := rule.get("http")) is not None:
        errors.check_required(http, f"{path}.http", "paths")
        for http_path, item_path in list_items(http, f"{path}.http", "paths"):
            _validate_path(errors, http_path, item_path)


def _validate_path(errors: ErrorList, http_path: Json, path: str) -> None:
    kind, text = http_path.get("pathType"), http_path.get("path") or ""
    if kind is None:
        errors.required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        errors.not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    else:
        strict = kind != "ImplementationSpecific"
        if not text.startswith("/") and (text or strict):
            errors.invalid(f"{path}.path", text, "must be an absolute path")
        problems = [f"must not contain '{part}'" for part in _BAD_SEQUENCES if part in text]
        problems += [f"cannot end with '{end}'" for end in _BAD_ENDINGS if text.endswith(end)]
        for problem in problems if strict else ():
            errors.invalid(f"{path}.path", text, problem)
    _validate_backend(errors, http_path.get("backend") or {}, f"{path}.backend")


def _validate_backend(errors: ErrorList, backend: Json, path: str) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        errors.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        _validate_local_reference(errors, resource, f"{path}.resource")
    elif service is not None:
        errors.check_required_name(service, f"{path}.service", "name", names.dns1035_label_errors)
        _validate_backend_port(errors, service.get("port") or {}, path)
    else:
        errors.invalid(path, "", "resource or service backend is required")


def _validate_backend_port(errors: ErrorList, port: Json, path: str) -> None:
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.invalid(path, "", "cannot set both port name & port number")
    elif name:
        errors.check_name(name, f"{path}.service.port.name", names.port_name_errors)
    elif number:
        errors.check_port(number, f"{path}.service.port.number")
    else:
        errors.required(path, "port name or number is required")


def _validate_local_reference(errors: ErrorList, reference: Json, path: str) -> None:
    if reference.get("apiGroup") is not None:
        errors.check_dns_subdomain(reference["apiGroup"], f"{path}.apiGroup")
    for field in ("kind", "name"):
        errors.check_required_name(reference, path, field, names.path_segment_errors)


def _validate_class_parameters(errors: ErrorList, parameters: Json, path: str) -> None:
    _validate_local_reference(errors, parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        errors.required(f"{path}.scope")
        return
    errors.check_supported(parameters, path, "scope", ("Cluster", "Namespace"))
    if namespace == "" and scope == "Namespace":
        errors.required(f"{path}.namespace", "namespace must not be empty if scope is set to Namespace")
    if scope == "Namespace" and namespace is None:
        errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    if scope == "Cluster" and namespace is not None:
        errors.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    errors.check_optional_names(parameters, path, error_list.dns1123_label_errors, "namespace")


def _validate_policy_port(errors: ErrorList, port: Json, path: str) -> None:
    number, end = port.get("port"), port.get("endPort")
    errors.check_optional_enum(port, path, "protocol", ("TCP", "UDP", "SCTP"))
    if number is None:
        if end is not None:
            errors.invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(number, int):
        errors.check_port(number, f"{path}.port")
        if end is not None:
            if end < number:
                errors.invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")
            errors.check_port(end, f"{path}.endPort")
    else:
        if end is not None:
            errors.invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
        errors.check_name(number, f"{path}.port", names.port_name_errors)


def _validate_peer(errors: ErrorList, peer: Json, path: str) -> None:
    for field in ("podSelector", "namespaceSelector"):
        validate_label_selector(errors, peer.get(field), f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        _validate_block(errors, block, f"{path}.ipBlock")
    others = peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None
    if block is None and not others:
        errors.required(path, "must specify a peer")
    elif block is not None and others:
        errors.forbidden(path, "may not specify both ipBlock and another peer")


def _validate_block(errors: ErrorList, block: Json, path: str) -> None:
    cidr = block.get("cidr") or ""
    if not cidr:
        errors.required(f"{path}.cidr")
        return
    errors.check_cidr(cidr, f"{path}.cidr")
    outer = parse_cidr(cidr)
    if outer is None:
        return
    for text, text_path in list_items(block, path, "except"):
        errors.check_cidr(text, text_path)
        part = parse_cidr(text)
        if part is None:
            continue
        inside = part.version == outer.version and part.network_address in outer
        if not inside or outer.prefixlen >= part.prefixlen:
            errors.invalid(text_path, text, "must be a strict subset of `cidr`")
