"""Slices that the cloud has been asked for and that have no nodes yet, or never will: from its node pools. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.console.views.hosts import Host, HostState
from sliceworks.console.views.slices import SliceView
from sliceworks.controllers.slices import bodies, shapes

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from sliceworks.catalog import Accelerator
    from sliceworks.controllers.slices.views import Pool

Object = dict[str, Any]
_STATES = {
    "PROVISIONING": HostState.BOOTING,
    "STOPPING": HostState.DRAINING,
    "ERROR": HostState.FAILED,
    "RUNNING_WITH_ERROR": HostState.FAILED,
}
_SAID = {HostState.BOOTING: "the cloud makes its machine", HostState.DRAINING: "the cloud takes its machine back"}


def coming(pools: Iterable[Object], known: Container[str], teams: Mapping[str, str]) -> list[SliceView]:
    """The slices of pools of which the cluster has no node; `known` are those of which it has some."""
    found = []
    for raw in pools:
        pool = bodies.read_pool(raw)
        shape = shapes.shape_of_pool(raw, pool) if pool.name not in known and pool.status in _STATES else None
        if isinstance(shape, catalog.Slice | catalog.GpuShape):
            found.append(_view(pool, shape, teams))
    return found


def _view(pool: Pool, shape: Accelerator, teams: Mapping[str, str]) -> SliceView:
    state = _STATES[pool.status]
    said = f"{pool.fault.code}: {pool.fault.message}" if pool.fault else _SAID.get(state, "")
    owner = str(pool.jobset) if pool.ours else ""
    place = pool.jobset.namespace if pool.ours else ""
    return SliceView(
        name=pool.name,
        pool=pool.name,
        shape=shape,
        type_name=shape.type_name,
        topology=shape.topology,
        chips=shape.chips,
        hosts=tuple(Host(number, "", state, message=said, zone=pool.zone) for number in range(shape.hosts)),
        owner=owner,
        team=teams.get(place, place),
        zone=pool.zone,
        capacity="spot" if pool.spot else "on-demand",
        machine=pool.machine,
    )
