"""Labels, and the objects around pods: Deployments, Services, budgets, autoscalers, monitoring, network policies. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.catalog.labels import MODEL_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.specs.model_service import ModelService

Object = dict[str, Any]
SERVICE_LABEL = MODEL_SERVICE
ENGINE_LABEL = "sliceworks.dev/engine"
GATEWAY_LABEL = "sliceworks.dev/gateway"
COMPONENT_LABEL = "app.kubernetes.io/component"
TRACK_LABEL = "sliceworks.dev/track"
SLICE_LABEL = "sliceworks.dev/slice"
MANAGED_BY = {"app.kubernetes.io/managed-by": "sliceworks"}
SERVER_COMPONENT = "server"
ROUTE_COMPONENT = "route"
COLLECTORS: Object = {
    "namespaceSelector": {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["gmp-system", "gke-gmp-system"]},
        ]
    }
}
"""The namespaces of Managed Service for Prometheus; the second one is for Autopilot clusters."""
_EXTRA_PROGRESS = 600


def labels(service: ModelService, component: str, track: str = "") -> dict[str, str]:
    """Labels of every object and pod of a component."""
    return {
        **service.metadata.labels,
        "app.kubernetes.io/name": service.metadata.name,
        **selector(service, component, track),
        **MANAGED_BY,
        ENGINE_LABEL: service.spec.engine,
    }


def selector(service: ModelService, component: str, track: str = "") -> dict[str, str]:
    """The labels that select the pods of a component."""
    return {SERVICE_LABEL: service.metadata.name, COMPONENT_LABEL: component, **({TRACK_LABEL: track} if track else {})}


def metadata(service: ModelService, name: str, component: str, track: str = "") -> Object:
    """Name, namespace and labels of an object."""
    namespace = {"namespace": service.metadata.namespace} if service.metadata.namespace else {}
    return {"name": name, **namespace, "labels": labels(service, component, track)}


def service_account(service: ModelService) -> list[Object]:
    """The service account, if the document binds it to a Google service account."""
    identity = service.spec.identity
    if identity is None or not identity.google_service_account:
        return []
    account = metadata(service, identity.service_account, "identity")
    account["labels"] = dict(MANAGED_BY)  # Other services may use the same account.
    account["annotations"] = {"iam.gke.io/gcp-service-account": identity.google_service_account}
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}]


def pod_template(service: ModelService, component: str, pod: Object, track: str = "", **annotations: str) -> Object:
    """The pod template of a component."""
    template: Object = {"labels": labels(service, component, track)}
    if annotations or service.metadata.annotations:
        template["annotations"] = {**service.metadata.annotations, **annotations}
    return {"metadata": template, "spec": pod}


def deployment(
    service: ModelService, name: str, component: str, template: Object, *, replicas: int | None, track: str = "", surge: bool = True
) -> Object:
    """A Deployment. Without `surge`, an old pod stops before a new one starts: they need the same chips."""
    rolling = {"maxUnavailable": 0, "maxSurge": 1} if surge else {"maxUnavailable": 1, "maxSurge": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(service, name, component, track),
        "spec": {
            **({"replicas": replicas} if replicas is not None else {}),
            # Loading a model or provisioning a node is not a failure.
            "progressDeadlineSeconds": int(service.spec.startup_timeout) + _EXTRA_PROGRESS,
            "selector": {"matchLabels": selector(service, component, track)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": template,
        },
    }


def service_object(
    service: ModelService,
    name: str,
    component: str,
    ports: Mapping[str, int],
    track: str = "",
    *,
    headless: bool = False,
    extra_selector: Mapping[str, str] | None = None,
) -> Object:
    """A ClusterIP or headless Service."""
    spec: Object = {"clusterIP": "None", "publishNotReadyAddresses": True} if headless else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(service, name, component, track),
        "spec": {
            **spec,
            "selector": {**selector(service, component, track), **(extra_selector or {})},
            "ports": service_ports(ports),
        },
    }


def service_ports(ports: Mapping[str, int]) -> list[Object]:
    """Ports of a Service; `appProtocol` marks gRPC for load balancers."""
    return [
        {"name": port, "port": number, "targetPort": port, **({"appProtocol": "kubernetes.io/h2c"} if port == "grpc" else {})}
        for port, number in ports.items()
    ]


def job(service: ModelService, kind: str, component: str, template: Object, *, backoff_limit: int = 2, **spec: Any) -> Object:
    """A Job whose name contains a digest of its template: a changed Job runs, an unchanged one does not run again."""
    template["spec"]["restartPolicy"] = "Never"
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    name = f"{service.metadata.name}-{kind}-{digest}"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(service, name, component),
        "spec": {"backoffLimit": backoff_limit, **spec, "template": template},
    }


def pod_disruption_budget(service: ModelService, name: str, component: str, hosts: int = 1) -> Object:
    """A budget that allows the eviction of one server at a time, with all its hosts."""
    spec = disruption_budget_spec(selector(service, component), hosts)
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(service, name, component), "spec": spec}


def disruption_budget_spec(labels: Mapping[str, str], max_unavailable: int = 1) -> Object:
    """A budget that protects ready pods only: a pod that loads its model must not block the drain of its node."""
    match = {"matchLabels": dict(labels)}
    return {"maxUnavailable": max_unavailable, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": match}


def autoscaler(service: ModelService, name: str, default_metric: str) -> list[Object]:
    """The HorizontalPodAutoscaler of the servers, if configured."""
    autoscaling = service.spec.autoscaling
    if autoscaling is None or service.spec.stopped:
        return []
    metric = autoscaling.metric or default_metric
    if autoscaling.source == "google" and "|" not in metric:
        metric = f"prometheus.googleapis.com|{metric}|gauge"
    target = {"type": "AverageValue", "averageValue": autoscaling.target}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": autoscaling.min,
        "maxReplicas": autoscaling.max,
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": metric}, "target": target}}],
        # Models take long to load: scale down one server at a time, after five minutes of lower load.
        "behavior": {
            "scaleDown": {
                "stabilizationWindowSeconds": 300,
                "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
            }
        },
    }
    meta = metadata(service, name, SERVER_COMPONENT)
    return [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}]


def pod_monitoring(service: ModelService, name: str, component: str, port: str) -> list[Object]:
    """The PodMonitoring of a component, if monitoring is enabled."""
    monitoring = service.spec.monitoring
    if monitoring is None:
        return []
    spec = {
        "selector": {"matchLabels": selector(service, component)},
        "endpoints": [{"port": port, "path": "/metrics", "interval": monitoring.interval}],
    }
    meta = metadata(service, name, component)
    return [{"apiVersion": "monitoring.googleapis.com/v1", "kind": "PodMonitoring", "metadata": meta, "spec": spec}]


def network_policy(
    service: ModelService, name: str, component: str, peers: Iterable[Object], metrics: str = "", *, open_ports: Sequence[str] = ()
) -> Object:
    """A policy that admits the peers, metric collectors, and any source on the open ports. Probes of the kubelet always pass."""
    ingress: list[Object] = [{"from": list(peers)}]
    if open_ports:
        ingress.append({"ports": [{"port": port, "protocol": "TCP"} for port in open_ports]})
    if metrics and service.spec.monitoring:
        ingress.append({"from": [COLLECTORS], "ports": [{"port": metrics, "protocol": "TCP"}]})
    spec = {
        "podSelector": {"matchLabels": selector(service, component)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    meta = metadata(service, name, component)
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}
