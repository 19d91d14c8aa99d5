"""A minimal valid object of every built-in kind that the twin serves; tests may modify the copies they get."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

CONTAINERS: list[Object] = [{"name": "main", "image": "example.com/app:1"}]
TEMPLATE: Object = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": CONTAINERS}}
SELECTOR: Object = {"matchLabels": {"app": "a"}}


@dataclass(frozen=True, slots=True)
class Kind:
    """A built-in kind: its API path and a minimal object without metadata."""

    group_version: str
    kind: str
    plural: str
    namespaced: bool
    body: Object

    @property
    def id(self) -> str:
        """`apps/v1 deployments`."""
        return f"{self.group_version} {self.plural}"

    def collection(self, ns: str) -> str:
        """The path of the collection."""
        root = f"/api/{self.group_version}" if self.group_version == "v1" else f"/apis/{self.group_version}"
        return f"{root}/namespaces/{ns}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def object(self, name: str, ns: str = "") -> Object:
        """A minimal object with this name."""
        body = deepcopy(self.body)
        for reference in ("involvedObject", "regarding"):
            if reference in body:
                body[reference] = {"kind": "Pod", "name": "p", "namespace": ns}
        return {"apiVersion": self.group_version, "kind": self.kind, "metadata": {"name": name}, **body}


def _core() -> list[Kind]:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}}
    return [
        Kind("v1", "ConfigMap", "configmaps", True, {"data": {"a": "1"}}),
        Kind("v1", "Endpoints", "endpoints", True, {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
        Kind("v1", "Event", "events", True, {"involvedObject": {}, "reason": "Tested"}),
        Kind("v1", "LimitRange", "limitranges", True, {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}),
        Kind("v1", "Namespace", "namespaces", False, {}),
        Kind("v1", "Node", "nodes", False, {}),
        Kind("v1", "PersistentVolume", "persistentvolumes", False, volume),
        Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, claim),
        Kind("v1", "Pod", "pods", True, {"spec": {"containers": CONTAINERS}}),
        Kind("v1", "PodTemplate", "podtemplates", True, {"template": TEMPLATE}),
        Kind(
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            True,
            {"spec": {"selector": {"app": "a"}, "template": TEMPLATE}},
        ),
        Kind("v1", "ResourceQuota", "resourcequotas", True, {"spec": {}}),
        Kind("v1", "Secret", "secrets", True, {"stringData": {"password": "x"}}),
        Kind("v1", "Service", "services", True, {"spec": {"ports": [{"port": 80}]}}),
        Kind("v1", "ServiceAccount", "serviceaccounts", True, {}),
    ]


def _workloads() -> list[Kind]:
    workload = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
    job = {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}
    target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    return [
        Kind("apps/v1", "ControllerRevision", "controllerrevisions", True, {"revision": 1, "data": {"a": 1}}),
        Kind("apps/v1", "DaemonSet", "daemonsets", True, workload),
        Kind("apps/v1", "Deployment", "deployments", True, workload),
        Kind("apps/v1", "ReplicaSet", "replicasets", True, workload),
        Kind("apps/v1", "StatefulSet", "statefulsets", True, {"spec": {**workload["spec"], "serviceName": "s"}}),
        Kind("batch/v1", "CronJob", "cronjobs", True, {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}}),
        Kind("batch/v1", "Job", "jobs", True, {"spec": job}),
        Kind("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, {"spec": target}),
        Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, {"spec": target}),
        Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True, {"spec": {"minAvailable": 1, "selector": SELECTOR}}),
    ]


def _access() -> list[Kind]:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "User", "name": "somebody", "apiGroup": group}]
    return [
        Kind(f"{group}/v1", "Role", "roles", True, {"rules": rules}),
        Kind(f"{group}/v1", "ClusterRole", "clusterroles", False, {"rules": rules}),
        Kind(f"{group}/v1", "RoleBinding", "rolebindings", True, {"roleRef": _role("Role"), "subjects": subjects}),
        Kind(
            f"{group}/v1",
            "ClusterRoleBinding",
            "clusterrolebindings",
            False,
            {"roleRef": _role("ClusterRole"), "subjects": subjects},
        ),
    ]


def _role(kind: str) -> Object:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "some-role"}


def _devices() -> list[Kind]:
    version = "resource.k8s.io/v1"
    claim = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpus"}}]}}
    devices = {"driver": "gpu.example.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}
    return [
        Kind(version, "DeviceClass", "deviceclasses", False, {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}),
        Kind(version, "ResourceClaim", "resourceclaims", True, {"spec": claim}),
        Kind(version, "ResourceClaimTemplate", "resourceclaimtemplates", True, {"spec": {"spec": claim}}),
        Kind(version, "ResourceSlice", "resourceslices", False, {"spec": {**devices, "devices": [{"name": "gpu-0"}]}}),
    ]


def _cluster() -> list[Kind]:
    event: Object = {"eventTime": "2026-01-02T03:04:05.000006Z", "type": "Normal", "reason": "Tested", "action": "Testing"}
    event |= {"reportingController": "example.com/tester", "reportingInstance": "one", "regarding": {}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}
    attachment = {"attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    return [
        Kind("coordination.k8s.io/v1", "Lease", "leases", True, {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}),
        Kind("events.k8s.io/v1", "Event", "events", True, event),
        Kind(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "endpointslices",
            True,
            {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
        ),
        Kind("networking.k8s.io/v1", "Ingress", "ingresses", True, {"spec": {"rules": [rule]}}),
        Kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", False, {"spec": {"controller": "example.com/ingress"}}),
        Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True, {"spec": {"podSelector": {}}}),
        Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False, {"value": 7}),
        Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", False, {"provisioner": "example.com/disk"}),
        Kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", False, {"spec": {}}),
        Kind("storage.k8s.io/v1", "CSINode", "csinodes", False, {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}}),
        Kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", True, {"storageClassName": "fast"}),
        Kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", False, {"spec": attachment}),
        *_devices(),
        Kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", False, {"handler": "runc"}),
        Kind(
            "flowcontrol.apiserver.k8s.io/v1",
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
            False,
            {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
        ),
    ]


KINDS: tuple[Kind, ...] = (*_core(), *_workloads(), *_access(), *_cluster())


def kind(plural: str, group_version: str = "") -> Kind:
    """The kind with this plural name; the first one unless group and version are given."""
    return next(k for k in KINDS if k.plural == plural and group_version in ("", k.group_version))


def pod(name: str = "p", **metadata: Any) -> Object:
    """A small pod."""
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": deepcopy(CONTAINERS)}}


def config_map(name: str = "c", data: dict[str, str] | None = None, **metadata: Any) -> Object:
    """A config map."""
    return {"metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def deployment(name: str = "d", replicas: int = 1, **metadata: Any) -> Object:
    """A small deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {"replicas": replicas, "selector": deepcopy(SELECTOR), "template": deepcopy(TEMPLATE)},
    }
