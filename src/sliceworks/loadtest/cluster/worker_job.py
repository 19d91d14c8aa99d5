"""The Job that runs the workers, with its Service, ConfigMap, Secret and NetworkPolicy: built, created and deleted."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, progress
from sliceworks.base.errors import InvalidDocument, NotFound, SliceworksError
from sliceworks.kube.pod_placement import KONNECTIVITY_AGENTS, node_pool_scheduling
from sliceworks.kube.resources import JOB, owner_reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube import Client
    from sliceworks.specs.load_test import Workers

Object = dict[str, Any]
LABEL = "sliceworks.dev/load-test"
MASTER_PORT, AGENT_PORT = 5557, 8090
CONFIG, DATA = "/etc/load-test", "/data"
USER = 65532
_MAX_BYTES = 900 * 1024
"""Maximum size of files in the ConfigMap, whose limit is 1 MiB."""

_DEADLINE_MARGIN = 1_800
_TTL_AFTER_FINISHED = 600


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """A test to run on a cluster. `files` are mounted into the workers, `secrets` are their environment variables."""

    name: str
    namespace: str
    workers: Workers
    duration: float
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


def check_files(files: Mapping[str, bytes]) -> None:
    """Check that the files fit into a ConfigMap."""
    size = sum(map(len, files.values()))
    if size > _MAX_BYTES:
        raise InvalidDocument(
            f"the prompts have {size / 1024:,.0f} KiB, the limit for pods is {_MAX_BYTES // 1024} KiB",
            hint="put them into a bucket: prompts.file: gs://bucket/prompts.jsonl",
        )


def build_job(job: WorkerJob) -> Object:
    """The Job, created suspended: it owns the objects that its pods need."""
    spec = {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": job.pods,
        "parallelism": job.pods,
        "backoffLimitPerIndex": 0,
        "activeDeadlineSeconds": int(job.duration + job.workers.start_within) + _DEADLINE_MARGIN,
        "ttlSecondsAfterFinished": _TTL_AFTER_FINISHED,
        "template": {"metadata": {"labels": job.labels}, "spec": _pod(job)},
    }
    return _object(job, "batch/v1", "Job", spec=spec)


def build_dependents(job: WorkerJob) -> list[Object]:
    """The objects that the Job's pods need."""
    files = {name: base64.b64encode(content).decode() for name, content in job.files.items()}
    secrets = {name: base64.b64encode(value.encode()).decode() for name, value in job.secrets.items()}
    ports = [{"name": "master", "port": MASTER_PORT}]
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {LABEL: job.name}, "ports": ports}
    return [
        _object(job, "v1", "ConfigMap", binaryData=files),
        _object(job, "v1", "Secret", type="Opaque", data=secrets),
        _object(job, "v1", "Service", spec=service),
        _object(job, "networking.k8s.io/v1", "NetworkPolicy", spec=_network_policy(job)),
    ]


def _object(job: WorkerJob, api_version: str, kind: str, **content: Any) -> Object:
    metadata = {"name": job.name, "namespace": job.namespace, "labels": job.labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _network_policy(job: WorkerJob) -> Object:
    """The NetworkPolicy: workers reach the master; the collector connects through the API server."""
    own = {"podSelector": {"matchLabels": {LABEL: job.name}}}
    return {
        "podSelector": {"matchLabels": {LABEL: job.name}},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [own], "ports": [{"port": MASTER_PORT, "protocol": "TCP"}]},
            {"from": [KONNECTIVITY_AGENTS], "ports": [{"port": AGENT_PORT, "protocol": "TCP"}]},
        ],
    }


def _pod(job: WorkerJob) -> Object:
    workers, labels = job.workers, {LABEL: job.name}
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
        "subdomain": job.name,
        "terminationGracePeriodSeconds": 60,
        "topologySpreadConstraints": [spread],
        **node_pool_scheduling(workers.pool),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(job)],
        "volumes": [
            {"name": "config", "configMap": {"name": job.name}},
            {"name": "data", "emptyDir": {}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }


def _container(job: WorkerJob) -> Object:
    workers = job.workers
    secrets = [{"name": name, "valueFrom": {"secretKeyRef": {"name": job.name, "key": name}}} for name in sorted(job.secrets)]
    master = f"{job.name}-0.{job.name}"
    start_timeout = ["--patience", str(int(workers.start_within))]
    addresses = ["--host", "0.0.0.0", "--port", str(AGENT_PORT), "--master", master, "--master-port", str(MASTER_PORT)]
    return {
        "name": "worker",
        "image": workers.image,
        "command": ["python", "-m", "sliceworks.loadtest.cluster.agent"],
        "args": ["--config", CONFIG, "--data", DATA, *addresses, *start_timeout],
        "env": [{"name": "HOME", "value": "/tmp"}, *secrets],
        "ports": [{"name": "agent", "containerPort": AGENT_PORT}, {"name": "master", "containerPort": MASTER_PORT}],
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


_POLL_INTERVAL = 0.5
_DELETE_TIMEOUT = 60.0


async def create(client: Client, job: WorkerJob) -> None:
    """Create the suspended Job, then the objects that it owns, then resume it."""
    owner = await client.create(build_job(job), resource=JOB)
    reference = owner_reference({**owner, "apiVersion": "batch/v1", "kind": "Job"}, controller=False)
    for dependent in build_dependents(job):
        dependent["metadata"]["ownerReferences"] = [reference]
        await client.create(dependent)
    await client.patch(JOB, job.name, {"spec": {"suspend": False}}, job.namespace)


async def delete(client: Client, job: WorkerJob) -> None:
    """Delete the Job with everything it owns; on failure print the command to do it by hand."""
    name, namespace, reason = job.name, job.namespace, "it is still being deleted"
    try:
        await client.delete(JOB, name, namespace, propagation_policy="Foreground")
        deadline = clock.loop_time() + _DELETE_TIMEOUT
        while clock.loop_time() < deadline:
            await client.get(JOB, name, namespace)
            await clock.sleep(_POLL_INTERVAL)
    except NotFound:
        return
    except SliceworksError as error:
        reason = error.message
    progress.say(
        f"job/{name} in {namespace} is not deleted yet: {reason}; kubectl delete job -n {namespace} {name} --cascade=foreground"
    )
