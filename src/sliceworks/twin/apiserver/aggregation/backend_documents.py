"""Discovery and OpenAPI documents of the server behind an APIService, reduced to its group version."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from sliceworks.base import budget
from sliceworks.twin.apiserver.aggregation.backend import AGGREGATOR, InvalidBundle, Unavailable
from sliceworks.twin.apiserver.auth.authentication import User
from sliceworks.twin.apiserver.openapi import v2
from sliceworks.twin.apiserver.service_endpoints import NoEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.apiserver.aggregation.backend import Backend

log = logging.getLogger(__name__)
Obj = dict[str, Any]
T = TypeVar("T")
_SECONDS = 5.0
_OPENAPI_SECONDS = 60.0
_MAX_DEPTH = 64
_ACCEPT_DISCOVERY = ",".join(f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1"))
_OPENAPI_USER = User("system:aggregator")
_INVALID = (ValueError, KeyError, TypeError, AttributeError)
"""What reading a document with other types than expected raises."""
_EMPTY: Obj = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.35"}}
_NO_KIND = {"group": "", "version": "", "kind": ""}
_NO_NAMES = {"singularResource": "", "verbs": None}
_REFERENCE = "#/definitions/"


@dataclass(slots=True)
class Documents:
    """What is known of a remote API. `resources` is None if its discovery document could not be read."""

    resources: list[Obj] | None = None
    openapi_paths: dict[str, Obj] = field(default_factory=dict)
    """The entries of its OpenAPI v3 index."""
    definitions: dict[str, Obj] = field(default_factory=dict)
    """The OpenAPI v2 definitions of its kinds."""
    has_v3: bool = False

    @property
    def is_legacy(self) -> bool:
        """Whether only the OpenAPI v2 document can be read."""
        return bool(self.definitions) and not self.has_v3


async def _read(body: bytes, function: Callable[[bytes], T]) -> T:
    """What a function reads in a document: in a thread, if it is large. Raises Unavailable for an invalid one."""
    try:
        return await budget.run_by_size(len(body), partial(function, body))
    except _INVALID as error:
        raise Unavailable("the document is not valid") from error
    except budget.BudgetExceeded as error:
        raise Unavailable(f"reading the document exceeds the {error.resource} budget") from error


async def download_resources(backend: Backend, group: str, version: str) -> list[Obj]:
    """The resources that the discovery document of a group version lists. Raises what the backend raises."""
    document = await backend.get("/apis", AGGREGATOR, {"Accept": _ACCEPT_DISCOVERY}, _SECONDS)
    if document.status == 200 and "as=APIGroupDiscoveryList" in document.headers.get("Content-Type", ""):
        return await _read(document.body, partial(_aggregated_resources, group, version))
    if document.status == 503:
        raise Unavailable("503")
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    document = await backend.get(path, AGGREGATOR, {"Accept": "application/json"}, _SECONDS)
    if document.status != 200:
        raise Unavailable(str(document.status))
    return await _read(document.body, _legacy_resources)


def _aggregated_resources(group: str, version: str, body: bytes) -> list[Obj]:
    groups = orjson.loads(body)["items"]
    versions = [item for entry in groups if entry["metadata"].get("name") == group for item in entry["versions"]]
    resources = next((item.get("resources") or [] for item in versions if item["version"] == version), [])
    return [_with_kinds(item) for item in resources]


def _with_kinds(item: Obj) -> Obj:
    """A resource whose kind, and those of its subresources, is not missing."""
    subresources = [{**part, "responseKind": part.get("responseKind") or _NO_KIND} for part in item.get("subresources") or ()]
    rest = {"subresources": subresources} if subresources else {}
    return {**item, "responseKind": item.get("responseKind") or _NO_KIND, **rest}


def _legacy_resources(body: bytes) -> list[Obj]:
    """The resources of an APIResourceList, in the form of aggregated discovery."""
    resources: dict[str, Obj] = {}
    for item in orjson.loads(body)["resources"]:
        name, _, part = item["name"].partition("/")
        scope = "Namespaced" if item["namespaced"] else "Cluster"
        parent = resources.setdefault(name, {"resource": name, "responseKind": _NO_KIND, "scope": scope, **_NO_NAMES})
        kind = {**_NO_KIND, **{key: item[key] for key in _NO_KIND if item.get(key)}}
        if part:
            parent.setdefault("subresources", []).append({"subresource": part, "responseKind": kind, "verbs": list(item["verbs"])})
        else:
            parent |= {"responseKind": kind, "singularResource": item.get("singularName") or "", "verbs": list(item["verbs"])}
            parent |= {key: item[key] for key in ("shortNames", "categories") if item.get(key)}
    return list(resources.values())


async def download_openapi(backend: Backend, group: str, version: str) -> Documents:
    """The OpenAPI documents of a group version, as far as its server has them."""
    result = Documents()
    try:
        index = await backend.get("/openapi/v3", _OPENAPI_USER, {"Accept": "application/json"}, _OPENAPI_SECONDS)
        if index.status == 200:
            result.openapi_paths, result.has_v3 = await _read(index.body, _indexed_paths), True
        legacy = await backend.get("/openapi/v2", _OPENAPI_USER, {"Accept": "application/json"}, _OPENAPI_SECONDS)
        if legacy.status == 200:
            result.definitions = await _read(legacy.body, partial(_own_definitions, group, version))
    except (TimeoutError, NoEndpoint, InvalidBundle, Unavailable) as error:
        log.debug("%s/%s: no OpenAPI document: %s", group, version, error)
    return result


def _indexed_paths(body: bytes) -> dict[str, Obj]:
    paths = orjson.loads(body).get("paths")
    entries = paths.items() if isinstance(paths, dict) else ()
    return {path: entry for path, entry in entries if isinstance(entry, dict)}


def _own_definitions(group: str, version: str, body: bytes) -> dict[str, Obj]:
    """The definitions that the paths and kinds of a group version refer to."""
    document = orjson.loads(body)
    if not isinstance(document, dict) or not isinstance(definitions := document.get("definitions"), dict):
        return {}
    prefix = f"/apis/{group}/{version}/"
    paths = document.get("paths")
    waiting = {name for path, item in (paths or {}).items() if path.startswith(prefix) for name in _references(item, 0)}
    waiting |= {name for name, node in definitions.items() if _is_kind(node, group, version)}
    kept: dict[str, Obj] = {}
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in kept:
            kept[name] = definitions[name]
            waiting |= set(_references(definitions[name], 0))
    v2.encode({**_EMPTY, "definitions": kept})  # raises an error if they could not be merged
    return kept


def _is_kind(node: Any, group: str, version: str) -> bool:
    kinds = node.get("x-kubernetes-group-version-kind") if isinstance(node, dict) else None
    return any(isinstance(kind, dict) and (kind.get("group"), kind.get("version")) == (group, version) for kind in kinds or ())


def _references(node: Any, depth: int) -> Iterable[str]:
    if depth > _MAX_DEPTH:
        raise ValueError("the document is nested too deeply")
    if isinstance(node, dict):
        if isinstance(reference := node.get("$ref"), str) and reference.startswith(_REFERENCE):
            yield reference.removeprefix(_REFERENCE)
        for child in node.values():
            yield from _references(child, depth + 1)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child, depth + 1)
