"""Volumes of a pod as folders, with ConfigMaps and Secrets updated atomically."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from sliceworks.kube.pod_requests import all_containers
from sliceworks.twin.nodes.runtime.value_sources import read_field, read_resource_field

if TYPE_CHECKING:
    from sliceworks.twin.nodes.runtime.value_sources import Sources
_DATA_LINK = "..data"


def write_atomically(folder: Path, files: dict[str, bytes], mode: int) -> None:
    """Replace the files of a folder in one step, as the kubelet does; unchanged files keep their modification time."""
    content = {path: data for path, data in files.items() if ".." not in PurePath(path).parts and not path.startswith("/")}
    link = folder / _DATA_LINK
    old = folder / link.readlink() if link.is_symlink() else None
    if old is not None and _read(old) == content:
        return
    new = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    for path, data in content.items():
        _write(new / path, data, mode, None if old is None else old / path)
    _link(link, new.name)
    names = {PurePath(path).parts[0] for path in content}
    for name in names:
        _link(folder / name, f"{_DATA_LINK}/{name}")
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name != _DATA_LINK and entry.name not in names:
            entry.unlink()
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _read(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _write(target: Path, data: bytes, mode: int, before: Path | None) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if before is not None and before.is_file() and before.read_bytes() == data:
        os.link(before, target)
        return
    target.touch(mode=mode)
    target.write_bytes(data)


def _link(link: Path, target: str) -> None:
    """Set a symbolic link atomically."""
    if link.is_symlink() and str(link.readlink()) == target:
        return
    temporary = link.with_name("..link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


Obj = dict[str, Any]
_POPULATED_KINDS = ("configMap", "secret", "downwardAPI", "projected")
_TOKEN_PREFIX = "kube-api-access-"
_PATH_END = r"(?![\w.-])"


def populate_volumes(folder: Path, sources: Sources, addresses: tuple[str, str], *, replace_paths: bool = False) -> dict[str, Path]:
    """Create the folders of a pod's volumes and write ConfigMaps, Secrets and the downward API; returns folders by volume.

    `replace_paths` replaces mount paths in ConfigMaps by folders, for processes without mount namespaces.
    """
    spec = sources.pod["spec"]
    folders = {volume["name"]: _volume_folder(folder, volume, sources) for volume in spec.get("volumes") or ()}
    mounts: dict[str, str] = {}
    for container in all_containers(spec) if replace_paths else ():
        mounts |= mount_folders(container, folders)
    mounts = _longest_first(mounts)
    for volume in spec.get("volumes") or ():
        volume_folder = folders[volume["name"]]
        volume_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if source := next((volume[kind] for kind in _POPULATED_KINDS if kind in volume), None):
            mode = 0o700 if (source.get("defaultMode") or 0) & 0o100 else 0o600
            write_atomically(volume_folder, _files(volume, sources, addresses, mounts), mode)
    return folders


def _volume_folder(folder: Path, volume: Obj, sources: Sources) -> Path:
    """The folder of a volume; a claim has one folder in its namespace that outlives pods."""
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        return folder.parents[1] / "claims" / str(sources.pod["metadata"]["namespace"]) / str(claim)
    return folder / str(volume["name"])


def mount_folders(container: Obj, folders: dict[str, Path]) -> dict[str, str]:
    """Folders by mount path, longest paths first."""
    mounts = container.get("volumeMounts") or ()
    by_path = {
        mount["mountPath"].rstrip("/"): str(folders[mount["name"]] / (mount.get("subPath") or ""))
        for mount in mounts
        if mount["name"] in folders and mount["mountPath"].rstrip("/")
    }
    return _longest_first(by_path)


def _longest_first(mounts: dict[str, str]) -> dict[str, str]:
    return dict(sorted(mounts.items(), key=lambda item: -len(item[0])))


def has_mounts(spec: Obj) -> bool:
    """Whether a pod mounts anything besides its service account token."""
    names = (mount["name"] for container in all_containers(spec) for mount in container.get("volumeMounts") or ())
    return any(not name.startswith(_TOKEN_PREFIX) for name in names)


def replace_mount_paths(value: str, mounts: dict[str, str]) -> str:
    """Replace mount paths by folders in one pass, because a folder may itself contain a mount path."""
    if not any(path in value for path in mounts):
        return value
    paths = "|".join(map(re.escape, mounts))
    return re.sub(rf"(?<![\w./-])({paths}){_PATH_END}", lambda match: mounts[match[1]], value)


def _files(volume: Obj, sources: Sources, addresses: tuple[str, str], mounts: dict[str, str]) -> dict[str, bytes]:
    if source := volume.get("configMap"):
        return {
            path: _replace_in_data(data, mounts) for path, data in _select_items(sources.keys("configmap", source), source).items()
        }
    if source := volume.get("secret"):
        return _select_items(sources.keys("secret", source), source)
    if source := volume.get("downwardAPI"):
        return _downward_files(source, sources, addresses)
    if source := volume.get("serviceAccountToken"):
        return {source["path"]: sources.token.encode()} if sources.token and not source.get("audience") else {}
    files: dict[str, bytes] = {}
    for projection in (volume.get("projected") or {}).get("sources") or ():
        files |= _files(projection, sources, addresses, mounts)
    return files


def _replace_in_data(data: bytes, mounts: dict[str, str]) -> bytes:
    try:
        return replace_mount_paths(data.decode(), mounts).encode() if mounts else data
    except UnicodeDecodeError:
        return data


def _select_items(data: dict[str, bytes], source: Obj) -> dict[str, bytes]:
    items = source.get("items")
    if not items:
        return data
    return {item["path"]: data[item["key"]] for item in items if item["key"] in data}


def _downward_files(source: Obj, sources: Sources, addresses: tuple[str, str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            files[item["path"]] = read_field(sources.pod, reference["fieldPath"], addresses).encode()
        elif reference := item.get("resourceFieldRef"):
            files[item["path"]] = read_resource_field(sources.pod, {}, reference).encode()
    return files
