"""Groups that are no stored resources: another server would answer for them, and the API server only passes requests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.api.paths import Target
    from sliceworks.twin.api.resources import Resource


class Page(NamedTuple):
    """What answers the paths of a group, what discovery says of it, and its OpenAPI document for a version."""

    answer: Callable[[Target, Mapping[str, list[str]]], dict[str, Any]]
    resources: tuple[Resource, ...]
    document: Callable[[str], bytes]
