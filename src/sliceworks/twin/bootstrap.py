"""What a new cluster holds before anyone asks for anything: namespaces, roles, priorities, and the API's own address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.admission.priorities import system_classes
from sliceworks.twin.api.preparations import SERVICE_NETWORK
from sliceworks.twin.auth import bootstrap as rbac

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.api.resources import Registry
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def fill(store: Store, registry: Registry, installed: Iterable[Obj] = ()) -> None:
    """Add what is missing, together with the objects of what is installed; what is there already stays as it is."""
    kinds = {(resource.group, resource.kind): resource for resource in registry}
    for obj in [*_namespaces(), *rbac.policy(), *system_classes(), *_api_service(), *installed]:
        group = obj["apiVersion"].rpartition("/")[0]
        resource = kinds[group, obj["kind"]]
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if store.get(resource.stored_as, namespace, name) is None:
            metadata |= {"uid": clock.uid(), "creationTimestamp": clock.timestamp()}
            store.put(resource.stored_as, namespace, name, _ordered(obj))


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


def _api_service() -> list[Obj]:
    address = str(SERVICE_NETWORK[1])
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return [
        {
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
    ]
