"""What a new cluster holds before anyone asks for anything: namespaces, roles, priorities, and the API's own address."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.admission.priorities import system_classes
from sliceworks.twin.api import service_addresses
from sliceworks.twin.auth import bootstrap as rbac

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network

    from sliceworks.twin.api.resources import Registry
    from sliceworks.twin.api.strategies import ClusterView
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_API = ("default", "kubernetes")
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def fill(store: Store, registry: Registry, view: ClusterView, installed: Iterable[Obj] = ()) -> None:
    """Add what is missing, together with the objects of what is installed; what is there already stays as it is, but for the
    addresses of Services that are of another range than the cluster has now."""
    _move_services(store, view)
    kinds = {(resource.group, resource.kind): resource for resource in registry}
    api = _api_service(view.service_network)
    for obj in [*_namespaces(), *rbac.policy(), *system_classes(), api, *installed]:
        group = obj["apiVersion"].rpartition("/")[0]
        resource = kinds[group, obj["kind"]]
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if store.get(resource.stored_as, namespace, name) is None:
            metadata |= {"uid": clock.uid(), "creationTimestamp": clock.timestamp()}
            store.put(resource.stored_as, namespace, name, _ordered(obj))


def _move_services(store: Store, view: ClusterView) -> None:
    for obj in list(view.list("/services")):
        spec, metadata = obj["spec"], obj["metadata"]
        address = spec.get("clusterIP") or "None"
        if address == "None" or ip_address(address) in view.service_network:
            continue
        own = (metadata["namespace"], metadata["name"]) == _API
        spec |= {"clusterIP": str(view.service_network[1]) if own else "", "clusterIPs": []}
        service_addresses.allocate(spec, view)
        store.put("/services", metadata["namespace"], metadata["name"], obj)


def _ordered(obj: Obj) -> Obj:
    return {"kind": obj.pop("kind"), "apiVersion": obj.pop("apiVersion"), "metadata": obj.pop("metadata"), **obj}


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
