"""Ingresses, IngressClasses and NetworkPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required, too_long
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_cidr,
    check_dns_subdomain,
    check_domain_prefixed_path,
    check_immutable,
    check_ip,
    check_name,
    check_port,
    parse_cidr,
    parse_ip,
)
from sliceworks.twin.apiserver.validation.selectors import selector_errors
from sliceworks.twin.apiserver.validation.service import host_errors

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS = ("/..", "/.")
_LONGEST_CONTROLLER = 250
_PROTOCOLS = ("TCP", "UDP", "SCTP")


def ingress_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    rules, backend, name = spec.get("rules") or [], spec.get("defaultBackend"), spec.get("ingressClassName")
    if not rules and backend is None:
        errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        _backend(errors, backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        _rule(errors, rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            _host_pattern(errors, host, f"spec.tls[{index}].hosts[{number}]")
        if tls.get("secretName"):
            check_dns_subdomain(errors, tls["secretName"], f"spec.tls[{index}].secretName")
    if name is not None:
        check_dns_subdomain(errors, name, "spec.ingressClassName")
    meta = obj.get("metadata") or {}
    annotated = (meta.get("annotations") or {}).get(_CLASS_ANNOTATION)
    if annotated is not None and name is not None and annotated != name and not meta.get("resourceVersion"):
        detail = "must match `ingressClassName` when both are specified"
        errors.append(invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, detail))
    return errors


def ingress_status_errors(new: Json, _old: Json) -> Errors:
    errors: Errors = []
    for index, ingress in enumerate(((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()):
        path = f"status.loadBalancer.ingress[{index}]"
        if ingress.get("ip"):
            check_ip(errors, ingress["ip"], f"{path}.ip")
        if ingress.get("hostname"):
            host_errors(errors, ingress["hostname"], f"{path}.hostname")
    return errors


def ingress_class_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    if len(controller) > _LONGEST_CONTROLLER:
        errors.append(too_long("spec.controller", _LONGEST_CONTROLLER))
    check_domain_prefixed_path(errors, controller, "spec.controller")
    if parameters is not None:
        _class_parameters(errors, parameters, "spec.parameters")
    return errors


def ingress_class_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    check_immutable(errors, (new.get("spec") or {}).get("controller"), (old.get("spec") or {}).get("controller"), "spec.controller")
    return errors


def network_policy_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    selector_errors(errors, spec.get("podSelector"), "spec.podSelector")
    for field, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(field) or ()):
            for number, port in enumerate(rule.get("ports") or ()):
                _policy_port(errors, port, f"spec.{field}[{index}].ports[{number}]")
            for number, peer in enumerate(rule.get(side) or ()):
                _peer(errors, peer, f"spec.{field}[{index}].{side}[{number}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        errors.append(invalid("spec.policyTypes", types, "may not specify more than two policyTypes"))
        return errors
    for index, kind in enumerate(types):
        if kind not in ("Ingress", "Egress"):
            errors.append(not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress")))
    return errors


def _host_pattern(errors: Errors, host: str, path: str) -> None:
    check_name(errors, host, path, names.wildcard_subdomain_errors if "*" in host else field_checks.dns1123_subdomain_errors)


def _rule(errors: Errors, rule: Json, path: str) -> None:
    if host := rule.get("host"):
        if parse_ip(host) is not None:
            errors.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        _host_pattern(errors, host, f"{path}.host")
    http = rule.get("http")
    if http is None:
        return
    paths = http.get("paths") or []
    if not paths:
        errors.append(required(f"{path}.http.paths"))
    for index, http_path in enumerate(paths):
        _path(errors, http_path, f"{path}.http.paths[{index}]")


def _path(errors: Errors, http_path: Json, path: str) -> None:
    kind, text = http_path.get("pathType"), http_path.get("path") or ""
    if kind is None:
        errors.append(required(f"{path}.pathType", "pathType must be specified"))
        return
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    else:
        strict = kind != "ImplementationSpecific"
        if not text.startswith("/") and (text or strict):
            errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
        if strict:
            errors += [invalid(f"{path}.path", text, f"must not contain '{bad}'") for bad in _BAD_SEQUENCES if bad in text]
            errors += [invalid(f"{path}.path", text, f"cannot end with '{bad}'") for bad in _BAD_ENDINGS if text.endswith(bad)]
    _backend(errors, http_path.get("backend") or {}, f"{path}.backend")


def _backend(errors: Errors, backend: Json, path: str) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        errors.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        _local_reference(errors, resource, f"{path}.resource")
    elif service is not None:
        if not service.get("name"):
            errors.append(required(f"{path}.service.name"))
        else:
            check_name(errors, service["name"], f"{path}.service.name", names.dns1035_label_errors)
        _backend_port(errors, service.get("port") or {}, path)
    else:
        errors.append(invalid(path, "", "resource or service backend is required"))


def _backend_port(errors: Errors, port: Json, path: str) -> None:
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        check_name(errors, name, f"{path}.service.port.name", names.port_name_errors)
    elif number:
        check_port(errors, number, f"{path}.service.port.number")
    else:
        errors.append(required(path, "port name or number is required"))


def _local_reference(errors: Errors, reference: Json, path: str) -> None:
    if reference.get("apiGroup") is not None:
        check_dns_subdomain(errors, reference["apiGroup"], f"{path}.apiGroup")
    for field in ("kind", "name"):
        if not reference.get(field):
            errors.append(required(f"{path}.{field}"))
        else:
            check_name(errors, reference[field], f"{path}.{field}", names.path_segment_errors)


def _class_parameters(errors: Errors, parameters: Json, path: str) -> None:
    _local_reference(errors, parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        errors.append(required(f"{path}.scope"))
        return
    if scope not in ("Cluster", "Namespace"):
        errors.append(not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    if namespace == "" and scope == "Namespace":
        errors.append(required(f"{path}.namespace", "namespace must not be empty if scope is set to Namespace"))
    if scope == "Namespace" and namespace is None:
        errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    if scope == "Cluster" and namespace is not None:
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    if namespace:
        check_name(errors, namespace, f"{path}.namespace", field_checks.dns1123_label_errors)


def _policy_port(errors: Errors, port: Json, path: str) -> None:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    if number is None:
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
    elif isinstance(number, int):
        check_port(errors, number, f"{path}.port")
        if end is not None:
            if end < number:
                errors.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
            check_port(errors, end, f"{path}.endPort")
    else:
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        check_name(errors, number, f"{path}.port", names.port_name_errors)


def _peer(errors: Errors, peer: Json, path: str) -> None:
    for field in ("podSelector", "namespaceSelector"):
        selector_errors(errors, peer.get(field), f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        _block(errors, block, f"{path}.ipBlock")
    others = peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None
    if block is None and not others:
        errors.append(required(path, "must specify a peer"))
    elif block is not None and others:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))


def _block(errors: Errors, block: Json, path: str) -> None:
    cidr = block.get("cidr") or ""
    if not cidr:
        errors.append(required(f"{path}.cidr"))
        return
    check_cidr(errors, cidr, f"{path}.cidr")
    outer = parse_cidr(cidr)
    if outer is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        check_cidr(errors, text, f"{path}.except[{index}]")
        part = parse_cidr(text)
        if part is None:
            continue
        inside = part.version == outer.version and part.network_address in outer
        if not inside or outer.prefixlen >= part.prefixlen:
            errors.append(invalid(f"{path}.except[{index}]", text, "must be a strict subset of `cidr`"))
