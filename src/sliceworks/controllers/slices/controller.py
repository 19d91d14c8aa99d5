"""The slices controller: snapshot, decide, act; one reconcile of everything whenever something changes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.metrics import Registry
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.action_writer import ActionWriter
from sliceworks.controllers.slices.cluster_cache import ClusterCache
from sliceworks.controllers.slices.decide import decide
from sliceworks.controllers.slices.model import CreateNodePool, Decision, DeleteNodePool, Snapshot
from sliceworks.controllers.slices.node_pool_operations import NodePoolManager
from sliceworks.controllers.slices.telemetry import Metrics
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.workqueue import QueueStatus

if TYPE_CHECKING:
    from sliceworks.cloud.container import Container
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Key


log = logging.getLogger(__name__)
_DEBOUNCE = 0.005  # seconds in which several changes are combined into one reconcile
_BUG_DELAY = 10.0
_MAX_EVENTS = 10_000  # limit of queued events: a thousand slices at once record several thousand
_RESYNC = 60.0  # seconds between reconciles without a change


class SlicesController:
    """Creates and deletes node pools for one cluster. `run` works until cancelled, and can be called again."""

    def __init__(self, client: Client, container: Container, settings: Settings, metrics: Registry | Metrics | None = None) -> None:
        # A second controller in a process passes its Metrics, because a registry accepts each name once.
        self.metrics = metrics if isinstance(metrics, Metrics) else Metrics(metrics or Registry())
        self.ready = False
        self.settings = settings
        self._client, self._container = client, container
        self._dirty = asyncio.Event()
        self._reconciled_at: float | None = None
        self._session: _Session | None = None

    async def run(self) -> None:
        """Watch, decide and act until cancelled."""
        async with _Session(self) as session:
            self.ready, self._session = True, session
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(session.cloud.poll(), name="node pools")
                    group.create_task(self._reconcile_loop(session), name="slices")
            finally:
                self.ready, self._session, self._reconciled_at = False, None, None

    def queues(self) -> dict[str, QueueStatus]:
        """The status of the two loops: reconciles of everything, and lists of node pools."""
        if self._session is None:
            return {}
        now, cloud = clock.loop_time(), self._session.cloud
        # A reconcile is due at the latest after the resync interval.
        late = now - self._reconciled_at - _RESYNC if self._reconciled_at is not None else 0.0
        listing = now - cloud.listing_since if cloud.listing_since is not None else 0.0
        return {"slices": QueueStatus(self.metrics.waiting, max(late, 0.0)), "node-pools": QueueStatus(0, listing)}

    def changed(self) -> None:
        """Requeue after a change."""
        self._dirty.set()

    async def _reconcile_loop(self, session: _Session) -> None:
        while True:
            self._dirty.clear()
            self._reconciled_at = clock.loop_time()
            started = clock.perf_counter()
            delay = await self._reconcile(session) if session.cloud.has_listed else _RESYNC
            duration = clock.perf_counter() - started
            self.metrics.decisions.observe(duration)
            # Sleep as long as the reconcile took, so that a large cluster does not block the event loop.
            await clock.sleep(max(_DEBOUNCE, duration))
            try:
                async with asyncio.timeout(delay):
                    await self._dirty.wait()
            except TimeoutError:
                continue

    async def _reconcile(self, session: _Session) -> float:
        """Reconcile everything once; returns the seconds until the next reconcile."""
        try:
            return session.perform(decide(session.snapshot(), self.settings))
        except Exception:
            log.exception("unexpected error; retrying in %g s", _BUG_DELAY)
            await clock.sleep(_BUG_DELAY)
            return 0.0


class _Session:
    """The caches, writers and events of one run."""

    def __init__(self, controller: SlicesController) -> None:
        client, metrics, changed = controller._client, controller.metrics, controller.changed
        self._controller, self._client = controller, client
        self._known_jobs: dict[Key, Key] = {}
        self.cache = ClusterCache(client, controller.settings, changed)
        self.events = EventRecorder(client, well_known.COMPONENT, max_pending=_MAX_EVENTS)
        start = controller.settings.concurrency
        self.cloud = NodePoolManager(controller._container, self.events, metrics, start=start, changed=changed)
        resources = self.cache.resources
        self.cluster = ActionWriter(
            client, self.events, metrics, resources=resources, on_write=self.cache.record_write, changed=changed
        )

    async def __aenter__(self) -> Self:
        await self.cache.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cloud.close()
        await self.cluster.close()
        await self.cache.close()
        await self.events.close(timeout=2.0)

    def snapshot(self) -> Snapshot:
        """The current snapshot."""
        cache, cloud = self.cache, self.cloud
        leaders, jobsets = cache.leaders(), cache.jobsets()
        self._controller.metrics.waiting = len(leaders)
        jobs = {**self._known_jobs, **{job: leader.jobset for job, leader in leaders.items()}}
        self._known_jobs = {job: jobset for job, jobset in jobs.items() if jobset in jobsets}
        return Snapshot(
            now=clock.now().timestamp(),
            leaders=leaders,
            jobsets=jobsets,
            pools=cloud.pools,
            pending_operations=cloud.pending_operations(),
            running_since=cloud.running_since,
            known_jobs=self._known_jobs,
            placements=cache.placements.current(jobsets, leaders),
            failures=cloud.failures,
            workloads=cache.workloads(),
            checks=cache.checks(),
            inactive_checks=cache.inactive_checks(),
            flavors=cache.flavors(),
            available_operations=cloud.available_operations(),
            cluster=cloud.cluster,
            cloud_error=cloud.cloud_error,
        )

    def perform(self, decision: Decision) -> float:
        """Start the actions; returns the seconds until the next reconcile."""
        delay = _RESYNC
        if decision.requeue_time is not None:
            delay = min(delay, max(decision.requeue_time - clock.now().timestamp(), 0.0) + 0.01)
        self.cloud.begin_round()
        for action in decision.actions:
            retry = self.cloud.start(action) if isinstance(action, CreateNodePool | DeleteNodePool) else self.cluster.start(action)
            if retry is not None:
                delay = min(delay, retry + 0.01)
        return delay


class SlicesRunnable:
    """Runs the controller for the manager. Missing settings come from Google's metadata server."""

    def __init__(self, client: Client, settings: Settings, registry: Registry) -> None:
        self._client, self._settings, self._metrics = client, settings, Metrics(registry)
        self._controller: SlicesController | None = None

    @property
    def ready(self) -> bool:
        """Whether its caches are synced."""
        return self._controller is not None and self._controller.ready

    def queues(self) -> dict[str, QueueStatus]:
        """The status of each work queue by name."""
        return self._controller.queues() if self._controller is not None else {}

    async def run(self) -> None:
        """Run until cancelled."""
        from sliceworks.cloud.container import open_container

        settings = await resolve_cluster(self._settings)
        log.info(
            "managing node pools of projects/%s/locations/%s/clusters/%s", settings.project, settings.location, settings.cluster
        )
        container = open_container(
            settings.project,
            settings.location,
            settings.cluster,
            endpoint=settings.endpoint,
            token=settings.token,
            impersonate=settings.impersonate,
        )
        try:
            self._controller = SlicesController(self._client, container, settings, self._metrics)
            await self._controller.run()
        finally:
            await container.session.close()
            self._controller = None


async def resolve_cluster(settings: Settings) -> Settings:
    """Complete project, location and cluster from the metadata server. Raises UsageError if one is still missing."""
    missing = not (settings.project and settings.location and settings.cluster)
    if (missing or not settings.zones) and not settings.endpoint:
        from sliceworks.cloud.metadata_server import read_metadata

        metadata = await read_metadata()
        settings = replace(
            settings,
            project=settings.project or metadata.project,
            location=settings.location or metadata.location,
            cluster=settings.cluster or metadata.cluster,
            zones=settings.zones or ((metadata.zone,) if metadata.zone else ()),
        )
    required = {"GCP_PROJECT_ID": settings.project, "GCP_CLUSTER_LOCATION": settings.location, "GCP_CLUSTER": settings.cluster}
    missing_names = [name for name, value in required.items() if not value]
    if missing_names:
        raise UsageError(
            f"cluster not configured: {', '.join(missing_names)} not set",
            hint="set them, use --twin, or run only the other controllers",
        )
    return settings
