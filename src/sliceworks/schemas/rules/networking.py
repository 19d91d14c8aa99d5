"""Ingresses, their classes, and network policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required, too_long
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.selectors import selector_errors
from sliceworks.schemas.rules.services import host_errors
from sliceworks.schemas.rules.texts import (
    Errors,
    address,
    domain_prefixed_path,
    immutable,
    named,
    network,
    parse_address,
    parse_network,
    port_number,
    subdomain,
)

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS = ("/..", "/.")
_LONGEST_CONTROLLER = 250
_PROTOCOLS = ("TCP", "UDP", "SCTP")


def ingress_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    rules, backend, name = spec.get("rules") or [], spec.get("defaultBackend"), spec.get("ingressClassName")
    if not rules and backend is None:
        out.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        _backend(out, backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        _rule(out, rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            _host_pattern(out, host, f"spec.tls[{index}].hosts[{number}]")
        if tls.get("secretName"):
            subdomain(out, tls["secretName"], f"spec.tls[{index}].secretName")
    if name is not None:
        subdomain(out, name, "spec.ingressClassName")
    meta = obj.get("metadata") or {}
    annotated = (meta.get("annotations") or {}).get(_CLASS_ANNOTATION)
    if annotated is not None and name is not None and annotated != name and not meta.get("resourceVersion"):
        detail = "must match `ingressClassName` when both are specified"
        out.append(invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, detail))
    return out


def ingress_status_errors(new: Json, _old: Json) -> Errors:
    out: Errors = []
    for index, ingress in enumerate(((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()):
        path = f"status.loadBalancer.ingress[{index}]"
        if ingress.get("ip"):
            address(out, ingress["ip"], f"{path}.ip")
        if ingress.get("hostname"):
            host_errors(out, ingress["hostname"], f"{path}.hostname")
    return out


def ingress_class_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    if len(controller) > _LONGEST_CONTROLLER:
        out.append(too_long("spec.controller", _LONGEST_CONTROLLER))
    domain_prefixed_path(out, controller, "spec.controller")
    if parameters is not None:
        _class_parameters(out, parameters, "spec.parameters")
    return out


def ingress_class_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    immutable(out, (new.get("spec") or {}).get("controller"), (old.get("spec") or {}).get("controller"), "spec.controller")
    return out


def network_policy_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    selector_errors(out, spec.get("podSelector"), "spec.podSelector")
    for field, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(field) or ()):
            for number, port in enumerate(rule.get("ports") or ()):
                _policy_port(out, port, f"spec.{field}[{index}].ports[{number}]")
            for number, peer in enumerate(rule.get(side) or ()):
                _peer(out, peer, f"spec.{field}[{index}].{side}[{number}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        out.append(invalid("spec.policyTypes", types, "may not specify more than two policyTypes"))
        return out
    for index, kind in enumerate(types):
        if kind not in ("Ingress", "Egress"):
            out.append(not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress")))
    return out


def _host_pattern(out: Errors, host: str, path: str) -> None:
    named(out, host, path, names.wildcard_subdomain_errors if "*" in host else name_rules.dns1123_subdomain_errors)


def _rule(out: Errors, rule: Json, path: str) -> None:
    if host := rule.get("host"):
        if parse_address(host) is not None:
            out.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        _host_pattern(out, host, f"{path}.host")
    http = rule.get("http")
    if http is None:
        return
    paths = http.get("paths") or []
    if not paths:
        out.append(required(f"{path}.http.paths"))
    for index, found in enumerate(paths):
        _path(out, found, f"{path}.http.paths[{index}]")


def _path(out: Errors, found: Json, path: str) -> None:
    kind, text = found.get("pathType"), found.get("path") or ""
    if kind is None:
        out.append(required(f"{path}.pathType", "pathType must be specified"))
        return
    if kind not in _PATH_TYPES:
        out.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    else:
        strict = kind != "ImplementationSpecific"
        if not text.startswith("/") and (text or strict):
            out.append(invalid(f"{path}.path", text, "must be an absolute path"))
        if strict:
            out += [invalid(f"{path}.path", text, f"must not contain '{bad}'") for bad in _BAD_SEQUENCES if bad in text]
            out += [invalid(f"{path}.path", text, f"cannot end with '{bad}'") for bad in _BAD_ENDINGS if text.endswith(bad)]
    _backend(out, found.get("backend") or {}, f"{path}.backend")


def _backend(out: Errors, backend: Json, path: str) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        out.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        _local_reference(out, resource, f"{path}.resource")
    elif service is not None:
        if not service.get("name"):
            out.append(required(f"{path}.service.name"))
        else:
            named(out, service["name"], f"{path}.service.name", names.dns1035_label_errors)
        _backend_port(out, service.get("port") or {}, path)
    else:
        out.append(invalid(path, "", "resource or service backend is required"))


def _backend_port(out: Errors, port: Json, path: str) -> None:
    name, number = port.get("name"), port.get("number")
    if name and number:
        out.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        named(out, name, f"{path}.service.port.name", names.port_name_errors)
    elif number:
        port_number(out, number, f"{path}.service.port.number")
    else:
        out.append(required(path, "port name or number is required"))


def _local_reference(out: Errors, reference: Json, path: str) -> None:
    if reference.get("apiGroup") is not None:
        subdomain(out, reference["apiGroup"], f"{path}.apiGroup")
    for field in ("kind", "name"):
        if not reference.get(field):
            out.append(required(f"{path}.{field}"))
        else:
            named(out, reference[field], f"{path}.{field}", names.path_segment_errors)


def _class_parameters(out: Errors, parameters: Json, path: str) -> None:
    _local_reference(out, parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        out.append(required(f"{path}.scope"))
        return
    if scope not in ("Cluster", "Namespace"):
        out.append(not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    if namespace == "" and scope == "Namespace":
        out.append(required(f"{path}.namespace", "namespace must not be empty if scope is set to Namespace"))
    if scope == "Namespace" and namespace is None:
        out.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    if scope == "Cluster" and namespace is not None:
        out.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    if namespace:
        named(out, namespace, f"{path}.namespace", name_rules.dns1123_label_errors)


def _policy_port(out: Errors, port: Json, path: str) -> None:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        out.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    if number is None:
        if end is not None:
            out.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
    elif isinstance(number, int):
        port_number(out, number, f"{path}.port")
        if end is not None:
            if end < number:
                out.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
            port_number(out, end, f"{path}.endPort")
    else:
        if end is not None:
            out.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        named(out, number, f"{path}.port", names.port_name_errors)


def _peer(out: Errors, peer: Json, path: str) -> None:
    for field in ("podSelector", "namespaceSelector"):
        selector_errors(out, peer.get(field), f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        _block(out, block, f"{path}.ipBlock")
    others = peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None
    if block is None and not others:
        out.append(required(path, "must specify a peer"))
    elif block is not None and others:
        out.append(forbidden(path, "may not specify both ipBlock and another peer"))


def _block(out: Errors, block: Json, path: str) -> None:
    cidr = block.get("cidr") or ""
    if not cidr:
        out.append(required(f"{path}.cidr"))
        return
    network(out, cidr, f"{path}.cidr")
    whole = parse_network(cidr)
    if whole is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        network(out, text, f"{path}.except[{index}]")
        part = parse_network(text)
        if part is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or whole.prefixlen >= part.prefixlen:
            out.append(invalid(f"{path}.except[{index}]", text, "must be a strict subset of `cidr`"))
