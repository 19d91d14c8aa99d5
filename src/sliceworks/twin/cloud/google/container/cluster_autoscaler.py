"""The cluster autoscaler and node auto-provisioning (pools of Autopilot clusters)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import gke_rules, gpus, labels, lookup
from sliceworks.kube.pod_requests import parse_resources, pod_requests
from sliceworks.twin.cloud.core.exceptions import GoogleError
from sliceworks.twin.cloud.google.container import resource_names
from sliceworks.twin.cloud.google.container.gke_state import instances
from sliceworks.twin.cloud.google.container.node_template import Instance, resolve_shape
from sliceworks.twin.scheduler.node_info import NodeInfo
from sliceworks.twin.scheduler.node_plugins import FilterStatus, check_node, check_resources
from sliceworks.twin.scheduler.pod_info import PodInfoCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.catalog import Machine
    from sliceworks.twin.cloud.core.document_store import Document
    from sliceworks.twin.cloud.google.container.cluster_operation import ContainerOperations
    from sliceworks.twin.cloud.google.container.gke_state import GkeState
    from sliceworks.twin.cloud.google.container.node_pool import NodePools
    from sliceworks.twin.scheduler.pod_info import PodInfo
log = logging.getLogger(__name__)
Obj = dict[str, Any]
AUTOPROVISIONED_PREFIX = "nap-"
_MAX_NODES = 1_000
_CPU_SERIES = (("e2-standard", (4, 8, 16, 32)), ("n2-standard", (48, 64, 80, 96, 128)))
_SPOT, _ZONE = "cloud.google.com/gke-spot", "topology.kubernetes.io/zone"


def choose_node_pool(pod: Obj, zones: list[str]) -> Obj | None:
    """Return the spec of a node pool for a pod; None if no machine type fits."""
    spec = pod["spec"]
    selector, requests = spec.get("nodeSelector") or {}, pod_requests(spec)
    config: Obj = {"spot": True} if selector.get(_SPOT) == "true" else {}
    if labels.TPU in requests:
        choice = _choose_tpu(selector, requests)
    else:
        choice = _choose_gpu(selector, requests) if labels.GPU in requests else _choose_cpu(requests)
    if choice is None:
        return None
    machine, fields = choice
    zone = selector.get(_ZONE)
    count = fields.get("initialNodeCount", 1)
    return {
        "name": f"{AUTOPROVISIONED_PREFIX}{machine.name}-{resource_names.new_hash()}"[:40].rstrip("-"),
        "initialNodeCount": count,
        "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": count if "placementPolicy" in fields else _MAX_NODES},
        "management": {"autoRepair": True, "autoUpgrade": True},
        "locations": [zone] if zone in zones else _offering_zones(machine, zones)[:1],
        **fields,
        "config": {"machineType": machine.name, **config, **fields.get("config", {})},
    }


def _offering_zones(machine: Machine, zones: list[str]) -> list[str]:
    """The zones that offer a machine type, or all if none does."""
    accelerator = lookup.find_by_machine(machine.name)
    return [zone for zone in zones if gke_rules.check_machine_zone(machine.name, zone, accelerator) is None] or zones


def _choose_tpu(selector: Obj, requests: dict[str, int]) -> tuple[Machine, Obj] | None:
    try:
        tpu_slice = catalog.find_slice(
            selector.get(labels.TPU_ACCELERATOR, ""), selector.get(labels.TPU_TOPOLOGY, ""), requests[labels.TPU] or None
        )
    except SliceworksError:
        return None
    placement = tpu_slice.placement
    if placement is None:
        return tpu_slice.machine, {}
    policy = {**placement.policy("workload-policy"), "tpuTopology": tpu_slice.topology}
    return tpu_slice.machine, {"initialNodeCount": tpu_slice.hosts, "placementPolicy": policy}


def _choose_gpu(selector: Obj, requests: dict[str, int]) -> tuple[Machine, Obj] | None:
    label = selector.get(labels.GPU_ACCELERATOR, "")
    for shape in gpus.shapes():
        if label in ("", shape.accelerator) and shape.chips >= requests[labels.GPU] and _fits(shape.machine, requests):
            return shape.machine, {"config": {"accelerators": shape.guest_accelerators()}}
    return None


def _choose_cpu(requests: dict[str, int]) -> tuple[Machine, Obj] | None:
    return next(((machine, {}) for machine in _cpu_machines() if _fits(machine, requests)), None)


def _cpu_machines() -> Iterator[Machine]:
    return (catalog.find_machine(f"{series}-{size}") for series, sizes in _CPU_SERIES for size in sizes)


def _fits(machine: Machine, requests: dict[str, int]) -> bool:
    allocatable = parse_resources(machine.allocatable())
    return all(requests.get(name, 0) <= allocatable[name] for name in ("cpu", "memory"))


@dataclass(slots=True)
class ScalablePool:
    """An autoscaled node pool: instances and node template per zone, and its limits (0 is unlimited)."""

    name: str
    counts: dict[str, int]
    templates: dict[str, Obj]
    max_per_zone: int = 0
    max_total: int = 0
    step: int = 1
    """Instances of one scale-up: all hosts of a slice, or one."""
    upcoming: list[str] = field(default_factory=list)
    """Zones of instances that are being created."""

    def growable_zones(self) -> list[str]:
        """The zones below their limit, smallest first."""
        if self.max_total and sum(self.counts.values()) + self.step > self.max_total:
            return []
        limit = self.max_per_zone
        zones = [zone for zone, count in self.counts.items() if not limit or count + self.step <= limit]
        return sorted(zones, key=lambda zone: (self.counts[zone], zone))


class ScaleUp(NamedTuple):
    """New sizes by node pool and zone, and the pods that fit no node pool."""

    counts: dict[str, dict[str, int]]
    remaining: list[Obj]


def scale_up(pools: Iterable[ScalablePool], pods: Iterable[Obj]) -> ScaleUp:
    """Choose the node pools to scale up for unschedulable pods."""
    candidates, cache = list(pools), PodInfoCache()
    nodes = [_new_node(pool, zone) for pool in candidates for zone in pool.upcoming]
    templates = {(pool.name, zone): _new_node(pool, zone) for pool in candidates for zone in pool.templates}
    # By the requirements of pods, how many of the first nodes are full for them: nodes only become fuller.
    full: dict[bytes, int] = {}
    grown: dict[str, ScalablePool] = {}
    remaining: list[Obj] = []
    for obj in pods:
        pod = cache.parse(obj)
        first = full.get(pod.shape.node.key, 0)
        index = next((index for index in range(first, len(nodes)) if _place(pod, nodes[index])), len(nodes))
        full[pod.shape.node.key] = index
        if index < len(nodes):
            continue
        for pool in candidates:
            zone = next((zone for zone in pool.growable_zones() if _fits_node(pod, templates[pool.name, zone])), None)
            if zone is not None:
                pool.counts[zone] += pool.step
                added = [_new_node(pool, zone) for _ in range(pool.step)]
                _place(pod, added[0])
                nodes += added
                grown[pool.name] = pool
                break
        else:
            remaining.append(obj)
    return ScaleUp({name: dict(pool.counts) for name, pool in grown.items()}, remaining)


def _new_node(pool: ScalablePool, zone: str) -> NodeInfo:
    node = NodeInfo("", 0)
    node.update(pool.templates[zone])
    return node


def _fits_node(pod: PodInfo, node: NodeInfo) -> bool:
    requirements = pod.shape.node
    return not isinstance(check_node(requirements, node), FilterStatus) and check_resources(requirements, node) is None


def _place(pod: PodInfo, node: NodeInfo) -> bool:
    """Add a pod to a node if it fits."""
    if not _fits_node(pod, node):
        return False
    node.add(pod)
    return True


_SCAN_INTERVAL = 10.0
_BACKOFF = 300.0
_RESIZE_TYPE = "RESIZE_CLUSTER"


class ClusterAutoscaler:
    """Scales autoscaled node pools up for unschedulable pods, and down when Nodes are unneeded."""

    def __init__(self, state: GkeState, operations: ContainerOperations, pools: NodePools) -> None:
        self._state = state
        self._operations = operations
        self._pools = pools
        self._autoscaled: dict[tuple[str, str], None] = {}
        self._unneeded_since: dict[str, float] = {}
        self._backoff_until: dict[tuple[str, str], float] = {}
        self._task: asyncio.Task[None] | None = None

    def on_pool_changed(self, pool: Document) -> None:
        """Start or stop autoscaling of a created or changed node pool."""
        key = (pool.parent, pool.name)
        if (pool.body.get("autoscaling") or {}).get("enabled"):
            self._autoscaled[key] = None
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="cloud: autoscaler")
        else:
            self._autoscaled.pop(key, None)

    def back_off(self, pool: Document) -> None:
        """Do not scale a node pool up for a while after a failure."""
        self._backoff_until[pool.parent, pool.name] = clock.loop_time() + _BACKOFF

    async def stop(self) -> None:
        """Stop scaling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._autoscaled:
            try:
                await self._scan()
            except (SliceworksError, GoogleError) as error:
                log.warning("autoscaler scan failed: %s", error)
            except Exception:
                log.exception("autoscaler scan failed; retrying in %g s", _SCAN_INTERVAL)
            await clock.sleep(_SCAN_INTERVAL)

    async def _scan(self) -> None:
        pools = self._autoscaled_pools()
        pods = await self._state.node_manager.unschedulable_pods() if pools else []
        busy = await self._state.node_manager.busy_nodes() if any(map(self._is_scalable, pools)) else None
        # Node pools may have changed while pods were listed; from here on there is no await.
        pools = self._autoscaled_pools()
        scalable = {(pool.parent, pool.name): pool for pool in pools if self._is_scalable(pool)}
        if pods and pools:
            self._scale_up(pools, scalable, pods)
        if scalable and busy is not None:
            self._scale_down(list(scalable.values()), busy)

    def _autoscaled_pools(self) -> list[Document]:
        """The autoscaled node pools whose instances are Nodes of the twin."""
        pools = [pool for key in list(self._autoscaled) if (pool := self._state.pools.get(*key)) is not None]
        self._autoscaled = {(pool.parent, pool.name): None for pool in pools}
        return [pool for pool in pools if self._state.has_nodes(pool.parent)]

    def _is_scalable(self, pool: Document) -> bool:
        key = (pool.parent, pool.name)
        return (
            pool.body["status"] in ("RUNNING", "RUNNING_WITH_ERROR")
            and not self._operations.hidden(*key)
            and not self._operations.is_busy(*key)
        )

    def _scale_up(self, pools: list[Document], scalable: dict[tuple[str, str], Document], pods: list[Obj]) -> None:
        now = clock.loop_time()
        backed_off = {key for key, until in self._backoff_until.items() if until > now}
        growable = scalable.keys() - backed_off
        candidates = [self._candidate(pool, (pool.parent, pool.name) in growable) for pool in pools]
        by_name = {pool.name: pool for pool in scalable.values()}
        result = scale_up(candidates, pods)
        for name, counts in result.counts.items():
            self._resize(by_name[name], counts)
        if result.remaining:
            self._provision(pools[0].parent, result.remaining)

    def _provision(self, path: str, pods: list[Obj]) -> None:
        """Create a node pool for one pod that fits none, in an Autopilot cluster; the next scan handles the other pods."""
        cluster = self._state.cluster(path)
        if not (cluster.body.get("autopilot") or {}).get("enabled"):
            return
        for pod in pods:
            spec = choose_node_pool(pod, cluster.body["locations"])
            if spec is not None:
                try:
                    self._pools.add(cluster, spec)
                except GoogleError as error:
                    log.info("cannot create a node pool for pod %s: %s", pod["metadata"]["name"], error)
                return

    def _candidate(self, pool: Document, may_grow: bool) -> ScalablePool:
        scaling, zones = pool.body["autoscaling"], pool.body["locations"]
        counts = _count_by_zone(pool)
        templates = {zone: next(iter(self._state.nodes(pool, [Instance("new", zone, 0)], 0.0))) for zone in zones}
        upcoming = [instance.zone for instance in instances(pool) if not self._state.node_manager.is_ready(instance.name)]
        max_per_zone, max_total = int(scaling.get("maxNodeCount") or 0), int(scaling.get("totalMaxNodeCount") or 0)
        if not may_grow:
            max_per_zone = max_total = -1
        return ScalablePool(
            pool.name, counts, templates, max_per_zone, max_total, resolve_shape(pool.body).slice_hosts or 1, upcoming
        )

    def _scale_down(self, pools: list[Document], busy: set[str]) -> None:
        now, unneeded_time = clock.loop_time(), self._state.settings.seconds("idle")
        names = [instance.name for pool in pools for instance in instances(pool)]
        unneeded_names = [name for name in names if name not in busy and self._state.node_manager.is_ready(name)]
        self._unneeded_since = {name: self._unneeded_since.get(name, now) for name in unneeded_names}
        for pool in pools:
            if self._operations.hidden(pool.parent, pool.name):
                continue
            unneeded = [
                instance for instance in instances(pool) if now - self._unneeded_since.get(instance.name, now) >= unneeded_time
            ]
            slice_hosts = resolve_shape(pool.body).slice_hosts
            if not instances(pool) and pool.name.startswith(AUTOPROVISIONED_PREFIX):
                self._pools.begin_delete(pool)
            if not unneeded or (slice_hosts and len(unneeded) < len(instances(pool))):
                continue
            self._delete_unneeded(pool, unneeded)

    def _delete_unneeded(self, pool: Document, unneeded: list[Instance]) -> None:
        scaling = pool.body["autoscaling"]
        min_per_zone, min_total = int(scaling.get("minNodeCount") or 0), int(scaling.get("totalMinNodeCount") or 0)
        counts = _count_by_zone(pool)
        drop: list[Instance] = []
        for instance in unneeded:
            if counts[instance.zone] > min_per_zone and sum(counts.values()) > min_total:
                counts[instance.zone] -= 1
                drop.append(instance)
        if drop:
            self._resize(pool, counts, drop)

    def _resize(self, pool: Document, counts: dict[str, int], drop: list[Instance] | None = None) -> None:
        try:
            self._pools.resize(pool, counts, _RESIZE_TYPE, drop=drop, hidden=True)
        except GoogleError:
            self.back_off(pool)


def _count_by_zone(pool: Document) -> dict[str, int]:
    zones = [instance.zone for instance in instances(pool)]
    return {zone: zones.count(zone) for zone in pool.body["locations"]}
