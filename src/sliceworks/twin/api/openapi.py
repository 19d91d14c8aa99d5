"""OpenAPI documents of what is served: v3 with its index and one document for each group and version, and the definitions of v2."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from sliceworks.schemas import builtins, openapi, openapi_v2
from sliceworks.twin.api import media

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.api.customs import Customs
    from sliceworks.twin.api.pages import Page


class OpenApi:
    """Made when first asked for; custom resources again when one of theirs changed."""

    def __init__(self, customs: Customs, pages: Mapping[str, Page]) -> None:
        self._customs, self._pages = customs, pages
        self._builtin: dict[str, str] = {}

    def index(self) -> bytes:
        paths = {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(path)}"} for path in self._paths()}
        return orjson.dumps({"paths": paths})

    def _paths(self) -> list[str]:
        catalogue = builtins.catalogue()
        paths = [
            "api/v1" if not group.name else f"apis/{group.name}/{version}"
            for group in catalogue.groups
            for version in group.versions
        ]
        pages = {(group, version) for group, page in self._pages.items() for one in page.resources for version in one.versions}
        return paths + [f"apis/{group}/{version}" for group, version in [*self._customs.group_versions(), *sorted(pages)]]

    def _hash(self, path: str) -> str:
        group, version = _split(path)
        changed = self._customs.fingerprint(group, version)
        return hashlib.sha256(f"{path} {changed}".encode()).hexdigest().upper()

    def document(self, path: str) -> bytes | None:
        """The document of `api/v1` or `apis/apps/v1`."""
        if path not in self._paths():
            return None
        group, version = _split(path)
        if group in self._pages:
            return self._pages[group].document(version)
        customs = self._customs.definitions(group, version)
        if customs:
            return openapi.custom_document(group, version, customs)
        return openapi.builtin_document(group, version)

    def legacy(self, accept: str) -> tuple[str, bytes]:
        """OpenAPI v2 in the form that the client prefers, with its media type. Few ask for it, and seldom: nothing is kept."""
        served = self._customs.group_versions()
        found = {item["metadata"]["name"]: item for place in served for item in self._customs.definitions(*place)}
        document = openapi_v2.document(found.values())
        if openapi_v2.MEDIA in accept or openapi_v2.ASKED in accept:
            return openapi_v2.MEDIA, openapi_v2.encoded(document)
        return media.JSON, orjson.dumps(document)

    def etag(self, path: str) -> str:
        return f'"{self._hash(path)}"'


def _split(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
