"""The load of bench/api.py on one API server: creates, gets, patches, lists and watches of pods, with 16 concurrent clients."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from bench.harness import instant_webhook

from sliceworks.base.errors import AlreadyExists
from sliceworks.kube import requests
from sliceworks.kube.https import open_client
from sliceworks.kube.resources import NAMESPACE, POD, SERVICE_ACCOUNT
from sliceworks.kube.rest import close_stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from bench.harness.servers import Server

    from sliceworks.kube.client import Client

CONCURRENCY = 16
NAMESPACE_NAME = "bench"
REVIEWED = "reviewed"
Object = dict[str, Any]
T = TypeVar("T")


class ApiLoad:
    """A client of one server, and the names of the pods that it has created."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client: Client = open_client(server.kubeconfig, namespace=NAMESPACE_NAME)
        self.names: list[str] = []
        self._serial = 0

    async def prepare(self, warm_up: int) -> None:
        """Create the namespace and warm up: connections, caches, compiled schemas."""
        await self._create_namespace(NAMESPACE_NAME)
        await self.creates(warm_up)
        await self.gets(warm_up)
        await self.patches(warm_up)

    async def _create_namespace(self, name: str) -> None:
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, resource=NAMESPACE)
        with suppress(AlreadyExists):  # a controller manager, if there is one, creates it too
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            await self.client.create(account, name, resource=SERVICE_ACCOUNT)

    def _next_names(self, count: int) -> list[str]:
        self._serial += count
        return [f"pod-{number}" for number in range(self._serial - count, self._serial)]

    async def creates(self, count: int) -> float:
        """Pods created per second."""
        names = self._next_names(count)
        rate = await _throughput(names, lambda name: self.client.create(training_pod(name), resource=POD))
        self.names += names
        return rate

    async def install_webhooks(self, port: int, certificate: bytes) -> None:
        """Have one mutating and one validating webhook review the pods of a namespace of their own, and wait until they do."""
        await self._create_namespace(REVIEWED)
        for configuration in instant_webhook.configurations(port, certificate, REVIEWED):
            await self.client.create(configuration)
        while True:
            probe = await self.client.create(training_pod("probe"), REVIEWED, resource=POD, dry_run=True)
            if instant_webhook.ANNOTATION in probe["metadata"]["annotations"]:
                return

    async def reviewed_creates(self, count: int) -> float:
        """Pods created per second that two webhooks review."""
        names = self._next_names(count)
        return await _throughput(names, lambda name: self.client.create(training_pod(name), REVIEWED, resource=POD))

    async def raw_gets(self, count: int, media_type: str) -> float:
        """Gets of single pods per second in an encoding; the client does not decode them."""
        read = [replace(requests.get(POD, name, NAMESPACE_NAME), headers={"accept": media_type}) for name in self._sample(count)]
        return await _throughput(read, self.client.exchange)

    async def gets(self, count: int) -> float:
        """Gets of single pods per second."""
        return await _throughput(self._sample(count), lambda name: self.client.get(POD, name))

    async def patches(self, count: int) -> float:
        """Merge patches of single pods per second; each changes an annotation."""
        self._serial += 1
        step = str(self._serial)
        changes = [(name, f"{step}-{index}") for index, name in enumerate(self._sample(count))]
        return await _throughput(
            changes,
            lambda change: self.client.patch(POD, change[0], {"metadata": {"annotations": {"example.com/step": change[1]}}}),
        )

    def _sample(self, count: int) -> list[str]:
        return [self.names[index % len(self.names)] for index in range(count)]

    async def fill(self, count: int) -> None:
        """Create pods until there are `count`."""
        if count > len(self.names):
            await self.creates(count - len(self.names))

    async def list_seconds(self) -> float:
        """Seconds to list and decode all pods in one response."""
        started = time.perf_counter()
        listed = await self.client.list(POD, NAMESPACE_NAME)
        seconds = time.perf_counter() - started
        if len(listed.items) != len(self.names):
            raise SystemExit(f"{self.server.name} listed {len(listed.items)} of {len(self.names)} pods")
        return seconds

    async def fan_out(self, watchers: int, events: int) -> float:
        """Watch events delivered per second: each patch of a pod is sent to all watchers."""
        newest = (await self.client.list(POD, NAMESPACE_NAME, limit=1)).resource_version
        opened = [asyncio.Event() for _ in range(watchers)]
        watches = [asyncio.create_task(self._watch(newest, events, event)) for event in opened]
        await self.patches(1)
        await asyncio.gather(*(event.wait() for event in opened))
        started = time.perf_counter()
        await self.patches(events)
        await asyncio.gather(*watches)
        return watchers * events / (time.perf_counter() - started)

    async def _watch(self, since: str, events: int, opened: asyncio.Event) -> None:
        """One watcher: the first event shows that the watch is open, the others are counted. Events are not decoded, because a
        hundred watchers in this process would otherwise be the bottleneck."""
        response = await self.client.exchange(requests.watch(POD, NAMESPACE_NAME, resource_version=since), stream=True)
        assert response.stream is not None
        received = -1
        try:
            async for chunk in response.stream:
                received += chunk.count(b"\n")
                if received >= 0:
                    opened.set()
                if received >= events:
                    return
        finally:
            await close_stream(response.stream)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()


async def _throughput(items: Iterable[T], act: Callable[[T], Awaitable[object]]) -> float:
    """Call `act` for each item, 16 at once; returns calls per second."""
    pending = list(items)
    count = len(pending)
    pending.reverse()

    async def worker() -> None:
        while pending:
            await act(pending.pop())

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return count / (time.perf_counter() - started)


def training_pod(name: str) -> Object:
    """A pod of a training job, with about sixty fields as such pods have in practice."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": _labels(name),
            "annotations": {"example.com/owner": "research", "example.com/run": "42"},
        },
        "spec": {
            "restartPolicy": "Never",
            "priority": 0,
            "terminationGracePeriodSeconds": 30,
            "nodeSelector": {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                "cloud.google.com/gke-tpu-topology": "4x4",
            },
            "tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}],
            "securityContext": {"fsGroup": 1000, "runAsUser": 1000},
            "containers": [_trainer(), _uploader()],
            "volumes": [
                {"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}},
                {"name": "settings", "configMap": {"name": "settings"}},
            ],
        },
    }


def _labels(name: str) -> dict[str, str]:
    return {
        "app": "trainer",
        "jobset.sigs.k8s.io/jobset-name": "llama",
        "jobset.sigs.k8s.io/replicatedjob-name": "slices",
        "batch.kubernetes.io/job-completion-index": name.rpartition("-")[2],
    }


def _trainer() -> Object:
    return {
        "name": "trainer",
        "image": "europe-docker.pkg.dev/example/training/llama:2026-11-15",
        "command": ["python", "-m", "train"],
        "args": ["--steps=10000", "--batch=512", "--checkpoint=gs://example/llama"],
        "ports": [{"containerPort": 8471, "name": "mesh"}, {"containerPort": 8080, "name": "metrics"}],
        "env": [
            {
                "name": "TPU_WORKER_ID",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}},
            },
            {"name": "JAX_PLATFORMS", "value": "tpu,cpu"},
            {"name": "XLA_FLAGS", "value": "--xla_dump_to=/scratch/xla"},
        ],
        "resources": {
            "requests": {"cpu": "24", "memory": "48Gi", "google.com/tpu": "4"},
            "limits": {"google.com/tpu": "4", "memory": "48Gi"},
        },
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "settings", "mountPath": "/settings", "readOnly": True},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "metrics"}, "periodSeconds": 10},
    }


def _uploader() -> Object:
    return {
        "name": "uploader",
        "image": "europe-docker.pkg.dev/example/training/uploader:1",
        "args": ["--from=/scratch", "--every=60s"],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
