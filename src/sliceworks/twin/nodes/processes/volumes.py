"""Volumes as folders: below the pod's own, or shared where it is a claim. Without mounts, paths in texts are replaced by them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.twin.nodes.processes import payload
from sliceworks.twin.nodes.processes.sources import Missing, NotMounted, amount_of, field_of

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.twin.nodes.processes.sources import Sources

Obj = dict[str, Any]
_FROM_ELSEWHERE = ("configMap", "secret", "downwardAPI", "projected")
_TOKEN = "kube-api-access-"
_NO_PATH = r"(?![\w.-])"


def materialise(folder: Path, sources: Sources, addresses: tuple[str, str], *, replaced: bool = False) -> dict[str, Path]:
    """Make the folders of a pod's volumes, and fill those that come from somewhere.

    With `replaced` mount paths that stand in config maps become folders, for processes that do not find them where they say.
    """
    spec = sources.pod["spec"]
    places = {volume["name"]: _place(folder, volume, sources) for volume in spec.get("volumes") or ()}
    mounts = (
        _sorted({path: place for each in _containers(spec) for path, place in mapping(each, places).items()}) if replaced else {}
    )
    for volume in spec.get("volumes") or ():
        place = places[volume["name"]]
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if source := next((volume[kind] for kind in _FROM_ELSEWHERE if kind in volume), None):
            mode = 0o700 if (source.get("defaultMode") or 0) & 0o100 else 0o600
            payload.write(place, _content(volume, sources, addresses, mounts), mode)
    return places


def _containers(spec: Obj) -> list[Obj]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


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
    return _sorted(found)


def _sorted(mounts: dict[str, str]) -> dict[str, str]:
    return dict(sorted(mounts.items(), key=lambda item: -len(item[0])))


def mounted(spec: Obj) -> bool:
    """Whether a pod mounts anything but the token that every pod has."""
    names = (mount["name"] for each in _containers(spec) for mount in each.get("volumeMounts") or ())
    return any(not name.startswith(_TOKEN) for name in names)


def mapped(text: str, mounts: dict[str, str]) -> str:
    """A text with the mount paths in it replaced by folders, all at once: a folder may lie where another is mounted."""
    if not any(path in text for path in mounts):
        return text
    paths = "|".join(map(re.escape, mounts))
    return re.sub(rf"(?<![\w./-])({paths}){_NO_PATH}", lambda found: mounts[found[1]], text)


def _content(volume: Obj, sources: Sources, addresses: tuple[str, str], mounts: dict[str, str]) -> dict[str, bytes]:
    try:
        return _files(volume, sources, addresses, mounts)
    except Missing as missing:
        raise NotMounted(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {missing}') from missing


def _files(volume: Obj, sources: Sources, addresses: tuple[str, str], mounts: dict[str, str]) -> dict[str, bytes]:
    if source := volume.get("configMap"):
        return {path: _text(data, mounts) for path, data in _chosen(sources.keys("configmap", source), source).items()}
    if source := volume.get("secret"):
        return _chosen(sources.keys("secret", source), source)
    if source := volume.get("downwardAPI"):
        return _fields(source, sources, addresses)
    if source := volume.get("serviceAccountToken"):
        return {source["path"]: sources.token.encode()} if sources.token and not source.get("audience") else {}
    found: dict[str, bytes] = {}
    for each in (volume.get("projected") or {}).get("sources") or ():
        found |= _files(each, sources, addresses, mounts)
    return found


def _text(data: bytes, mounts: dict[str, str]) -> bytes:
    try:
        return mapped(data.decode(), mounts).encode() if mounts else data
    except UnicodeDecodeError:
        return data


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
