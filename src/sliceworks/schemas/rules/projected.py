"""Projected volumes: several sources in one folder, whose files must not clash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import forbidden, invalid, required
from sliceworks.schemas.rules.downward import file_errors
from sliceworks.schemas.rules.selectors import selector_errors
from sliceworks.schemas.rules.texts import Errors, file_mode, local_path

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_SOURCES = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_CLASH = "conflicting duplicate paths"


def key_to_path_errors(out: Errors, item: Json, path: str) -> None:
    if not item.get("key"):
        out.append(required(f"{path}.key"))
    if not item.get("path"):
        out.append(required(f"{path}.path"))
    local_path(out, item.get("path") or "", f"{path}.path")
    file_mode(out, item.get("mode"), f"{path}.mode")


def projected_errors(out: Errors, volume: Json, path: str) -> None:
    file_mode(out, volume.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        place = f"{path}.sources[{index}]"
        for field in ("secret", "configMap"):
            if (found := source.get(field)) is not None:
                _keyed(out, found, f"{place}.{field}", path, taken)
        if (found := source.get("downwardAPI")) is not None:
            for item in found.get("items") or ():
                file_errors(out, item, f"{place}.downwardAPI")
                _take(out, item.get("path"), taken, path, item.get("path"))
        if (found := source.get("serviceAccountToken")) is not None:
            _token(out, found, f"{place}.serviceAccountToken", path)
        if (found := source.get("clusterTrustBundle")) is not None:
            _bundle(out, found, f"{place}.clusterTrustBundle", path, taken)
        if sum(source.get(field) is not None for field in _SOURCES) > 1:
            out.append(forbidden(place, "may not specify more than 1 volume type per source"))


def _keyed(out: Errors, source: Json, path: str, volume: str, taken: set[str]) -> None:
    if not source.get("name"):
        out.append(required(f"{path}.name"))
    for index, item in enumerate(source.get("items") or ()):
        key_to_path_errors(out, item, f"{path}.items[{index}]")
        _take(out, item.get("path"), taken, volume, source.get("name") or "")


def _take(out: Errors, found: str | None, taken: set[str], path: str, shown: str | None) -> None:
    if found:
        if found in taken:
            out.append(invalid(path, shown, _CLASH))
        taken.add(found)


def _token(out: Errors, source: Json, path: str, volume: str) -> None:
    seconds = source.get("expirationSeconds") or 0
    if seconds < 600:
        out.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        out.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    if not source.get("path"):
        out.append(required(f"{volume}.path"))
    else:
        local_path(out, source["path"], f"{volume}.path")


def _bundle(out: Errors, source: Json, path: str, volume: str, taken: set[str]) -> None:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        out.append(invalid(path, source, "only one of name and signerName may be used"))
    elif name is None and signer is None:
        out.append(required(path, "either name or signerName must be specified"))
    elif name is not None and source.get("labelSelector") is not None:
        out.append(invalid(f"{path}.labelSelector", source["labelSelector"], "labelSelector must be unset if name is specified"))
    else:
        selector_errors(out, source.get("labelSelector"), f"{path}.labelSelector")
    if not source.get("path"):
        out.append(required(f"{path}.path"))
    local_path(out, source.get("path") or "", f"{path}.path")
    _take(out, source.get("path"), taken, volume, source.get("path"))
