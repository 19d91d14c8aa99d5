"""The objects around pods: Deployments, Services, budgets, scaling, monitoring, network policies. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.serving import naming
from sliceworks.serving.naming import SERVER, metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
COLLECTORS: Object = {
    "namespaceSelector": {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["gmp-system", "gke-gmp-system"]},
        ]
    }
}
"""Where managed Prometheus collects from; in Autopilot clusters it is the second."""


_PROGRESS = 600


def account(service: ModelService) -> list[Object]:
    """The service account, where the document says whom it acts as."""
    identity = service.spec.identity
    if identity is None or not identity.google_service_account:
        return []
    found = metadata(service, identity.service_account, "identity")
    found["labels"] = dict(naming.MANAGED_BY)  # other services may run as the same
    found["annotations"] = {"iam.gke.io/gcp-service-account": identity.google_service_account}
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": found}]


def template(service: ModelService, component: str, pod: Object, track: str = "", **annotations: str) -> Object:
    """A pod template; `annotations` have their dots and slashes already."""
    found: Object = {"labels": naming.labels(service, component, track)}
    if annotations or service.metadata.annotations:
        found["annotations"] = {**service.metadata.annotations, **annotations}
    return {"metadata": found, "spec": pod}


def deployment(
    service: ModelService, name: str, component: str, pods: Object, *, replicas: int | None, track: str = "", surge: bool = True
) -> Object:
    """Servers that are alike. Without `surge` a new one starts only where an old one has gone: chips cannot be had twice."""
    rolling = {"maxUnavailable": 0, "maxSurge": 1} if surge else {"maxUnavailable": 1, "maxSurge": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(service, name, component, track),
        "spec": {
            **({"replicas": replicas} if replicas is not None else {}),
            # A model that is still loading is no failure; nor is a machine that is still made.
            "progressDeadlineSeconds": int(service.spec.start_within) + _PROGRESS,
            "selector": {"matchLabels": naming.selector(service, component, track)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": pods,
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
    only: Mapping[str, str] | None = None,
) -> Object:
    """A Service inside the cluster."""
    spec: Object = {"clusterIP": "None", "publishNotReadyAddresses": True} if headless else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(service, name, component, track),
        "spec": {
            **spec,
            "selector": {**naming.selector(service, component, track), **(only or {})},
            "ports": service_ports(ports),
        },
    }


def service_ports(ports: Mapping[str, int]) -> list[Object]:
    """Ports of a Service; load balancers are told which of them speak gRPC."""
    return [
        {"name": port, "port": number, "targetPort": port, **({"appProtocol": "kubernetes.io/h2c"} if port == "grpc" else {})}
        for port, number in ports.items()
    ]


def job(service: ModelService, kind: str, component: str, pods: Object, *, tries: int = 2, **more: Any) -> Object:
    """Work that is done once. Its name has a digest of what it does: other work is another Job, and done work is not done again."""
    pods["spec"]["restartPolicy"] = "Never"
    digest = hashlib.sha256(orjson.dumps(pods, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    name = f"{service.metadata.name}-{kind}-{digest}"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(service, name, component),
        "spec": {"backoffLimit": tries, **more, "template": pods},
    }


def budget(service: ModelService, name: str, component: str, hosts: int = 1) -> Object:
    """Whoever empties nodes takes one server at a time, with all its hosts."""
    found, spec = metadata(service, name, component), budget_spec(naming.selector(service, component), hosts)
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": found, "spec": spec}


def budget_spec(labels: Mapping[str, str], at_once: int = 1) -> Object:
    """A pod that is not ready serves nobody and may always go: one that loads its model would keep its node for as long."""
    return {"maxUnavailable": at_once, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": dict(labels)}}


def autoscaler(service: ModelService, name: str, default_metric: str) -> list[Object]:
    """Replicas by the engine's own gauge."""
    wanted = service.spec.autoscaling
    if wanted is None or service.spec.stopped:
        return []
    gauge = wanted.metric or default_metric
    metric = f"prometheus.googleapis.com|{gauge}|gauge" if wanted.source == "google" and "|" not in gauge else gauge
    target = {"type": "AverageValue", "averageValue": wanted.target}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": wanted.min,
        "maxReplicas": wanted.max,
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": metric}, "target": target}}],
        # Models take long to load: a server that is not needed for five minutes may go, one at a time.
        "behavior": {
            "scaleDown": {
                "stabilizationWindowSeconds": 300,
                "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
            }
        },
    }
    found = metadata(service, name, SERVER)
    return [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": found, "spec": spec}]


def monitoring(service: ModelService, name: str, component: str, port: str, path: str = "/metrics") -> list[Object]:
    """Managed Prometheus reads these pods."""
    wanted = service.spec.monitoring
    if wanted is None:
        return []
    spec = {
        "selector": {"matchLabels": naming.selector(service, component)},
        "endpoints": [{"port": port, "path": path, "interval": wanted.interval}],
    }
    found = metadata(service, name, component)
    return [{"apiVersion": "monitoring.googleapis.com/v1", "kind": "PodMonitoring", "metadata": found, "spec": spec}]


def network_policy(
    service: ModelService, name: str, component: str, peers: Iterable[Object], metrics: str = "", *, for_all: Sequence[str] = ()
) -> Object:
    """Who may reach the pods of one part: these, and who reads their metrics; and everybody some ports. Nodes may always ask how
    they are."""
    ingress: list[Object] = [{"from": list(peers)}]
    if for_all:
        ingress.append({"ports": [{"port": port, "protocol": "TCP"} for port in for_all]})
    if metrics and service.spec.monitoring:
        ingress.append({"from": [COLLECTORS], "ports": [{"port": metrics, "protocol": "TCP"}]})
    spec = {
        "podSelector": {"matchLabels": naming.selector(service, component)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    found = metadata(service, name, component)
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": found, "spec": spec}
