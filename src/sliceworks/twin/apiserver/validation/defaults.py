"""Defaults of built-in kinds: a table (`defaults.json`) and functions where one field depends on another."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import orjson

from sliceworks.base import quantity
from sliceworks.twin.apiserver.pod_resources import default_pod_resources

Json = dict[str, Any]
Defaulter = Callable[[Json], None]


@cache
def static_defaults() -> dict[str, Json]:
    """Static defaults by component and field."""
    table: dict[str, Json] = orjson.loads((files("sliceworks.schemas") / "data" / "defaults.json").read_bytes())
    return table


def build_defaulter(static: Json, conditional: Defaulter | None) -> Defaulter:
    """Build the defaulting function of a component: static defaults first, then the conditional ones.

    None and the empty string count as unset; zero and false do not.
    """
    plain = [(field, value) for field, value in static.items() if not isinstance(value, dict | list)]
    fresh = [(field, type(value), value) for field, value in static.items() if isinstance(value, dict | list)]

    def fill(value: Json) -> None:
        for field, default in plain:
            current = value.get(field)
            if current is None or current == "":
                value[field] = default
        for field, kind, default in fresh:
            if value.get(field) is None:
                value[field] = kind(default)
        if conditional is not None:
            conditional(value)

    return fill


_RBAC_GROUP = "rbac.authorization.k8s.io"
_DOMAIN = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_image = re.compile(
    rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@\S+:[0-9a-fA-F]{{32,}})?", re.ASCII
).fullmatch


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """The default imagePullPolicy: Always for `:latest` or no tag; an unparsable image counts as tagged."""
    match = _image(image)
    if match is None:
        return "IfNotPresent"
    return "Always" if match["tag"] == "latest" or (match["tag"] is None and match["digest"] is None) else "IfNotPresent"


def container(value: Json) -> None:
    if "imagePullPolicy" not in value:
        value["imagePullPolicy"] = pull_policy(value.get("image") or "")


def volume(value: Json) -> None:
    if len(value) == 1 and "name" in value:
        value["emptyDir"] = {}


def image_volume(value: Json) -> None:
    if "pullPolicy" not in value:
        value["pullPolicy"] = pull_policy(value.get("reference") or "")


def pod(value: Json) -> None:
    """Defaults of pods that templates do not get: requests from limits, service links, host ports."""
    spec = value["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for holder in containers:
        resources = holder.get("resources")
        if resources and (limits := resources.get("limits")):
            resources["requests"] = limits | (resources.get("requests") or {})
    if spec.get("resources"):
        default_pod_resources(spec)
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for port in [port for holder in containers for port in holder.get("ports") or ()]:
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


def pod_spec(value: Json) -> None:
    """Keep `serviceAccountName` and the deprecated `serviceAccount` equal, and round the overhead."""
    name = value.get("serviceAccountName") or value.get("serviceAccount")
    if name:
        value["serviceAccountName"] = value["serviceAccount"] = name
    if "overhead" in value:
        _overhead(value)


def resource_lists(*fields: str) -> Defaulter:
    """Build a defaulter that rounds quantities up to thousandths."""

    def fill(value: Json) -> None:
        for field in fields:
            for name, amount in (value.get(field) or {}).items():
                if isinstance(amount, str) and amount[-1:] in "nu" and amount:
                    value[field][name] = quantity.canonical(f"{quantity.milli(amount)}m")

    return fill


_overhead = resource_lists("overhead")


def nonzero(**defaults: Any) -> Defaulter:
    """Build a defaulter of fields whose zero value counts as unset."""

    def fill(value: Json) -> None:
        value.update({field: default for field, default in defaults.items() if not value.get(field)})

    return fill


def service_spec(value: Json) -> None:
    affinity, kind = value["sessionAffinity"], value["type"]
    if affinity == "None":
        value.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = value.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            value["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    if "externalTrafficPolicy" not in value and (
        kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and value.get("externalIPs"))
    ):
        value["externalTrafficPolicy"] = "Cluster"
    if "internalTrafficPolicy" not in value and kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        value["internalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer" and "allocateLoadBalancerNodePorts" not in value:
        value["allocateLoadBalancerNodePorts"] = True


def service_port(value: Json) -> None:
    if not value.get("targetPort"):
        value["targetPort"] = value.get("port", 0)


def service(value: Json) -> None:
    if value["spec"].get("type") == "LoadBalancer":
        for ingress in (value["status"].get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip") and "ipMode" not in ingress:
                ingress["ipMode"] = "VIP"


def node_status(value: Json) -> None:
    if "allocatable" not in value and value.get("capacity"):
        value["allocatable"] = dict(value["capacity"])


def limit_range_item(value: Json) -> None:
    if value.get("type") != "Container":
        return
    default = value.get("default") or {}
    request = value.get("defaultRequest") or {}
    default = (value.get("max") or {}) | default
    request = (value.get("min") or {}) | default | request
    value.update({name: item for name, item in (("default", default), ("defaultRequest", request)) if item})


def subject(value: Json) -> None:
    if "apiGroup" not in value and value.get("kind") in ("User", "Group"):
        value["apiGroup"] = _RBAC_GROUP


def network_policy_spec(value: Json) -> None:
    if not value.get("policyTypes"):
        value["policyTypes"] = ["Ingress", "Egress"] if value.get("egress") else ["Ingress"]


def device_request(value: Json) -> None:
    if value["allocationMode"] == "ExactCount" and not value.get("count"):
        value["count"] = 1


def rolling_update(**defaults: Any) -> Defaulter:
    """Build a defaulter for the parameters of the RollingUpdate strategy."""

    def fill(value: Json) -> None:
        if value["type"] == "RollingUpdate":
            value["rollingUpdate"] = defaults | (value.get("rollingUpdate") or {})

    return fill


_LARGEST = 2**31 - 1
_METRICS_ANNOTATION = "autoscaling.alpha.kubernetes.io/metrics"


def job(value: Json) -> None:
    spec = value["spec"]
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        if spec.get("completions") is None:
            spec["completions"] = 1
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _LARGEST
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed")
    spec.setdefault("manualSelector", False)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not value["metadata"].get("labels"):
        # Shared on purpose, as upstream: labels that the Job strategy adds to the template also appear on the Job.
        value["metadata"]["labels"] = labels


def replication_controller(value: Json) -> None:
    spec = value["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not value["metadata"].get("labels"):
            value["metadata"]["labels"] = dict(labels)


def stateful_set_spec(value: Json) -> None:
    for claim in value.get("volumeClaimTemplates") or ():
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")


def stateful_set_strategy(value: Json) -> None:
    if "type" not in value:
        value["type"] = "RollingUpdate"
        value.setdefault("rollingUpdate", {})
    if value["type"] == "RollingUpdate" and (rolling := value.get("rollingUpdate")) is not None:
        rolling.setdefault("partition", 0)
        rolling.pop("maxUnavailable", None)  # The feature gate is disabled by default in 1.35.


def autoscaler_v1(value: Json) -> None:
    if value["spec"].get("targetCPUUtilizationPercentage") is None and _METRICS_ANNOTATION not in (
        value["metadata"].get("annotations") or {}
    ):
        value["spec"]["targetCPUUtilizationPercentage"] = 80


def autoscaler_v2(value: Json) -> None:
    spec = value["spec"]
    if not spec.get("metrics"):
        spec["metrics"] = [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
        ]
    if (behavior := spec.get("behavior")) is not None:
        behavior["scaleUp"] = _rules(
            behavior.get("scaleUp"), [_policy("Pods", 4), _policy("Percent", 100)], stabilizationWindowSeconds=0
        )
        behavior["scaleDown"] = _rules(behavior.get("scaleDown"), [_policy("Percent", 100)])


def _rules(given: Json | None, policies: list[Json], **more: Any) -> Json:
    return (
        {"selectPolicy": "Max", "policies": policies}
        | more
        | {name: item for name, item in (given or {}).items() if item is not None}
    )


def _policy(kind: str, value: int) -> Json:
    return {"type": kind, "value": value, "periodSeconds": 15}
