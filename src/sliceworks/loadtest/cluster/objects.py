"""The objects of a test whose senders are pods: one Job that owns a Service, a ConfigMap, a Secret and a NetworkPolicy. Pure.

The Job is indexed: pod 0 brings the others together, the others send; one sender alone needs nobody. An index that fails is not
tried again and ends no other: what the others measure still counts for something.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.kube.gke import API_AGENTS, pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.specs.load_test import Workers

Object = dict[str, Any]
LABEL = "sliceworks.dev/load-test"
MASTER_PORT, KEEPER_PORT = 5557, 8090
CONFIG, DATA = "/etc/load-test", "/data"
USER = 65532
_MOST = 900 * 1024
"""Of files in a ConfigMap, which may have a MiB in all."""
_SPARE = 1_800
_KEPT = 600


@dataclass(frozen=True, slots=True)
class Launch:
    """A test that is to run on a cluster. `files` are put beside the senders; `secrets` are variables that they find."""

    name: str
    namespace: str
    workers: Workers
    lasts: float
    files: Mapping[str, bytes]
    secrets: Mapping[str, str] = field(repr=False, default_factory=dict)

    @property
    def pods(self) -> int:
        count = self.workers.count
        return count + 1 if count > 1 else 1

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": "load-test",
            "app.kubernetes.io/managed-by": "sliceworks",
            LABEL: self.name,
        }


def check(files: Mapping[str, bytes]) -> None:
    """Whether the files can be given to pods."""
    size = sum(map(len, files.values()))
    if size > _MOST:
        raise InvalidDocument(
            f"the prompts have {size / 1024:,.0f} KiB, and a cluster takes {_MOST // 1024} KiB beside its pods",
            hint="put them into a bucket: prompts.file: gs://bucket/prompts.jsonl",
        )


def job(launch: Launch) -> Object:
    """The Job, which does not start before it is told to: what its pods need is made after it, and goes with it."""
    spec = {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": launch.pods,
        "parallelism": launch.pods,
        "backoffLimitPerIndex": 0,
        "activeDeadlineSeconds": int(launch.lasts + launch.workers.start_within) + _SPARE,
        "ttlSecondsAfterFinished": _KEPT,
        "template": {"metadata": {"labels": launch.labels}, "spec": _pod(launch)},
    }
    return _object(launch, "batch/v1", "Job", spec=spec)


def around(launch: Launch) -> list[Object]:
    """What the Job's pods need."""
    texts = {name: base64.b64encode(content).decode() for name, content in launch.files.items()}
    secrets = {name: base64.b64encode(value.encode()).decode() for name, value in launch.secrets.items()}
    ports = [{"name": "master", "port": MASTER_PORT}]
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {LABEL: launch.name}, "ports": ports}
    return [
        _object(launch, "v1", "ConfigMap", binaryData=texts),
        _object(launch, "v1", "Secret", type="Opaque", data=secrets),
        _object(launch, "v1", "Service", spec=service),
        _object(launch, "networking.k8s.io/v1", "NetworkPolicy", spec=_network_policy(launch)),
    ]


def _object(launch: Launch, api_version: str, kind: str, **content: Any) -> Object:
    metadata = {"name": launch.name, "namespace": launch.namespace, "labels": launch.labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _network_policy(launch: Launch) -> Object:
    """The senders reach the one who brings them together; whoever collects comes through the API server."""
    own = {"podSelector": {"matchLabels": {LABEL: launch.name}}}
    return {
        "podSelector": {"matchLabels": {LABEL: launch.name}},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [own], "ports": [{"port": MASTER_PORT, "protocol": "TCP"}]},
            {"from": [API_AGENTS], "ports": [{"port": KEEPER_PORT, "protocol": "TCP"}]},
        ],
    }


def _pod(launch: Launch) -> Object:
    workers, labels = launch.workers, {LABEL: launch.name}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    account: Object = {"serviceAccountName": workers.service_account} if workers.service_account else {}
    return {
        **account,
        "automountServiceAccountToken": bool(account),
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "subdomain": launch.name,
        "terminationGracePeriodSeconds": 60,
        "topologySpreadConstraints": [spread],
        **pool(workers.pool),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(launch)],
        "volumes": [
            {"name": "config", "configMap": {"name": launch.name}},
            {"name": "data", "emptyDir": {}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }


def _container(launch: Launch) -> Object:
    workers = launch.workers
    secrets = [{"name": name, "valueFrom": {"secretKeyRef": {"name": launch.name, "key": name}}} for name in sorted(launch.secrets)]
    master = f"{launch.name}-0.{launch.name}"
    patience = ["--patience", str(int(workers.start_within))]
    addresses = ["--host", "0.0.0.0", "--port", str(KEEPER_PORT), "--master", master, "--master-port", str(MASTER_PORT)]
    return {
        "name": "sender",
        "image": workers.image,
        "command": ["python", "-m", "sliceworks.loadtest.cluster.keeper"],
        "args": ["--config", CONFIG, "--data", DATA, *addresses, *patience],
        "env": [{"name": "HOME", "value": "/tmp"}, *secrets],
        "ports": [{"name": "keeper", "containerPort": KEEPER_PORT}, {"name": "master", "containerPort": MASTER_PORT}],
        "resources": {
            "requests": {"cpu": workers.cpu, "memory": workers.memory},
            "limits": {"memory": workers.memory},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG, "readOnly": True},
            {"name": "data", "mountPath": DATA},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
