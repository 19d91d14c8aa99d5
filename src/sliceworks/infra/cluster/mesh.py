"""Cloud Service Mesh in a cluster: labels that make it inject its proxies, and an ingress gateway inside the VPC. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.infra.cluster.inventory import KindsServed, Step, availability_waits, build_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
GATEWAY = "istio-ingressgateway"
SELECTOR = {"istio": "internal-ingressgateway"}
"""The label of the gateway's pods, for `route.selector` of a ModelService."""
_REVISIONS = {"rapid": "asm-managed-rapid", "regular": "asm-managed", "stable": "asm-managed-stable"}
_INTERNAL = {"networking.gke.io/load-balancer-type": "Internal"}
_PORTS = (("status-port", 15021), ("http", 80), ("https", 443))


def injection_labels(environment: Environment) -> dict[str, str]:
    """The labels of a namespace whose pods get a proxy; none without a mesh."""
    addons = environment.spec.addons
    if not addons.mesh:
        return {}
    return {"istio.io/rev": _REVISIONS[addons.mesh_channel]} if addons.mesh_channel else {"istio-injection": "enabled"}


def ingress_namespace(environment: Environment) -> str:
    """The namespace of the ingress gateway: that of the first workload identity by default."""
    spec = environment.spec
    first = next((identity.namespace for identity in spec.identities.workloads.values()), "istio-ingress")
    return spec.addons.ingress_namespace or first


def mesh_steps(environment: Environment) -> Iterator[Step]:
    """Wait for the control plane, then deploy the ingress gateway."""
    yield Step("mesh", (), (KindsServed((("networking.istio.io/v1", "VirtualService"),)),))
    namespace = ingress_namespace(environment)
    known = {identity.namespace for identity in environment.spec.identities.workloads.values()}
    new = () if namespace in known else (build_namespace(namespace, labels=injection_labels(environment)),)
    objects = (*new, *_gateway_objects(namespace))
    yield Step("ingress", objects, availability_waits(objects))


def _gateway_objects(namespace: str) -> Iterator[Object]:
    """The gateway as Istio documents it: the mesh replaces the image `auto` when it injects the proxy."""

    def obj(api_version: str, kind: str, **fields: Any) -> Object:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": GATEWAY, "namespace": namespace}, **fields}

    yield obj("v1", "ServiceAccount")
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "watch", "list"]}  # certificates of listeners
    yield obj("rbac.authorization.k8s.io/v1", "Role", rules=[secrets])
    subject = {"kind": "ServiceAccount", "name": GATEWAY, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": GATEWAY}
    yield obj("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef=role, subjects=[subject])
    container = {
        "name": "istio-proxy",
        "image": "auto",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True},
    }
    template = {
        "metadata": {
            "annotations": {"inject.istio.io/templates": "gateway"},
            "labels": {**SELECTOR, "sidecar.istio.io/inject": "true"},
        },
        "spec": {"serviceAccountName": GATEWAY, "containers": [container]},
    }
    yield obj("apps/v1", "Deployment", spec={"replicas": 2, "selector": {"matchLabels": dict(SELECTOR)}, "template": template})
    ports = [{"name": name, "port": port, "targetPort": port} for name, port in _PORTS]
    service = obj("v1", "Service", spec={"type": "LoadBalancer", "selector": dict(SELECTOR), "ports": ports})
    service["metadata"]["annotations"] = dict(_INTERNAL)
    yield service
