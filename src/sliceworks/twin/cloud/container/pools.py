"""Node pools, as they are asked for: checked, written down, and handed to an operation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.container import names
from sliceworks.twin.cloud.container.machines import formation
from sliceworks.twin.cloud.container.places import cluster_path, is_zone, project_of, region_of
from sliceworks.twin.cloud.container.stock import taken
from sliceworks.twin.cloud.container.yard import places, set_places
from sliceworks.twin.cloud.errors import GoogleError, already_exists, invalid
from sliceworks.twin.cloud.state import Document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.twin.cloud.container.jobs import Jobs
    from sliceworks.twin.cloud.container.nodes import Place
    from sliceworks.twin.cloud.container.yard import Yard
    from sliceworks.twin.cloud.routes import Call

Obj = dict[str, Any]
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?")
_NAME_RULE = (
    "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?)' (only lowercase alphanumerics and '-' allowed, must start "
    "with a letter and end with an alphanumeric, and must be no longer than 40 characters)."
)
_AUTOPILOT = "Autopilot node pools cannot be accessed or modified."
_LINK = "https://container.googleapis.com/v1/"
_MOST_NODES = 2_000
_OUTPUTS = ("status", "statusMessage", "selfLink", "instanceGroupUrls", "conditions", "etag", "updateInfo", "podIpv4CidrSize")


class Pools:
    """What can be asked about node pools."""

    def __init__(self, yard: Yard, jobs: Jobs) -> None:
        self._yard = yard
        self._jobs = jobs

    def find_all(self, call: Call) -> Obj:
        """All pools of a cluster."""
        path = cluster_path(call.params)
        self._yard.cluster(path)
        found = [pool.body for pool in self._yard.pools.all(path)]
        return {"nodePools": found} if found else {}

    def get(self, call: Call) -> Obj:
        """One pool."""
        return self._yard.pool(cluster_path(call.params), call.params["pool"]).body

    def create(self, call: Call) -> Obj:
        """A new pool. Its machines come later, with the operation."""
        path, asked = cluster_path(call.params), call.body.get("nodePool") or {}
        return self.add(self._changeable(path), asked)

    def _changeable(self, path: str) -> Document:
        """A cluster whose pools people may change."""
        cluster = self._yard.cluster(path)
        if (cluster.body.get("autopilot") or {}).get("enabled"):
            raise invalid(_AUTOPILOT)
        return cluster

    def add(self, cluster: Document, asked: Obj) -> Obj:
        """Begin to make a pool."""
        pool = self.prepared(cluster, asked)
        path = pool.parent
        if self._yard.pools.get(path, pool.name) is not None:
            raise already_exists(f"{path}/nodePools/{pool.name}")
        self._jobs.check(path, pool.name)
        self.reserve(pool)
        self._yard.put(pool)
        seconds = self._yard.settings.seconds("createNodePool")
        facts = self._yard.facts(path, pool.body)
        return self._jobs.begin("CREATE_NODE_POOL", path, pool.name, step="machines", seconds=seconds, facts=facts)

    def prepared(self, cluster: Document, asked: Obj) -> Document:
        """The pool that is asked for, as it reads from now on; INVALID_ARGUMENT says what is wrong with it."""
        path, name = f"{cluster.parent}/clusters/{cluster.name}", asked.get("name") or ""
        if not _NAME.fullmatch(name):
            raise invalid(f'Invalid value for field "node_pool.name": "{name}". {_NAME_RULE}')
        body = {key: value for key, value in asked.items() if key not in _OUTPUTS}
        body["locations"] = self._zones(cluster, asked)
        body.setdefault("version", cluster.body["currentNodeVersion"])
        body["selfLink"] = f"{_LINK}{path}/nodePools/{name}"
        body["status"] = "PROVISIONING"
        formation(body)
        _check_size(body)
        return Document(path, name, body)

    def reserve(self, pool: Document) -> None:
        """Choose a pool's machines, provided that quotas and reservations have room for them."""
        what, project = formation(pool.body), project_of(pool.parent)
        waits = (pool.body.get("autoscaling") or {}).get("enabled") and not first_size(pool.body)
        count = 0 if waits else what.gang or first_size(pool.body)
        zones = [zone for zone in pool.body["locations"] for _ in range(count)]
        self._yard.stock.check(f"{pool.parent}/nodePools/{pool.name}", taken(project, pool.body, what, zones))
        found = [place for zone in pool.body["locations"] for place in self._yard.new_places(pool, zone, count)]
        set_places(pool, found)
        cluster = pool.parent.rpartition("/")[2]
        pool.body["instanceGroupUrls"] = [
            names.group_url(project, zone, names.base_name(cluster, pool.name, mark)) for zone, mark in pool.inner["marks"].items()
        ]

    def _zones(self, cluster: Document, asked: Obj) -> list[str]:
        zones = asked.get("locations") or cluster.body["locations"]
        region = region_of(cluster.body["location"])
        for zone in zones:
            if not is_zone(zone) or region_of(zone) != region:
                raise invalid(f'Location "{zone}" is not a zone of region "{region}".')
        return list(dict.fromkeys(zones))

    def delete(self, call: Call) -> Obj:
        """The end of a pool; its nodes are emptied first."""
        path = cluster_path(call.params)
        pool = self._yard.pool(path, call.params["pool"])
        self._changeable(path)
        return self.remove(pool)

    def remove(self, pool: Document) -> Obj:
        """Begin to empty a pool and to take it away."""
        path, name = pool.parent, pool.name
        self._jobs.check(path, name)
        for repair in self._jobs.hidden(path, name):
            self._jobs.finish(repair)
        pool.body["status"] = "STOPPING"
        self._yard.put(pool)
        seconds = self._yard.settings.seconds("deleteNodePool")
        facts = self._yard.facts(path, pool.body)
        return self._jobs.begin("DELETE_NODE_POOL", path, name, step="drain", seconds=0.0, facts=facts, rest=seconds)

    def set_size(self, call: Call) -> Obj:
        """Another number of machines in each zone."""
        path, name, count = cluster_path(call.params), call.params["pool"], int(call.body.get("nodeCount") or 0)
        pool = self._yard.pool(path, name)
        self._changeable(path)
        if not 0 <= count <= _MOST_NODES:
            raise invalid(f"Node count {count} is not valid: must be between 0 and {_MOST_NODES}.")
        self._jobs.check(path, name)
        if formation(pool.body).gang:
            # A slice is all of its machines: it cannot be made larger or smaller.
            raise invalid(f'Node pool "{name}" is a multi-host TPU slice node pool, whose size is fixed by its topology.')
        return self.resize(pool, dict.fromkeys(pool.body["locations"], count), "SET_NODE_POOL_SIZE")

    def resize(
        self, pool: Document, counts: Mapping[str, int], kind: str, *, drop: Sequence[Place] | None = None, hidden: bool = False
    ) -> Obj:
        """Begin to make or take away machines until there are so many in each zone; `drop` says which ones go."""
        add: list[Place] = []
        gone = list(drop or ())
        for zone, count in counts.items():
            there = [place for place in places(pool) if place.zone == zone]
            if drop is None:
                gone += there[count:]
            add += self._yard.new_places(pool, zone, max(0, count - len(there)))
        wanted = [place for place in places(pool) if place not in gone] + add
        what = taken(project_of(pool.parent), pool.body, formation(pool.body), (place.zone for place in wanted))
        try:
            self._yard.stock.check(f"{pool.parent}/nodePools/{pool.name}", what)
        except GoogleError:
            self._yard.fleet.free(place.number for place in add)
            raise
        set_places(pool, [*places(pool), *add])
        if not hidden:
            pool.body["status"] = "RECONCILING"
        self._yard.put(pool)
        listed = {"drop": [list(place) for place in gone], "add": [list(place) for place in add]}
        return self._jobs.begin(
            kind,
            pool.parent,
            pool.name,
            step="machines",
            seconds=self._yard.settings.seconds("resizeNodePool"),
            facts=self._yard.facts(pool.parent, pool.body),
            hidden=hidden,
            **listed,
        )

    def set_management(self, call: Call) -> Obj:
        """Whether machines are repaired and upgraded."""
        return self._change(call, "SET_NODE_POOL_MANAGEMENT", {"management": call.body.get("management") or {}})

    def set_autoscaling(self, call: Call) -> Obj:
        """Between which sizes the pool follows its pods."""
        path = cluster_path(call.params)
        pool = self._yard.pool(path, call.params["pool"])
        scaling = call.body.get("autoscaling") or {}
        _check_autoscaling({**pool.body, "autoscaling": scaling})
        return self._change(call, "UPDATE_CLUSTER", {"autoscaling": scaling})

    def update(self, call: Call) -> Obj:
        """What else of a pool may change."""
        fields = dict(call.body)
        for key in ("name", "projectId", "zone", "clusterId", "nodePoolId", "etag", "nodeConfigUpdateMode"):
            fields.pop(key, None)
        whole = {key: fields.pop(key) for key in tuple(fields) if key in _OF_POOL}
        config = {key: fields.pop(key) for key in tuple(fields)}
        change: Obj = {_OF_POOL[key]: value for key, value in whole.items()}
        if config:
            path = cluster_path(call.params)
            old = self._yard.pool(path, call.params["pool"]).body.get("config") or {}
            change["config"] = {**old, **{key: _inner(key, value) for key, value in config.items() if not key.startswith("image")}}
            if "imageType" in config:
                change["config"]["imageType"] = config["imageType"]
        return self._change(call, "UPGRADE_NODES" if "nodeVersion" in whole else "UPDATE_CLUSTER", change)

    def _change(self, call: Call, kind: str, change: Obj) -> Obj:
        """Begin an operation at whose end a pool reads otherwise."""
        path, name = cluster_path(call.params), call.params["pool"]
        pool = self._yard.pool(path, name)
        self._changeable(path)
        formation({**pool.body, **change})
        self._jobs.check(path, name)
        seconds = self._yard.settings.seconds("updateNodePool")
        facts = self._yard.facts(path, pool.body)
        return self._jobs.begin(kind, path, name, step="change", seconds=seconds, facts=facts, change=change)


_OF_POOL = {
    "nodeVersion": "version",
    "locations": "locations",
    "upgradeSettings": "upgradeSettings",
    "nodeNetworkConfig": "networkConfig",
    "queuedProvisioning": "queuedProvisioning",
    "maintenancePolicy": "maintenancePolicy",
    "nodeDrainConfig": "nodeDrainConfig",
}


def _inner(key: str, value: Any) -> Any:
    """A field of an update as it stands in a pool: labels, taints and tags come in a message of their own."""
    return value.get(key, value) if isinstance(value, dict) and key in {"labels", "taints", "tags", "resourceLabels"} else value


def first_size(pool: Obj) -> int:
    """How many machines a pool begins with in each zone."""
    return int(pool.get("initialNodeCount") or 0)


def _check_size(pool: Obj) -> None:
    count = first_size(pool)
    if not 0 <= count <= _MOST_NODES:
        raise invalid(f'Invalid value for field "node_pool.initial_node_count": "{count}". Must be between 0 and {_MOST_NODES}.')
    _check_autoscaling(pool)


def _check_autoscaling(pool: Obj) -> None:
    scaling = pool.get("autoscaling") or {}
    if not scaling.get("enabled"):
        return
    least, most = int(scaling.get("minNodeCount") or 0), int(scaling.get("maxNodeCount") or 0)
    what = formation(pool)
    if what.gang and what.slice is not None and most != what.gang:
        raise invalid(f"Maximum node count {most} is not a valid size of TPU pod slice with topology {what.slice.topology}.")
    if not (most or scaling.get("totalMaxNodeCount")) or least > most > 0:
        raise invalid(f"Autoscaling needs a maximum node count of at least 1 that is not below the minimum: {least} to {most}.")
