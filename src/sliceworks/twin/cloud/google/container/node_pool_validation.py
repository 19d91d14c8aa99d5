"""The rules that a node pool must follow when it is created or changed; all of them are in the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core.exceptions import enforce
from sliceworks.twin.cloud.google.container.node_template import is_spot, max_pods, reservation_names, resolve_shape

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]
_UNSPECIFIED = "UNSPECIFIED"


def release_channel(cluster: Obj) -> str:
    """The release channel of a cluster; empty for none."""
    channel = (cluster.get("releaseChannel") or {}).get("channel") or ""
    return "" if channel == _UNSPECIFIED else channel


def has_private_nodes(cluster: Obj, pool: Obj) -> bool:
    """Whether the nodes of a pool have no public addresses: as the pool says, else as its cluster says."""
    own = (pool.get("networkConfig") or {}).get("enablePrivateNodes")
    return bool((cluster.get("privateClusterConfig") or {}).get("enablePrivateNodes") if own is None else own)


def validate_node_pool(cluster: Obj, pool: Obj, is_offered: Callable[[str, str], bool]) -> None:
    """Raise GoogleError for the first rule that a new or changed node pool breaks.

    `is_offered` says whether a zone offers a machine type that the catalog does not know there.
    """
    config, name = pool.get("config") or {}, pool["name"]
    shape = resolve_shape(pool)
    reserved = bool(reservation_names(config))
    affinity = (config.get("reservationAffinity") or {}).get("consumeReservationType") or ""
    flex_start = bool(config.get("flexStart"))
    scales = bool((pool.get("autoscaling") or {}).get("enabled"))
    queued = bool((pool.get("queuedProvisioning") or {}).get("enabled"))
    streams = bool((config.get("gcfsConfig") or {}).get("enabled"))
    enforce(
        gke_rules.check_node_count(initial_size(pool)),
        gke_rules.check_max_pods(max_pods(pool)),
        gke_rules.check_node_labels(config.get("labels") or ()),
        gke_rules.check_spot_reservation(name, spot=is_spot(config), reserved=reserved),
        gke_rules.check_flex_start(flex_start=flex_start, autoscaling=scales, initial_nodes=initial_size(pool), reserved=reserved),
        gke_rules.check_queued_provisioning(enabled=queued, affinity=affinity),
        gke_rules.check_secondary_boot_disk(name, has_disk=bool(config.get("secondaryBootDisks")), image_streaming=streams),
    )
    # The default machine type is accepted in every zone, although us-central2-b does not offer it.
    for zone in pool["locations"] if config.get("machineType") else ():
        if not is_offered(zone, shape.machine.name):
            enforce(gke_rules.check_machine_zone(shape.machine.name, zone, shape.slice or shape.gpu))
    if shape.slice is not None:
        enforce(gke_rules.check_slice(shape.slice))
        if shape.slice_hosts:
            enforce(gke_rules.check_slice_zones(name, len(pool["locations"])))
    _validate_networks(cluster, pool)
    _validate_management(cluster, pool)
    validate_autoscaling(pool)


def _validate_networks(cluster: Obj, pool: Obj) -> None:
    additional = (pool.get("networkConfig") or {}).get("additionalNodeNetworkConfigs")
    if additional and not (cluster.get("networkConfig") or {}).get("enableMultiNetworking"):
        enforce(gke_rules.violate("multi-networking", pool=pool["name"], cluster=cluster["name"]))


def _validate_management(cluster: Obj, pool: Obj) -> None:
    """Raise GoogleError for a node pool without auto-upgrade in a release channel; without `management` GKE enables it."""
    management = pool.get("management")
    if management is not None:
        upgrades = bool(management.get("autoUpgrade"))
        enforce(gke_rules.check_auto_upgrade(release_channel(cluster), auto_upgrade=upgrades))


def validate_autoscaling(pool: Obj) -> None:
    """Raise GoogleError for invalid limits of autoscaling."""
    scaling = pool.get("autoscaling") or {}
    if not scaling.get("enabled"):
        return
    minimum, maximum = int(scaling.get("minNodeCount") or 0), int(scaling.get("maxNodeCount") or 0)
    shape = resolve_shape(pool)
    if shape.slice_hosts and shape.slice is not None:
        enforce(gke_rules.check_slice_autoscaling(shape.slice, maximum))
    enforce(gke_rules.check_autoscaling(minimum, maximum, int(scaling.get("totalMaxNodeCount") or 0)))


def resolve_node_version(cluster: Obj, pool: Obj, alias: str) -> str:
    """The version of nodes that a request names; `-` is the control plane's. Raises GoogleError if GKE refuses it."""
    control_plane = cluster["currentMasterVersion"]
    version = control_plane if alias in ("", "-") else gke_rules.resolve_version(alias) or alias
    upgrades = bool((pool.get("management") or {}).get("autoUpgrade")) or bool(release_channel(cluster))
    enforce(gke_rules.check_node_version(version, control_plane, auto_upgrade=upgrades))
    return version


def initial_size(pool: Obj) -> int:
    """The initial number of nodes per zone."""
    return int(pool.get("initialNodeCount") or 0)
