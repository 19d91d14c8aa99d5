"""OpenAPI v3 documents of what is served: the index, and one document for each group and version."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas import builtins, openapi

if TYPE_CHECKING:
    from sliceworks.twin.api.customs import Customs

Obj = dict[str, Any]


class OpenApi:
    """Made when first asked for; custom resources again when one of theirs changed."""

    def __init__(self, customs: Customs) -> None:
        self._customs = customs
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
        return paths + [f"apis/{group}/{version}" for group, version in self._customs.group_versions()]

    def _hash(self, path: str) -> str:
        group, version = _split(path)
        changed = self._customs.fingerprint(group, version)
        return hashlib.sha256(f"{path} {changed}".encode()).hexdigest().upper()

    def document(self, path: str) -> bytes | None:
        """The document of `api/v1` or `apis/apps/v1`."""
        if path not in self._paths():
            return None
        group, version = _split(path)
        customs = self._customs.definitions(group, version)
        if customs:
            return openapi.custom_document(group, version, customs)
        return openapi.builtin_document(group, version)

    def etag(self, path: str) -> str:
        return f'"{self._hash(path)}"'


def _split(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
