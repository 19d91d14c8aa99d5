"""Every kind of resource and data source that the twin's cloud has, by Terraform's name for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.infra.standin.resources import compute, storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from sliceworks.infra.standin.kinds import Kind, Object

KINDS: dict[str, Kind] = {**compute.KINDS, **storage.KINDS}
DATA_SOURCES: dict[str, Callable[[Any, Any, Object], Awaitable[Object]]] = {}
