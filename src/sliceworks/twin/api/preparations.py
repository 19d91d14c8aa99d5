"""What kube-apiserver writes into a new or changed object before it validates it, kind by kind."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base import quantity as quantities
from sliceworks.schemas import crds
from sliceworks.twin.api import service_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.api.strategies import ClusterView

Obj = dict[str, Any]

_NODE_PORTS = range(30_000, 32_768)


def _name_label(obj: Obj) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _namespace(obj: Obj, cluster: ClusterView) -> None:
    _name_label(obj)
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def _keep_namespace(new: Obj, old: Obj, cluster: ClusterView) -> None:
    new["spec"] = old.get("spec", {})


def _pod(obj: Obj, cluster: ClusterView) -> None:
    spec = obj.get("spec") or {}
    status: Obj = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    obj["status"] = status


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, from the containers' CPU and memory."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    asked = False
    guaranteed = True
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = _counted(resources.get("requests")), _counted(resources.get("limits"))
        asked = asked or bool(requests or limits)
        if set(limits) != {"cpu", "memory"} or (requests and requests != limits):
            guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _counted(resources: Obj | None) -> dict[str, Any]:
    counted: dict[str, Any] = {}
    for name in ("cpu", "memory"):
        value = (resources or {}).get(name)
        if value is not None:
            try:
                amount = quantities.parse(value)
            except ValueError:
                continue
            if amount:
                counted[name] = amount
    return counted


def _service(obj: Obj, cluster: ClusterView) -> None:
    obj["status"] = {"loadBalancer": {}}
    spec = obj.setdefault("spec", {})
    if spec.get("type", "ClusterIP") == "ExternalName":
        return
    service_addresses.allocate(spec, cluster)
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    _allocate_ports(spec, cluster)


def _allocate_ports(spec: Obj, cluster: ClusterView) -> None:
    if spec.get("type") not in {"NodePort", "LoadBalancer"}:
        return
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        if not spec["allocateLoadBalancerNodePorts"]:
            return
    spec.setdefault("externalTrafficPolicy", "Cluster")
    taken = {port.get("nodePort") for service in cluster.list("/services") for port in service.get("spec", {}).get("ports", ())}
    random = clock.randomness()
    for port in spec.get("ports") or ():
        while not port.get("nodePort"):
            number = random.choice(_NODE_PORTS)
            if number not in taken:
                port["nodePort"] = number
                taken.add(number)


def _change_service(new: Obj, old: Obj, cluster: ClusterView) -> None:
    spec, before = new.setdefault("spec", {}), old.get("spec", {})
    if spec.get("type") == "ExternalName":
        if before.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                spec.pop(field, None)
        return
    if before.get("type") != "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if field in before and not spec.get(field):
                spec[field] = before[field]
        if spec.get("type") in {"NodePort", "LoadBalancer"}:
            _keep_ports(spec, before)
    service_addresses.allocate(spec, cluster)
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    _allocate_ports(spec, cluster)


def _keep_ports(spec: Obj, before: Obj) -> None:
    known = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        kept = known.get((port.get("protocol"), port.get("port")))
        if kept and not port.get("nodePort"):
            port["nodePort"] = kept


def _job(obj: Obj, cluster: ClusterView) -> None:
    obj["status"] = {}
    spec = obj.setdefault("spec", {})
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    labels = template.setdefault("labels", {})
    own = obj["metadata"].get("labels")
    uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
    labels.update(
        {
            "controller-uid": uid,
            "job-name": name,
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
        }
    )
    if not own or own is labels:
        # A Job without labels of its own has those of its template, the generated ones too.
        obj["metadata"]["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _template_generation(obj: Obj) -> None:
    obj["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "0")


def _daemon_set(obj: Obj, cluster: ClusterView) -> None:
    obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = "1"
    obj["status"] = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}


def _change_daemon_set(new: Obj, old: Obj, cluster: ClusterView) -> None:
    """The old counter of template changes, which the server still keeps."""
    known = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1")
    changed = new.get("spec", {}).get("template") != old.get("spec", {}).get("template")
    count = int(known) + changed if known.isdigit() else 1
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(count)


def _status(value: Obj) -> Callable[[Obj, ClusterView], None]:
    def prepare(obj: Obj, cluster: ClusterView) -> None:
        obj["status"] = dict(value)

    return prepare


def _volume(obj: Obj, cluster: ClusterView) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": clock.timestamp()}


def _secret(obj: Obj) -> None:
    """Secrets take text in `stringData`, and give it back encoded."""
    text = obj.pop("stringData", None)
    if text:
        data = obj.setdefault("data", {})
        for key, value in text.items():
            data[key] = base64.b64encode(value.encode()).decode()


COMPLETE: dict[str, Callable[[Obj], None]] = {
    "/namespaces": _name_label,
    "/secrets": _secret,
    "apps/daemonsets": _template_generation,
}
CREATE: dict[str, Callable[[Obj, ClusterView], None]] = {
    "/namespaces": _namespace,
    "/pods": _pod,
    "/services": _service,
    "batch/jobs": _job,
    "/persistentvolumeclaims": _status({"phase": "Pending"}),
    "/persistentvolumes": _volume,
    "apps/deployments": _status({}),
    "apps/replicasets": _status({"replicas": 0}),
    "apps/statefulsets": _status({"replicas": 0, "availableReplicas": 0}),
    "apps/daemonsets": _daemon_set,
    "/replicationcontrollers": _status({"replicas": 0}),
    "batch/cronjobs": _status({}),
    "policy/poddisruptionbudgets": _status({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
    "autoscaling/horizontalpodautoscalers": _status({"desiredReplicas": 0, "currentMetrics": None}),
    "storage.k8s.io/volumeattachments": _status({"attached": False}),
    "networking.k8s.io/ingresses": _status({"loadBalancer": {}}),
    "/resourcequotas": _status({}),
    "apiextensions.k8s.io/customresourcedefinitions": lambda obj, cluster: crds.reset_status(obj),
}
UPDATE: dict[str, Callable[[Obj, Obj, ClusterView], None]] = {
    "/namespaces": _keep_namespace,
    "/services": _change_service,
    "apps/daemonsets": _change_daemon_set,
    "apiextensions.k8s.io/customresourcedefinitions": lambda new, old, cluster: crds.note_storage_version(new),
}
