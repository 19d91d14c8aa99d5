"""OpenAPI v2 and v3 documents of everything served: built-in kinds, custom resources and aggregated APIs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.openapi import descriptions, v2, v3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.aggregation.api_services import ApiServices
    from sliceworks.twin.apiserver.registry.crd_registry import CrdRegistry
    from sliceworks.twin.apiserver.registry.resources import AggregatedApi


class OpenApi:
    """Builds documents on first request, and those of custom resources again when a CustomResourceDefinition changes."""

    def __init__(self, customs: CrdRegistry, pages: Mapping[str, AggregatedApi], api_services: ApiServices) -> None:
        self._customs, self._pages, self._api_services = customs, pages, api_services
        self._builtin: dict[str, str] = {}

    def index(self) -> bytes:
        paths = {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(path)}"} for path in self._paths()}
        for remote in self._api_services.remotes.values():
            paths |= remote.documents.openapi_paths
        return orjson.dumps({"paths": paths})

    def _paths(self) -> list[str]:
        paths = [
            f"apis/{group}/{version}" if group else f"api/{version}"
            for group, versions in self._customs.builtin_group_versions().items()
            for version in versions
        ]
        pages = {
            (group, version) for group, page in self._pages.items() for resource in page.resources for version in resource.versions
        }
        legacy = [(remote.group, remote.version) for remote in self._api_services.remotes.values() if remote.documents.is_legacy]
        return paths + [f"apis/{group}/{version}" for group, version in [*self._customs.group_versions(), *sorted(pages), *legacy]]

    def _hash(self, path: str) -> str:
        group, version = _split(path)
        remote = self._api_services.find(f"/{path}")
        changed = self._customs.fingerprint(group, version) if remote is None else remote.fingerprint
        return hashlib.sha256(f"{path} {changed} {descriptions.version()}".encode()).hexdigest().upper()

    def document(self, path: str) -> bytes | None:
        """The document of `api/v1` or `apis/apps/v1`."""
        if path not in self._paths():
            return None
        group, version = _split(path)
        if remote := self._api_services.find(f"/{path}"):
            return v3.converted_document(group, version, remote.documents.definitions)
        if group in self._pages:
            return self._pages[group].document(version)
        customs = self._customs.definitions(group, version)
        if customs:
            return v3.custom_document(group, version, customs)
        return v3.builtin_document(group, version)

    def legacy(self, accept: str) -> tuple[str, bytes]:
        """OpenAPI v2 in the encoding that the client prefers, with its media type. Not cached, since it is rarely requested."""
        served = self._customs.group_versions()
        definitions = {item["metadata"]["name"]: item for place in served for item in self._customs.definitions(*place)}
        document = v2.document(definitions.values())
        for remote in self._api_services.remotes.values():
            document["definitions"] = remote.documents.definitions | document["definitions"]
        if v2.MEDIA in accept or v2.ACCEPTED_MEDIA in accept:
            return v2.MEDIA, v2.encode(document)
        return codec.JSON, orjson.dumps(document)

    def etag(self, path: str) -> str:
        return f'"{self._hash(path)}"'


def _split(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
