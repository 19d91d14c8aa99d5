"""Discovery and OpenAPI documents of the server behind an APIService, reduced to its group version."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.apiserver.aggregation.backend import Unavailable
from sliceworks.twin.apiserver.auth.authentication import MASTERS, User
from sliceworks.twin.apiserver.openapi import v2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.apiserver.aggregation.backend import Backend

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_SECONDS = 5.0
_OPENAPI_SECONDS = 60.0
_MAX_DEPTH = 64
_ACCEPT_DISCOVERY = ",".join(f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1"))
_AGGREGATOR = User("system:kube-aggregator", groups=(MASTERS,))
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


async def download(backend: Backend, group: str, version: str) -> Documents:
    """The documents of a group version. Raises what the backend raises, if it has no discovery document."""
    result = Documents(await _resources(backend, group, version))
    try:
        await _add_openapi(result, backend, group, version)
    except (TimeoutError, Unavailable, *_INVALID) as error:
        log.debug("%s/%s: no OpenAPI document: %s", group, version, error)
    return result


async def _resources(backend: Backend, group: str, version: str) -> list[Obj]:
    document = await backend.get("/apis", _AGGREGATOR, {"Accept": _ACCEPT_DISCOVERY}, _SECONDS)
    media = document.headers.get("Content-Type", "")
    try:
        if document.status == 200 and "as=APIGroupDiscoveryList" in media:
            groups = orjson.loads(document.body)["items"]
            listed = [item for entry in groups if entry["metadata"].get("name") == group for item in entry["versions"]]
            return [
                _described(item)
                for item in next((item.get("resources") or [] for item in listed if item["version"] == version), [])
            ]
        if document.status == 503:
            raise Unavailable("503")
        return await _legacy_resources(backend, group, version)
    except _INVALID as error:
        raise Unavailable("the discovery document is not valid") from error


def _described(item: Obj) -> Obj:
    subresources = [{**part, "responseKind": part.get("responseKind") or _NO_KIND} for part in item.get("subresources") or ()]
    rest = {"subresources": subresources} if subresources else {}
    return {**item, "responseKind": item.get("responseKind") or _NO_KIND, **rest}


async def _legacy_resources(backend: Backend, group: str, version: str) -> list[Obj]:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    document = await backend.get(path, _AGGREGATOR, {"Accept": "application/json"}, _SECONDS)
    if document.status != 200:
        raise Unavailable(str(document.status))
    resources: dict[str, Obj] = {}
    for item in orjson.loads(document.body)["resources"]:
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


async def _add_openapi(result: Documents, backend: Backend, group: str, version: str) -> None:
    index = await backend.get("/openapi/v3", _OPENAPI_USER, {"Accept": "application/json"}, _OPENAPI_SECONDS)
    if index.status == 200:
        paths = orjson.loads(index.body).get("paths")
        entries = paths.items() if isinstance(paths, dict) else ()
        result.has_v3, result.openapi_paths = True, {path: entry for path, entry in entries if isinstance(entry, dict)}
    legacy = await backend.get("/openapi/v2", _OPENAPI_USER, {"Accept": "application/json"}, _OPENAPI_SECONDS)
    if legacy.status == 200:
        document = orjson.loads(legacy.body)
        definitions = _own_definitions(document, group, version)
        v2.encode({**_EMPTY, "definitions": definitions})
        result.definitions = definitions


def _own_definitions(document: Any, group: str, version: str) -> dict[str, Obj]:
    """The definitions that the paths and kinds of a group version refer to."""
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
