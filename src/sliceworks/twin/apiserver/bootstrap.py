"""The objects of a new cluster: namespaces, RBAC policy, priority classes, ConfigMaps, the network of Services, the API Service."""

from __future__ import annotations

from importlib.resources import files
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.apiserver.admission.priority import system_classes
from sliceworks.twin.apiserver.auth.certificates import PROXY_CLIENT
from sliceworks.twin.apiserver.auth.rbac import GROUP
from sliceworks.twin.apiserver.codec import order_fields
from sliceworks.twin.apiserver.registry import api_service_strategy, service_allocator
from sliceworks.twin.apiserver.service_endpoints import ENDPOINT_SLICES, SERVICE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from ipaddress import IPv4Network

    from sliceworks.twin.apiserver.registry.resources import ClusterView, Registry
    from sliceworks.twin.store.store import Store


Obj = dict[str, Any]
_API_SERVICE = ("default", "kubernetes")
_SERVICE_CIDRS = "networking.k8s.io/servicecidrs"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_AUTHENTICATION = "extension-apiserver-authentication"
_ON_START = "onstart"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def bootstrap_policy() -> list[dict[str, Any]]:
    """The roles and bindings of a new cluster; aggregated roles have their rules."""
    data = orjson.loads((files("sliceworks.twin.apiserver.auth") / "data" / "policy.json").read_bytes())
    roles = [_cluster_role(name, entry) for name, entry in data["clusterRoles"].items()]
    _aggregate(roles)
    bindings = [
        _binding("ClusterRoleBinding", name, "ClusterRole", name, subjects)
        for name, subjects in data["clusterRoleBindings"].items()
    ]
    namespaced = [_object("Role", name, rules=[parse_rule(line) for line in rules]) for name, rules in data["roles"].items()]
    role_bindings = [
        _binding("RoleBinding", name, "Role", entry["role"], entry["subjects"]) for name, entry in data["roleBindings"].items()
    ]
    return [*roles, *bindings, *namespaced, *role_bindings]


def aggregated_rules(role: Mapping[str, Any], roles: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The rules of an aggregated ClusterRole, from the others in name order; None if it is not aggregated."""
    rule = role.get("aggregationRule")
    if rule is None:
        return None
    rules: dict[bytes, dict[str, Any]] = {}
    by_name = sorted(roles, key=lambda other: str(other["metadata"]["name"]))
    for selector in map(from_label_selector, rule.get("clusterRoleSelectors") or ()):
        for other in by_name:
            if other["metadata"]["name"] != role["metadata"]["name"] and selector.matches(other["metadata"].get("labels") or {}):
                for policy_rule in other.get("rules") or ():
                    rules.setdefault(orjson.dumps(policy_rule, option=orjson.OPT_SORT_KEYS), policy_rule)
    return list(rules.values())


def parse_rule(line: str) -> dict[str, Any]:
    """The PolicyRule of one line of the data: `get,list on pods in core`."""
    verbs, _, rest = line.partition(" on ")
    if rest == "*" or rest.startswith("/"):
        return {"verbs": verbs.split(","), "nonResourceURLs": rest.split(",")}
    rest, _, names = rest.partition(" named ")
    resources, _, groups = rest.partition(" in ")
    rule: dict[str, Any] = {
        "verbs": verbs.split(","),
        "apiGroups": ["" if group == "core" else group for group in (groups or "core").split(",")],
        "resources": resources.split(","),
    }
    return {**rule, "resourceNames": names.split(",")} if names else rule


def _aggregate(roles: list[dict[str, Any]]) -> None:
    """Set the rules of aggregated roles until nothing changes: one may aggregate another."""
    changed = True
    while changed:
        changed = False
        for role in roles:
            rules = aggregated_rules(role, roles)
            if rules is not None and rules != role["rules"]:
                role["rules"] = rules
                changed = True


def _cluster_role(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    role = _object("ClusterRole", name, rules=[parse_rule(line) for line in entry.get("rules", ())])
    for target in entry.get("aggregateTo", ()):
        role["metadata"]["labels"][_AGGREGATE + target] = "true"
    if source := entry.get("aggregates"):
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + source: "true"}}]}
    return role


def _binding(kind: str, name: str, role_kind: str, role: str, subjects: Iterable[str]) -> dict[str, Any]:
    return _object(
        kind,
        name,
        roleRef={"apiGroup": GROUP, "kind": role_kind, "name": role},
        subjects=[_subject(line) for line in subjects],
    )


def _subject(line: str) -> dict[str, str]:
    kind, _, name = line.partition(" ")
    if kind == "ServiceAccount":
        namespace, _, name = name.partition("/")
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"kind": kind, "apiGroup": GROUP, "name": name}


def _object(kind: str, key: str, **fields: Any) -> dict[str, Any]:
    namespace, _, name = key.rpartition("/")
    metadata: dict[str, Any] = {"name": name, "namespace": namespace} if namespace else {"name": name}
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    present = {field: value for field, value in fields.items() if value or field == "rules"}
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata, **present}


def create_missing(store: Store, registry: Registry, view: ClusterView, installed: Iterable[Obj] = ()) -> None:
    """Create the missing objects of a new cluster and of installed systems.

    Existing objects do not change, except that Services outside the current service network get new cluster IPs.
    """
    _reallocate_services(store, view)
    _update_service_cidr(store, view)
    kinds = {(resource.group, resource.kind): resource for resource in registry}
    api = _api_service(view.service_network)
    network = _service_cidr(view.service_network)
    for obj in [*_namespaces(), *bootstrap_policy(), *system_classes(), api, network, *installed]:
        group = obj["apiVersion"].rpartition("/")[0]
        resource = kinds[group, obj["kind"]]
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        entry = store.get(resource.storage_key, namespace, name)
        if entry is not None and name == _AUTHENTICATION and entry.object()["data"] != obj["data"]:
            # The authorities of this server, as kube-apiserver keeps them up to date.
            store.put(resource.storage_key, namespace, name, {**entry.object(), "data": obj["data"]})
        elif entry is None:
            # An object may bring a fixed UID, so that the random numbers of a simulation do not depend on it.
            metadata |= {"uid": metadata.get("uid") or clock.uid(), "creationTimestamp": clock.timestamp()}
            store.put(resource.storage_key, namespace, name, order_fields(obj))


def _reallocate_services(store: Store, view: ClusterView) -> None:
    for obj in list(view.list("/services")):
        spec, metadata = obj["spec"], obj["metadata"]
        address = spec.get("clusterIP") or "None"
        if address == "None" or ip_address(address) in view.service_network:
            continue
        is_api = (metadata["namespace"], metadata["name"]) == _API_SERVICE
        spec |= {"clusterIP": str(view.service_network[1]) if is_api else "", "clusterIPs": []}
        service_allocator.allocate_cluster_ip(spec, view)
        store.put("/services", metadata["namespace"], metadata["name"], obj)


def _update_service_cidr(store: Store, view: ClusterView) -> None:
    name, cidrs = _API_SERVICE[1], [str(view.service_network)]
    obj = next((item for item in view.list(_SERVICE_CIDRS) if item["metadata"]["name"] == name), None)
    if obj is not None and obj["spec"].get("cidrs") != cidrs:
        store.put(_SERVICE_CIDRS, "", name, {**obj, "spec": {"cidrs": cidrs}})


def _namespaces() -> list[Obj]:
    return [
        {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        for name in _NAMESPACES
    ]


def config_maps(authority: str, proxy_authority: str = "") -> list[Obj]:
    """The authorities of clients and of the front proxy, for other servers, and the day from which legacy tokens are recorded."""
    data = {
        _AUTHENTICATION: {"client-ca-file": authority, **(_request_headers(proxy_authority) if proxy_authority else {})},
        "kube-apiserver-legacy-service-account-token-tracking": {"since": clock.timestamp()[:10]},
    }
    return [
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "kube-system"}, "data": values}
        for name, values in data.items()
    ]


def _request_headers(authority: str) -> dict[str, str]:
    """How aggregated APIs learn the user of a request that this server passes on."""
    return {
        "requestheader-allowed-names": f'["{PROXY_CLIENT}"]',
        "requestheader-client-ca-file": authority,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }


def api_services(registry: Registry, aggregated: Iterable[str]) -> list[Obj]:
    """The APIServices of the built-in group versions, and of those that the twin serves for installed systems."""
    versions = registry.versions()
    built_in = [(group, version) for group in versions if group != api_service_strategy.GROUP for version in versions[group]]
    served = [*built_in, *map(api_service_strategy.split_name, aggregated)]
    return [api_service_strategy.local_api_service(group, version, _ON_START) for group, version in served]


def restore_api_services(store: Store, desired: Iterable[Obj]) -> None:
    """Restore the local APIServices of group versions that are served, and delete those of others."""
    specs = {obj["metadata"]["name"]: obj["spec"] for obj in desired}
    for entry in list(store.scan(api_service_strategy.KEY)):
        obj = entry.object()
        labels = obj["metadata"].get("labels") or {}
        if labels.get(api_service_strategy.MANAGED) != _ON_START or obj["spec"].get("service") is not None:
            continue
        spec = specs.get(entry.name)
        if spec is None:
            store.remove(api_service_strategy.KEY, "", entry.name, obj)
        elif spec != obj["spec"]:
            store.put(api_service_strategy.KEY, "", entry.name, {**obj, "spec": spec})


def _service_cidr(network: IPv4Network) -> Obj:
    """The network of cluster IPs."""
    ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}
    return {
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": _API_SERVICE[1]},
        "spec": {"cidrs": [str(network)]},
        "status": {"conditions": [{**ready, "lastTransitionTime": clock.timestamp()}]},
    }


def put_api_endpoints(store: Store, address: str, port: int) -> None:
    """Create or update the Endpoints and the EndpointSlice of the `kubernetes` Service."""
    namespace, name = _API_SERVICE
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    endpoints = {
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }
    endpoint_slice = {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "labels": {SERVICE_NAME: name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }
    for resource, obj in (("/endpoints", endpoints), (ENDPOINT_SLICES, endpoint_slice)):
        _put(store, resource, obj)


def _put(store: Store, resource: str, obj: Obj) -> None:
    """Create an object, or replace everything but the identity of the stored one if it differs."""
    metadata = obj["metadata"]
    entry = store.get(resource, metadata["namespace"], metadata["name"])
    old = entry.object() if entry is not None else {"metadata": {"uid": clock.uid(), "creationTimestamp": clock.timestamp()}}
    new = {**obj, "metadata": {**old["metadata"], **metadata}}
    if new != old:
        store.put(resource, metadata["namespace"], metadata["name"], order_fields(new))


def _api_service(network: IPv4Network) -> Obj:
    address = str(network[1])
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
        "status": {"loadBalancer": {}},
    }
