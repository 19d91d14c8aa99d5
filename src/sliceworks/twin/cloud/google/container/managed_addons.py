"""What GKE installs in a cluster by its settings: kinds of the Gateway API, of Managed Service for Prometheus and of Cloud Service
Mesh, and addresses of load balancers.

The kinds are served with their required fields only; no controller acts on them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION, SERVICE
from sliceworks.twin.cloud.core.document_store import Table
from sliceworks.twin.controllers.runtime.resource_keys import SERVICES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from sliceworks.kube.client import Client
    from sliceworks.twin.store.store import Store
    from sliceworks.twin.store.watch_cache import Change

Obj = dict[str, Any]
_CLUSTERS, _FEATURES = "container/clusters", "gkehub/features"
_INTERNAL = "networking.gke.io/load-balancer-type"


class _Kind(NamedTuple):
    """A kind that GKE installs, with the required fields of its spec."""

    group: str
    name: str
    plural: str
    required: tuple[str, ...] = ()
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True


_GATEWAY, _GKE, _MONITORING = "gateway.networking.k8s.io", "networking.gke.io", "monitoring.googleapis.com"
_ISTIO, _SECURITY = "networking.istio.io", "security.istio.io"
_BOTH = ("v1", "v1beta1")
_GATEWAY_API = (
    _Kind(_GATEWAY, "GatewayClass", "gatewayclasses", ("controllerName",), _BOTH, namespaced=False),
    _Kind(_GATEWAY, "Gateway", "gateways", ("gatewayClassName", "listeners"), _BOTH),
    _Kind(_GATEWAY, "HTTPRoute", "httproutes", (), _BOTH),
    _Kind(_GATEWAY, "ReferenceGrant", "referencegrants", ("from", "to"), ("v1beta1",)),
    _Kind(_GKE, "HealthCheckPolicy", "healthcheckpolicies", ("targetRef",)),
    _Kind(_GKE, "GCPBackendPolicy", "gcpbackendpolicies", ("targetRef",)),
)
_PROMETHEUS = (
    _Kind(_MONITORING, "PodMonitoring", "podmonitorings", ("endpoints", "selector")),
    _Kind(_MONITORING, "ClusterPodMonitoring", "clusterpodmonitorings", ("endpoints", "selector"), namespaced=False),
    _Kind(_MONITORING, "Rules", "rules", ("groups",)),
)
_MESH = (
    _Kind(_ISTIO, "Gateway", "gateways", (), _BOTH),
    _Kind(_ISTIO, "VirtualService", "virtualservices", (), _BOTH),
    _Kind(_ISTIO, "DestinationRule", "destinationrules", ("host",), _BOTH),
    _Kind(_ISTIO, "ServiceEntry", "serviceentries", ("hosts",), _BOTH),
    _Kind(_SECURITY, "PeerAuthentication", "peerauthentications", (), _BOTH),
    _Kind(_SECURITY, "AuthorizationPolicy", "authorizationpolicies", (), _BOTH),
)


class ManagedAddons:
    """Installs the kinds that the cluster's settings ask for and gives load balancers an address, when the store changes."""

    def __init__(self, store: Store, client: Client) -> None:
        self._store, self._client = store, client
        self._clusters, self._features = Table(store, _CLUSTERS, "Cluster"), Table(store, _FEATURES, "Feature")
        self._tasks: set[asyncio.Task[None]] = set()
        self._installed: set[str] = set()

    def start(self) -> None:
        """Install what is missing, and follow changes."""
        self._store.subscribe(self._observe)

    async def stop(self) -> None:
        """Stop following changes."""
        with suppress(ValueError):  # not started
            self._store.unsubscribe(self._observe)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _observe(self, change: Change) -> None:
        if change.type == "DELETED":
            return
        if change.resource in (f"cloud.{_CLUSTERS}", f"cloud.{_FEATURES}"):
            self._spawn(self._install())
        elif (
            change.resource == SERVICES
            and change.obj["spec"].get("type") == "LoadBalancer"
            and self._store.count(f"cloud.{_CLUSTERS}")
        ):
            self._spawn(self._assign_address(change.obj))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _install(self) -> None:
        for definition in self._definitions():
            name = definition["metadata"]["name"]
            if name not in self._installed:
                self._installed.add(name)
                with suppress(AlreadyExists):
                    await self._client.create(definition, resource=CUSTOM_RESOURCE_DEFINITION)

    def _definitions(self) -> Iterator[Obj]:
        """The definitions that the settings of the cluster with Nodes ask for."""
        for cluster in self._clusters.all():
            body = cluster.body
            if not cluster.inner.get("kubernetes") or body.get("status") != "RUNNING":
                continue
            network, monitoring = body.get("networkConfig") or {}, body.get("monitoringConfig") or {}
            if (network.get("gatewayApiConfig") or {}).get("channel") == "CHANNEL_STANDARD":
                yield from map(_definition, _GATEWAY_API)
            if (monitoring.get("managedPrometheusConfig") or {}).get("enabled"):
                yield from map(_definition, _PROMETHEUS)
            if any(map(_manages_mesh, (feature.body for feature in self._features.all()))):
                yield from mesh_definitions()

    async def _assign_address(self, service: Obj) -> None:
        """Give a load balancer its address: of the subnet if it is internal, else a public one reserved for documentation."""
        if ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
            return
        metadata = service["metadata"]
        last = 2 + int(metadata["uid"].replace("-", "")[:8], 16) % 250
        internal = (metadata.get("annotations") or {}).get(_INTERNAL) == "Internal"
        status = {"loadBalancer": {"ingress": [{"ip": f"10.128.0.{last}" if internal else f"203.0.113.{last}"}]}}
        with suppress(NotFound):
            await self._client.patch(SERVICE, metadata["name"], {"status": status}, metadata["namespace"], subresource="status")


def mesh_definitions() -> Iterator[Obj]:
    """The CustomResourceDefinitions of the service mesh."""
    return map(_definition, _MESH)


def _manages_mesh(feature: Obj) -> bool:
    specs = (feature.get("membershipSpecs") or {}).values()
    return any((spec.get("mesh") or {}).get("management") == "MANAGEMENT_AUTOMATIC" for spec in specs)


def _definition(kind: _Kind) -> Obj:
    """The CustomResourceDefinition of a kind; the first version is stored."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {**anything, **({"required": list(kind.required)} if kind.required else {})}
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": anything},
        **({"required": ["spec"]} if kind.required else {}),
    }
    version = {"served": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    name, approval = f"{kind.plural}.{kind.group}", {"api-approved.kubernetes.io": "unapproved, simulated by the twin"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, **({"annotations": approval} if kind.group.endswith(".k8s.io") else {})},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower(), "listKind": f"{kind.name}List"},
            "versions": [{"name": name, "storage": name == kind.versions[0], **version} for name in kind.versions],
        },
    }
