"""Registers the APIServices of custom resources, and keeps checking the remote APIs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.retry import Backoff
from sliceworks.kube.workqueue import WorkQueue, run_worker
from sliceworks.twin.apiserver.admission.chain import EXPOSED
from sliceworks.twin.apiserver.aggregation.api_services import path_prefix
from sliceworks.twin.apiserver.registry.api_service_strategy import KEY, MANAGED, local_api_service, local_spec, split_name
from sliceworks.twin.apiserver.registry.crd_registry import KEY as DEFINITIONS
from sliceworks.twin.apiserver.service_endpoints import ENDPOINT_SLICES
from sliceworks.twin.store.watch_cache import ADDED, Change

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.aggregation.remote_api import RemoteApi
    from sliceworks.twin.apiserver.generic_server import ApiServer

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_OBSERVED = (KEY, DEFINITIONS, "/services", ENDPOINT_SLICES, EXPOSED)
_CUSTOM = "true"


class ApiServiceController:
    """Reconciles APIServices by name; each remote API is checked by a task of its own."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._queue: WorkQueue[str] = WorkQueue(Backoff(first=0.01, cap=60.0, jitter=0.0))
        self._checks: dict[RemoteApi, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Reconcile until cancelled."""
        observers = self._server.observers
        for resource in _OBSERVED:
            observers.setdefault(resource, []).append(self._observe)
            for entry in self._server.store.scan(resource):
                self._observe(Change(ADDED, entry, None))
        try:
            await run_worker(self._queue, self._sync, self._failed)
        finally:
            for resource in _OBSERVED:
                observers[resource].remove(self._observe)
            tasks = [self._stop(remote) for remote in list(self._checks)]
            await asyncio.gather(*tasks, return_exceptions=True)

    def _observe(self, change: Change) -> None:
        if change.resource == DEFINITIONS:
            spec = change.obj["spec"]
            for version in spec["versions"]:
                self._queue.add(f"{version['name']}.{spec['group']}")
        elif change.resource == KEY:
            self._queue.add(change.name)
        else:
            for remote in self._checks:
                if remote.namespace == change.namespace and (change.resource == ENDPOINT_SLICES or remote.service == change.name):
                    remote.recheck()

    async def _sync(self, name: str) -> None:
        self._register(name)
        current = self._server.api_services.remotes.get(path_prefix(*split_name(name)))
        for remote in [remote for remote in self._checks if remote.name == name and remote is not current]:
            self._stop(remote)
        if current is not None and current not in self._checks:
            self._checks[current] = asyncio.create_task(current.run(), name=f"APIService {name}")

    def _stop(self, remote: RemoteApi) -> asyncio.Task[None]:
        task = self._checks.pop(remote)
        task.cancel()
        return task

    def _register(self, name: str) -> None:
        """Create, restore or delete the APIService of a version of custom resources."""
        group, version = split_name(name)
        desired = self._server.crd_registry.has_served_version(group, version)
        entry = self._server.store.get(KEY, "", name)
        if entry is None:
            if desired:
                obj = local_api_service(group, version, _CUSTOM)
                obj["metadata"] |= {"uid": clock.uid(), "creationTimestamp": clock.timestamp()}
                self._server.store.put(KEY, "", name, obj)
            return
        obj = entry.object()
        if (obj["metadata"].get("labels") or {}).get(MANAGED) != _CUSTOM:
            return
        if not desired:
            self._server.store.remove(KEY, "", name, obj)
        elif obj["spec"] != (spec := local_spec(group, version)):
            self._server.store.put(KEY, "", name, {**obj, "spec": spec})

    def _failed(self, name: str, error: Exception) -> None:
        log.error("failed to reconcile APIService %s", name, exc_info=error)
        self._queue.add_rate_limited(name)
