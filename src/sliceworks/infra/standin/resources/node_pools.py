"""Node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudError, CloudNotFound
from sliceworks.infra.standin import mapping
from sliceworks.infra.standin.kinds import Kind, fill
from sliceworks.infra.standin.resources.container_calls import POOL, POOLS, done

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]


class NodePool:
    """A node pool. What changes is sent by the method that GKE has for it."""

    fixed = (
        "name",
        "cluster",
        "location",
        "project",
        "placement_policy",
        "node_config.machine_type",
        "node_config.spot",
        "node_config.service_account",
        "node_config.guest_accelerator",
        "node_config.reservation_affinity",
        "node_config.disk_type",
        "node_config.disk_size_gb",
        "max_pods_per_node",
    )
    filled_in: tuple[str, ...] = ()
    imports = (
        "{project}/{location}/{cluster}/{name}",
        "projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}",
    )

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """A new pool."""
        body = mapping.body(block, planned, POOL)
        count = planned.get("node_count")
        if isinstance(count, int | float):
            body["initialNodeCount"] = int(count)
        elif not isinstance(planned.get("initial_node_count"), int | float):
            body["initialNodeCount"] = 0
        if body.get("autoscaling"):
            body["autoscaling"]["enabled"] = True
        await self._do(settings, planned, "POST", fill(POOLS, planned), {"nodePool": body})
        return await self._there(settings, block, planned)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """The pool, and how many nodes it has in each zone."""
        try:
            answer = await settings.session("container").call("GET", "/" + self._path(known))
        except CloudNotFound:
            return None
        if answer.get("status") == "STOPPING":
            return None
        state = mapping.state(block, answer, known, POOL)
        urls = answer.get("instanceGroupUrls") or []
        state["id"] = self._path(state)
        state["instance_group_urls"] = state["managed_instance_group_urls"] = urls
        if state.get("node_count") is not None or not (answer.get("autoscaling") or {}).get("enabled"):
            state["node_count"] = await _count(settings, urls)
        return state

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Size, autoscaling and management have methods of their own; the rest is an update."""
        new, old = mapping.body(block, planned, POOL), mapping.body(block, prior, POOL)
        path = self._path(prior)
        if planned.get("node_count") != prior.get("node_count") and planned.get("node_count") is not None:
            await self._do(settings, planned, "POST", f"{path}:setSize", {"nodeCount": int(planned["node_count"])})
        if new.get("autoscaling") != old.get("autoscaling"):
            wanted = {**(new.get("autoscaling") or {}), "enabled": bool(new.get("autoscaling"))}
            await self._do(settings, planned, "POST", f"{path}:setAutoscaling", {"autoscaling": wanted})
        if new.get("management") != old.get("management"):
            await self._do(settings, planned, "POST", f"{path}:setManagement", {"management": new.get("management") or {}})
        change = _pool_update(new, old)
        if change:
            await self._do(settings, planned, "PUT", path, change)
        return await self._there(settings, block, planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it."""
        try:
            await self._do(settings, prior, "DELETE", self._path(prior), None)
        except CloudNotFound:
            return

    def _path(self, state: Object) -> str:
        return fill(POOLS, state) + f"/{state['name']}"

    async def _there(self, settings: Settings, block: Block, planned: Object) -> Object:
        found = await self.read(settings, block, planned)
        if found is None:
            raise CloudError(f"{self._path(planned)} is not there")
        return found

    async def _do(self, settings: Settings, state: Object, method: str, path: str, body: Object | None) -> None:
        await done(settings, state, (method, path), body)


def _pool_update(new: Object, old: Object) -> Object:
    """Fields of the update of a pool, for what differs."""
    change: Object = {}
    if new.get("upgradeSettings") != old.get("upgradeSettings"):
        change["upgradeSettings"] = new.get("upgradeSettings") or {}
    if new.get("locations") != old.get("locations"):
        change["locations"] = new.get("locations") or []
    config, before = new.get("config") or {}, old.get("config") or {}
    for field, wrapped in (("labels", "labels"), ("taints", "taints"), ("tags", "tags")):
        if config.get(field) != before.get(field):
            change[field] = {wrapped: config.get(field) or ({} if field == "labels" else [])}
    if config.get("resourceLabels") != before.get("resourceLabels"):
        change["resourceLabels"] = {"labels": config.get("resourceLabels") or {}}
    return change


async def _count(settings: Settings, urls: list[str]) -> int:
    """Nodes in each zone, read where the machines are grouped."""
    sizes = []
    for url in urls:
        group = await settings.session("compute").call("GET", "/projects/" + url.partition("/projects/")[2])
        sizes.append(int(group.get("targetSize") or 0))
    return sum(sizes) // len(sizes) if sizes else 0


KINDS: dict[str, Kind] = {"google_container_node_pool": NodePool()}
