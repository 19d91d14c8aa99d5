"""Volumes as folders: below the pod's own, or shared where it is a claim. Mount paths in texts are replaced by them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.twin.nodes.processes.sources import amount_of, field_of

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.twin.nodes.processes.sources import Sources

Obj = dict[str, Any]
_NO_PATH = r"(?![\w.-])"


def materialise(folder: Path, sources: Sources, addresses: tuple[str, str]) -> dict[str, Path]:
    """Make the folders of a pod's volumes, and fill those that come from somewhere."""
    made: dict[str, Path] = {}
    for volume in sources.pod["spec"].get("volumes") or ():
        place = made[volume["name"]] = _place(folder, volume, sources)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, data in _files(volume, sources, addresses).items():
            _put(place, path, data)
    return made


def _place(folder: Path, volume: Obj, sources: Sources) -> Path:
    """A claim is one folder for all pods of its namespace that name it, and outlives them; all else is the pod's own."""
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        return folder.parents[1] / "claims" / str(sources.pod["metadata"]["namespace"]) / str(claim)
    return folder / str(volume["name"])


def mapping(container: Obj, folders: dict[str, Path]) -> dict[str, str]:
    """Which mount path is which folder, the longest paths first."""
    mounts = container.get("volumeMounts") or ()
    found = {
        mount["mountPath"].rstrip("/"): str(folders[mount["name"]] / (mount.get("subPath") or ""))
        for mount in mounts
        if mount["name"] in folders and mount["mountPath"].rstrip("/")
    }
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def mapped(text: str, mounts: dict[str, str]) -> str:
    """A text with the mount paths in it replaced by folders, all at once: a folder may lie where another is mounted."""
    if not any(path in text for path in mounts):
        return text
    paths = "|".join(map(re.escape, mounts))
    return re.sub(rf"(?<![\w./-])({paths}){_NO_PATH}", lambda found: mounts[found[1]], text)


def _files(volume: Obj, sources: Sources, addresses: tuple[str, str]) -> dict[str, bytes]:
    if source := volume.get("configMap"):
        return _chosen(sources.keys("configmap", source), source)
    if source := volume.get("secret"):
        return _chosen(sources.keys("secret", source), source)
    if source := volume.get("downwardAPI"):
        return _fields(source, sources, addresses)
    found: dict[str, bytes] = {}
    for each in (volume.get("projected") or {}).get("sources") or ():
        found |= _files(each, sources, addresses)
    return found


def _chosen(data: dict[str, bytes], source: Obj) -> dict[str, bytes]:
    items = source.get("items")
    if not items:
        return data
    return {item["path"]: data[item["key"]] for item in items if item["key"] in data}


def _fields(source: Obj, sources: Sources, addresses: tuple[str, str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            found[item["path"]] = field_of(sources.pod, reference["fieldPath"], addresses).encode()
        elif reference := item.get("resourceFieldRef"):
            found[item["path"]] = amount_of(sources.pod, {}, reference).encode()
    return found


def _put(place: Path, path: str, data: bytes) -> None:
    target = (place / path).resolve()
    if not target.is_relative_to(place.resolve()):
        return  # the API refuses such paths; nothing is written outside all the same
    if target.is_file() and target.read_bytes() == data:
        return  # what has not changed is not touched: programs look at times
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    target.write_bytes(data)
