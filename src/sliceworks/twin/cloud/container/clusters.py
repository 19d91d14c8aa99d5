"""Clusters, as they are asked for. The first one that is made has the twin's own Kubernetes behind it."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.cloud import schema
from sliceworks.twin.cloud.container.places import ANY, cluster_path, is_zone, location_of, location_path, region_of, zones_of
from sliceworks.twin.cloud.container.updates import OLDER, VERSION, Part, meant_version, wanted
from sliceworks.twin.cloud.container.yard import places
from sliceworks.twin.cloud.errors import already_exists, invalid
from sliceworks.twin.cloud.state import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.cloud.container.jobs import Jobs
    from sliceworks.twin.cloud.container.pools import Pools
    from sliceworks.twin.cloud.container.yard import Yard
    from sliceworks.twin.cloud.routes import Call

Obj = dict[str, Any]
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?")
_LINK = "https://container.googleapis.com/v1/"
_OUTPUTS = (
    "status",
    "statusMessage",
    "conditions",
    "selfLink",
    "createTime",
    "currentNodeCount",
    "id",
    "zone",
    "nodePools",
    "etag",
)
_AUTOPILOT_POOL = {
    "name": "default-pool",
    "config": {"machineType": "e2-standard-8"},
    "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 1000},
}
_ADDRESS = "203.0.113.10"


class Clusters:
    """What can be asked about clusters. `authority` is the certificate of the twin's Kubernetes, `address` where it answers."""

    def __init__(self, yard: Yard, jobs: Jobs, pools: Pools) -> None:
        self._yard = yard
        self._jobs = jobs
        self._pools = pools
        self.authority = ""
        self.address = _ADDRESS

    def find_all(self, call: Call) -> Obj:
        """The clusters of a location, or of all locations of a project."""
        parent = location_path(call.params)
        place = None if call.params["location"] == ANY else parent
        prefix = f"projects/{call.params['project']}/"
        found = [self._read(each) for each in self._yard.clusters.all(place) if each.parent.startswith(prefix)]
        return {"clusters": found} if found else {}

    def get(self, call: Call) -> Obj:
        """One cluster, with its pools."""
        return self._read(self._yard.cluster(cluster_path(call.params)))

    def create(self, call: Call) -> Obj:
        """A new cluster, with the pools it is to begin with."""
        parent, asked = location_path(call.params), dict(call.body.get("cluster") or {})
        name = asked.get("name") or ""
        if not _NAME.fullmatch(name):
            raise invalid(
                f'Invalid value for field "cluster.name": "{name}". Must be a match of regex "[a-z]([-a-z0-9]*[a-z0-9])?".'
            )
        path = f"{parent}/clusters/{name}"
        if self._yard.clusters.get(parent, name) is not None:
            raise already_exists(path)
        cluster = self._prepared(parent, name, asked)
        pools = [self._pools.prepared(cluster, pool) for pool in self._first_pools(asked)]
        for pool in pools:
            self._pools.reserve(pool)
        self._yard.clusters.put(cluster)
        for pool in pools:
            self._yard.put(pool)
        seconds = self._yard.settings.seconds("createCluster")
        return self._jobs.begin("CREATE_CLUSTER", path, "", step="machines", seconds=seconds, facts=self._yard.facts(path))

    def adopt(self, project: str, location: str, name: str) -> Obj:
        """A cluster without pools that has been there all along; one that is there already is left alone."""
        parent = location_path({"project": project, "location": location})
        found = self._yard.clusters.get(parent, name)
        if found is None:
            found = self._prepared(parent, name, {"name": name})
            found.body["status"] = "RUNNING"
            self._yard.clusters.put(found)
        return self._read(found)

    def _first_pools(self, asked: Obj) -> list[Obj]:
        """The pools that come with a cluster: those it names, else one of the given or the usual size."""
        if (asked.get("autopilot") or {}).get("enabled"):
            return [dict(_AUTOPILOT_POOL)]
        if pools := asked.get("nodePools"):
            if asked.get("nodeConfig") or asked.get("initialNodeCount"):
                raise invalid(
                    "Cluster.initial_node_count must be zero and Cluster.node_config unset when node pools are specified."
                )
            return list(pools)
        count = asked.get("initialNodeCount") or 0
        if not count:
            raise invalid("Cluster.initial_node_count must be greater than zero.")
        return [
            {
                "name": "default-pool",
                "initialNodeCount": count,
                **({"config": asked["nodeConfig"]} if asked.get("nodeConfig") else {}),
            }
        ]

    def _prepared(self, parent: str, name: str, asked: Obj) -> Document:
        location, path = location_of(parent), f"{parent}/clusters/{name}"
        project = parent.split("/")[1]
        body = {key: value for key, value in asked.items() if key not in _OUTPUTS}
        network, subnetwork = _short(asked.get("network") or "default"), _short(asked.get("subnetwork") or "default")
        version = meant_version(asked.get("initialClusterVersion") or "")
        zones = _checked_zones(asked.get("locations") or zones_of(location), location)
        body |= {
            "name": name,
            "network": network,
            "subnetwork": subnetwork,
            "location": location,
            "zone": location,
            "locations": zones,
            "selfLink": f"{_LINK}{path}",
            "status": "PROVISIONING",
            "createTime": clock.timestamp(),
            "initialClusterVersion": version,
            "currentMasterVersion": version,
            "currentNodeVersion": version,
            "endpoint": self.address,
            "id": clock.uid().replace("-", "") * 2,
            "labelFingerprint": f"{clock.randomness().getrandbits(32):08x}",
            "masterAuth": {
                **(asked.get("masterAuth") or {}),
                "clusterCaCertificate": base64.b64encode(self.authority.encode()).decode(),
            },
        }
        body.setdefault("releaseChannel", {})
        body.setdefault("legacyAbac", {})
        body["networkConfig"] = {
            **(asked.get("networkConfig") or {}),
            "network": f"projects/{project}/global/networks/{network}",
            "subnetwork": f"projects/{project}/regions/{region_of(location)}/subnetworks/{subnetwork}",
        }
        body["ipAllocationPolicy"] = {"stackType": "IPV4", **(asked.get("ipAllocationPolicy") or {}), "useIpAliases": True}
        first = not any(each.inner.get("kubernetes") for each in self._yard.clusters.all())
        return Document(parent, name, body, {"kubernetes": first})

    def delete(self, call: Call) -> Obj:
        """The end of a cluster and of all its pools."""
        path = cluster_path(call.params)
        cluster = self._yard.cluster(path)
        self._jobs.check(path, "")
        for pool in list(self._yard.pools.all(path)):
            for repair in self._jobs.hidden(path, pool.name):
                self._jobs.finish(repair)
            pool.body["status"] = "STOPPING"
            self._yard.put(pool)
        cluster.body["status"] = "STOPPING"
        self._yard.clusters.put(cluster)
        seconds = self._yard.settings.seconds("deleteCluster")
        return self._jobs.begin("DELETE_CLUSTER", path, "", step="drain", seconds=0.0, facts=self._yard.facts(path), rest=seconds)

    def update(self, call: Call) -> Obj:
        """What a cluster reads from now on: `desiredX` becomes `x`."""
        path, asked = cluster_path(call.params), dict(call.body.get("update") or {})
        cluster = self._yard.cluster(path)
        pools: Obj = {}
        if (scaling := asked.pop("desiredNodePoolAutoscaling", None)) is not None:
            pool = self._yard.pool(path, asked.pop("desiredNodePoolId", "") or "default-pool")
            pools[pool.name] = {"autoscaling": scaling}
        if (version := asked.pop("desiredNodeVersion", None)) is not None:
            names = (
                [asked.pop("desiredNodePoolId")]
                if asked.get("desiredNodePoolId")
                else [each.name for each in self._yard.pools.all(path)]
            )
            for name in names:
                pools.setdefault(self._yard.pool(path, name).name, {})["version"] = meant_version(version)
        messages = schema.load(call.service, call.version).messages
        return self._change(path, "UPDATE_CLUSTER", wanted(cluster.body, asked, messages), pools)

    def set_part(self, part: Part) -> Callable[[Call], Obj]:
        """What answers a call that sets one part of a cluster."""

        def answer(call: Call) -> Obj:
            path, value = cluster_path(call.params), call.body.get(part.key, part.empty)
            cluster = self._yard.cluster(path)
            change: Obj = {part.field: {"enabled": value} if part.field == "legacyAbac" else value}
            if part.field == "locations":
                change = {"locations": _checked_zones(value or zones_of(cluster.body["location"]), cluster.body["location"])}
            elif part.field == "resourceLabels":
                change["labelFingerprint"] = f"{clock.randomness().getrandbits(32):08x}"
            return self._change(path, part.kind, change)

        return answer

    def _change(self, path: str, kind: str, change: Obj, pools: Obj | None = None) -> Obj:
        self._yard.cluster(path)
        self._jobs.check(path, "")
        cluster = self._yard.cluster(path)
        cluster.body["status"] = "RECONCILING"
        self._yard.clusters.put(cluster)
        seconds = self._yard.settings.seconds("updateCluster")
        facts = self._yard.facts(path)
        return self._jobs.begin(kind, path, "", step="change", seconds=seconds, facts=facts, change=change, pools=pools or {})

    def server_config(self, call: Call) -> Obj:
        """Which versions there are."""
        location_path(call.params)
        versions = [VERSION, *OLDER]
        return {
            "defaultClusterVersion": VERSION,
            "defaultImageType": "COS_CONTAINERD",
            "validImageTypes": ["COS_CONTAINERD", "UBUNTU_CONTAINERD"],
            "validMasterVersions": versions,
            "validNodeVersions": versions,
            "channels": [
                {"channel": channel, "defaultVersion": VERSION, "validVersions": versions}
                for channel in ("RAPID", "REGULAR", "STABLE")
            ],
        }

    def _read(self, cluster: Document) -> Obj:
        """A cluster as it reads: with its pools, and what follows from them."""
        pools = list(self._yard.pools.all(f"{cluster.parent}/clusters/{cluster.name}"))
        body = dict(cluster.body)
        if pools:
            body["nodePools"] = [pool.body for pool in pools]
            body["instanceGroupUrls"] = [url for pool in pools for url in pool.body.get("instanceGroupUrls") or ()]
            body["currentNodeCount"] = sum(len(places(pool)) for pool in pools)
        return body


def _checked_zones(zones: Iterable[str], location: str) -> list[str]:
    """The zones that are asked for, which must be those of the location's region."""
    region = region_of(location)
    for zone in zones:
        if not is_zone(zone) or region_of(zone) != region:
            raise invalid(f'Location "{zone}" is not a zone of region "{region}".')
    return list(dict.fromkeys(zones))


def _short(name: str) -> str:
    return name.rpartition("/")[2]
