"""Loads model services and gateway metrics, and sends prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console.kinds import EVENTS, PODS
from sliceworks.console.views import latency_view, model_view
from sliceworks.kube.resources import CONFIG_MAP, DEPLOYMENT, JOB, SERVICE, STATEFUL_SET
from sliceworks.serving import cluster, engine_protocol, gateway_objects, objects, service_endpoint, service_status
from sliceworks.serving import record as records
from sliceworks.serving.objects import GATEWAY_LABEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.views.latency_view import MetricsSample
    from sliceworks.console.views.model_view import Service
    from sliceworks.kube.client import Client
    from sliceworks.serving.cluster import ServiceDetails
    from sliceworks.serving.record import Record

Object = dict[str, Any]
POLL_INTERVAL = 2.0
_SAMPLES = 6
"""Scrapes kept per gateway: with `POLL_INTERVAL`, live latency covers the last ten seconds."""


@dataclass(slots=True)
class GatewayMetrics:
    """The last scrapes of a gateway, or why there are none."""

    samples: list[MetricsSample] = field(default_factory=list)
    problem: str = ""

    def add(self, sample: MetricsSample) -> None:
        self.samples = [*self.samples[1 - _SAMPLES :], sample]
        self.problem = ""

    def latency(self, model: str) -> latency_view.Latency | None:
        """The current latency of a model; None until there are two samples."""
        if len(self.samples) < 2:
            return None
        return latency_view.latency_between(self.samples[0], self.samples[-1], model)


class ModelLoader:
    """Model services and their gateways; pages call `refresh` periodically."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._client: Client = cache.client
        self._refreshed_at = -POLL_INTERVAL
        self.services: list[Service] | None = None
        self.broken: list[str] = []
        self.gateways: dict[tuple[str, str], GatewayMetrics] = {}

    async def refresh(self) -> None:
        """Load the services again, unless another page just did."""
        if clock.loop_time() - self._refreshed_at < POLL_INTERVAL * 0.8:
            return
        self._refreshed_at = clock.loop_time()
        namespace = self._cache.namespace or None
        config_maps = (await self._client.list_all(CONFIG_MAP, namespace, labels=records.SELECTOR)).items
        self.services, self.broken = model_view.services(config_maps, await self._workloads(namespace) if config_maps else [])
        for service in self.services:
            if service.gateway:
                await self._scrape((service.namespace, service.gateway))

    async def _workloads(self, namespace: str | None) -> list[Object]:
        """The workloads of services and gateways, selected by label since a cluster may have thousands of others."""
        result = []
        for kind in (DEPLOYMENT, STATEFUL_SET, JOB):
            for label in (objects.SERVICE_LABEL, GATEWAY_LABEL):
                result += (await self._client.list_all(kind, namespace, labels=label)).items
        return result

    async def _scrape(self, key: tuple[str, str]) -> None:
        gateway, (namespace, name) = self.gateways.setdefault(key, GatewayMetrics()), key
        pods = [item for item in self._pods(namespace) if (item["metadata"].get("labels") or {}).get(GATEWAY_LABEL) == name]
        scrapes = []
        for pod in filter(cluster.is_ready, pods):
            connection = service_endpoint.connect_pod(
                self._client, namespace, pod["metadata"]["name"], gateway_objects.PORTS["admin"], pod["status"]["podIP"]
            )
            try:
                scrapes.append((await service_endpoint.read_all(connection, "GET", "/metrics")).decode(errors="replace"))
            except SliceworksError as error:
                gateway.problem = f"{error.message}; {error.hint}" if error.hint else error.message
        if scrapes:
            gateway.add(latency_view.parse_metrics(scrapes, clock.loop_time()))
        elif not gateway.problem:
            gateway.problem = "no gateway pod is ready"

    def _pods(self, namespace: str) -> list[Object]:
        return self._cache.table(PODS).store.by_index("namespace", namespace)

    async def record(self, name: str, namespace: str) -> Record:
        """The record of a service."""
        return await cluster.get_record(self._client, name, namespace)

    async def details(self, record: Record) -> ServiceDetails:
        """A service with its status, pods, Services and problems."""
        namespace = record.namespace
        workloads = await self._workloads(namespace)
        status = service_status.compute_status(record, workloads)
        pods = [pod for pod in self._pods(namespace) if service_status.belongs_to_service(record, pod)]
        services = []
        for label in (objects.SERVICE_LABEL, GATEWAY_LABEL):
            services += (await self._client.list_all(SERVICE, namespace, labels=label)).items
        own = {service["metadata"]["name"]: service for service in services if service_status.belongs_to_service(record, service)}
        events = self._cache.table(EVENTS).store.by_index("namespace", namespace)
        causes = [] if status.is_settled else cluster.find_causes(record, pods, workloads, events)
        return cluster.ServiceDetails(record, status, tuple(pods), tuple(own.values()), tuple(causes))

    async def send_prompt(self, record: Record, model: str, prompt: str, *, max_tokens: int, key: str) -> AsyncIterator[str]:
        """Send a prompt and stream the response. Neither is stored."""
        endpoint = service_endpoint.find_endpoint(record)
        connection = await service_endpoint.connect(self._client, endpoint)
        request = engine_protocol.text_request(endpoint.protocol, model, prompt, engine_protocol.SamplingOptions(max_tokens))
        auth = {"x-api-key": key} if key else {}
        async for chunk in request.read_text(connection.stream("POST", request.path, request.body, {**request.headers, **auth})):
            yield chunk
