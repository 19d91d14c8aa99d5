"""Every kind of resource and data source that the twin's cloud has, by Terraform's name for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.infra.standin.resources import clusters, compute, data, node_pools, projects, storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from sliceworks.infra.standin.kinds import Kind, Object

KINDS: dict[str, Kind] = {**clusters.KINDS, **compute.KINDS, **data.KINDS, **node_pools.KINDS, **projects.KINDS, **storage.KINDS}
DATA_SOURCES: dict[str, Callable[[Any, Any, Object], Awaitable[Object]]] = {
    **compute.DATA_SOURCES,
    **clusters.DATA_SOURCES,
    **projects.DATA_SOURCES,
}
