"""Defaults that depend on more than one field, for the kinds that hold pods, services and policies."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.rules.pod_resources import default_pod_resources

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Defaulter, Json

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
    """Always for `:latest` and for no tag at all; an image that cannot be read counts as tagged."""
    found = _image(image)
    if found is None:
        return "IfNotPresent"
    return "Always" if found["tag"] == "latest" or (found["tag"] is None and found["digest"] is None) else "IfNotPresent"


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
    """What only pods get, and templates do not: requests from limits, service links, host ports."""
    spec = value["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for found in containers:
        resources = found.get("resources")
        if resources and (limits := resources.get("limits")):
            resources["requests"] = limits | (resources.get("requests") or {})
    if spec.get("resources"):
        default_pod_resources(spec)
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for port in [port for found in containers for port in found.get("ports") or ()]:
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


def pod_spec(value: Json) -> None:
    """The service account has two names; the old one follows the new one."""
    name = value.get("serviceAccountName") or value.get("serviceAccount")
    if name:
        value["serviceAccountName"] = value["serviceAccount"] = name
    if "overhead" in value:
        _overhead(value)


def resource_lists(*fields: str) -> Defaulter:
    """Amounts of resources are kept in thousandths; finer ones are rounded up."""

    def fill(value: Json) -> None:
        for field in fields:
            for name, amount in (value.get(field) or {}).items():
                if isinstance(amount, str) and amount[-1:] in "nu" and amount:
                    value[field][name] = quantity.canonical(f"{quantity.milli(amount)}m")

    return fill


_overhead = resource_lists("overhead")


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
    value.update({name: found for name, found in (("default", default), ("defaultRequest", request)) if found})


def subject(value: Json) -> None:
    if "apiGroup" not in value and value.get("kind") in ("User", "Group"):
        value["apiGroup"] = _RBAC_GROUP


def network_policy_spec(value: Json) -> None:
    if not value.get("policyTypes"):
        value["policyTypes"] = ["Ingress", "Egress"] if value.get("egress") else ["Ingress"]


def rolling_update(**defaults: Any) -> Defaulter:
    """The parameters of a rolling update, when that is the strategy."""

    def fill(value: Json) -> None:
        if value["type"] == "RollingUpdate":
            value["rollingUpdate"] = defaults | (value.get("rollingUpdate") or {})

    return fill
