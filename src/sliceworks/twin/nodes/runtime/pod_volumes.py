"""Volumes of a pod as folders, with ConfigMaps and Secrets updated atomically."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sliceworks.kube.persistent_volumes import claim_name
from sliceworks.kube.pod_requests import all_containers
from sliceworks.twin.nodes.runtime.atomic_writer import VolumeFile, give_to_group, write_atomically
from sliceworks.twin.nodes.runtime.envvars import expand
from sliceworks.twin.nodes.runtime.value_sources import read_field, read_resource_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.nodes.runtime.value_sources import Sources
Obj = dict[str, Any]
_POPULATED_KINDS = ("configMap", "secret", "downwardAPI", "projected")
_TOKEN_PREFIX = "kube-api-access-"
_SHARED_MEMORY = Path("/dev/shm")
_PERSISTENT = "volumes"
_DEFAULT_MODE, _VOLUME_MODE, _GROUP_WRITES = 0o644, 0o777, 0o2770
_FILE_TYPES = ("File", "FileOrCreate")
_NODE_FILES = {"etc/hosts": Path("/etc/hosts")}
"""Files that every node has, as copies of files of this machine."""
_REFERENCE = re.compile(r"\$\(([^)]*)\)")
_PATH_END = r"(?![\w.-])"


def populate_volumes(folder: Path, sources: Sources, addresses: tuple[str, str], *, replace_paths: bool = False) -> dict[str, Path]:
    """Create the folders of a pod's volumes and write ConfigMaps, Secrets and the downward API; returns folders by volume.

    `replace_paths` replaces mount paths in ConfigMaps by folders, for processes without mount namespaces.
    """
    spec = sources.pod["spec"]
    group = (spec.get("securityContext") or {}).get("fsGroup")
    folders = {volume["name"]: _create_volume(folder, volume, sources, group) for volume in spec.get("volumes") or ()}
    mounts: dict[str, str] = {}
    for container in all_containers(spec) if replace_paths else ():
        # Variables of containers are not known yet.
        fixed = [mount for mount in container.get("volumeMounts") or () if "subPathExpr" not in mount]
        mounts |= mount_folders({**container, "volumeMounts": fixed}, folders)
    mounts = _longest_first(mounts)
    for volume in spec.get("volumes") or ():
        if source := next((volume[kind] for kind in _POPULATED_KINDS if kind in volume), None):
            mode = source.get("defaultMode", _DEFAULT_MODE)
            try:
                write_atomically(folders[volume["name"]], _files(volume, sources, addresses, mounts, mode), group=group)
            except OSError as error:  # for example, a key has a path below that of another key
                raise InvalidVolume(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error.strerror}') from error
    return folders


def _create_volume(folder: Path, volume: Obj, sources: Sources, group: int | None) -> Path:
    """The folder or file of a volume, without symbolic links, created if it does not exist. Raises InvalidVolume."""
    root, relative = _volume_folder(folder, volume, sources)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    created = resolve_beneath(root, relative)
    if (kind := (volume.get("hostPath") or {}).get("type")) in _FILE_TYPES:
        original = _NODE_FILES.get(relative)
        if not created.is_file():
            if created.exists() or (kind == "File" and original is None):
                raise InvalidVolume(f"hostPath type check failed: /{relative} is not a file")
            _create_file(root, created, original.read_bytes() if original and original.is_file() else b"")
    elif _create_beneath(root, created) and group is not None:
        give_to_group(created, group, _GROUP_WRITES)
    return created


def resolve_beneath(root: Path, relative: str) -> Path:
    """A path below a folder without symbolic links; containers may have created links to other folders. Raises InvalidVolume."""
    if "\0" in relative:  # which realpath does not notice behind a loop of links
        raise InvalidVolume(f"path {json.dumps(relative)} is not valid: embedded null byte")
    path = Path(os.path.realpath(root / relative))
    if not path.is_relative_to(os.path.realpath(root)):
        raise InvalidVolume(f"path {relative} leads out of its volume")
    return path


def _create_beneath(root: Path, folder: Path) -> bool:
    """Create a folder in which all users may write; returns whether it did not exist. Follows no links. Raises InvalidVolume."""
    if os.path.isdir(folder):  # noqa: PTH112 (which is also False for a name that is too long)
        return False
    with _open_beneath(root, folder) as descriptor:
        os.fchmod(descriptor, _VOLUME_MODE)
    return True


def _create_file(root: Path, file: Path, content: bytes) -> None:
    """Create a file and its folder. Follows no links. Raises InvalidVolume."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with _open_beneath(root, file.parent) as parent, os.fdopen(os.open(file.name, flags, dir_fd=parent), "wb") as created:
        created.write(content)
        os.fchmod(created.fileno(), _DEFAULT_MODE)


@contextlib.contextmanager
def _open_beneath(root: Path, folder: Path) -> Iterator[int]:
    """The descriptor of a folder, which is created if it does not exist. Follows no links. Raises InvalidVolume."""
    real, flags = os.path.realpath(root), os.O_RDONLY | os.O_DIRECTORY
    try:
        descriptor = os.open(real, flags)
        try:
            for part in folder.relative_to(real).parts:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidVolume(f"cannot create folder {folder.name}: {error.strerror}") from error


def _volume_folder(folder: Path, volume: Obj, sources: Sources) -> tuple[Path, str]:
    """Where the folder of a volume is; a PersistentVolume and a path of a node each have one that outlives pods."""
    root, source = folder.parents[1], volume
    if (persistent := sources.volumes.get(claim_name(sources.pod, volume))) is not None:
        source = persistent["spec"]
        if not {"hostPath", "local"} & set(source):
            return root / _PERSISTENT, persistent["metadata"]["name"]
    if path := (source.get("hostPath") or source.get("local") or {}).get("path"):
        return root / "nodes" / str(sources.pod["spec"].get("nodeName")), str(path).strip("/")
    if (volume.get("emptyDir") or {}).get("medium") == "Memory" and _SHARED_MEMORY.is_dir():
        return memory_folder(sources.pod["metadata"]["uid"]), str(volume["name"])
    return folder, str(volume["name"])


def volume_folder(root: Path, name: str) -> Path:
    """The folder of a PersistentVolume, below the folder of all pods."""
    return root / _PERSISTENT / name


def token_sources(spec: Obj) -> Iterator[Obj]:
    """The service account tokens in projected volumes."""
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "serviceAccountToken" in source:
                yield source["serviceAccountToken"]


def memory_folder(uid: str) -> Path:
    """The folder of a pod's volumes in memory."""
    return _SHARED_MEMORY / f"sliceworks-{uid}"


def delete_memory(uid: str) -> None:
    """Delete the volumes in memory of a pod."""
    shutil.rmtree(memory_folder(uid), ignore_errors=True)


class InvalidVolume(Exception):
    """A volume, or the path of a mount in its volume, cannot be used; the message is the one of the kubelet if it has one."""


def sub_path(mount: Obj, variables: Mapping[str, str]) -> str:
    """The path of a mount in its volume; variables of the container are expanded in `subPathExpr`. Raises InvalidVolume."""
    if not (template := mount.get("subPathExpr")):
        return mount.get("subPath") or ""
    path = expand(template, variables)
    if missing := _REFERENCE.search(path):
        raise InvalidVolume(f"missing value for {json.dumps(missing[1])}")
    if path.startswith("/"):
        raise InvalidVolume(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise InvalidVolume(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def create_sub_paths(container: Obj, folders: Mapping[str, Path], mounts: Mapping[str, str]) -> None:
    """Create the folders of mounts that their volumes do not have. Raises InvalidVolume."""
    for mount in container.get("volumeMounts") or ():
        folder = Path(mounts.get(mount["mountPath"].rstrip("/"), "/"))
        if (mount.get("subPath") or mount.get("subPathExpr")) and not os.path.exists(folder):  # noqa: PTH110
            try:
                _create_beneath(folders[mount["name"]], folder)
            except InvalidVolume as error:
                owner = f'volumeMount "{mount["name"]}" of container "{container["name"]}"'
                raise InvalidVolume(f"failed to create subPath directory for {owner}") from error


def mount_folders(container: Obj, folders: dict[str, Path], variables: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Folders by mount path without symbolic links, longest paths first. Raises InvalidVolume."""
    by_path = {}
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in folders and (place := mount["mountPath"].rstrip("/")):
            folder, path = folders[mount["name"]], sub_path(mount, variables)
            try:
                by_path[place] = str(resolve_beneath(folder, path))
            except InvalidVolume as error:
                owner = f'volumeMount "{mount["name"]}" of container "{container["name"]}"'
                raise InvalidVolume(f"failed to prepare subPath for {owner}") from error
    return _longest_first(by_path)


def _longest_first(mounts: dict[str, str]) -> dict[str, str]:
    return dict(sorted(mounts.items(), key=lambda item: -len(item[0])))


def have_updates(spec: Obj) -> bool:
    """Whether files in volumes of a pod change with objects; its service account token alone does not."""
    volumes = [volume for volume in spec.get("volumes") or () if not volume["name"].startswith(_TOKEN_PREFIX)]
    return any(kind in volume for volume in volumes for kind in _POPULATED_KINDS)


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


def _files(volume: Obj, sources: Sources, addresses: tuple[str, str], mounts: dict[str, str], mode: int) -> dict[str, VolumeFile]:
    if source := volume.get("configMap"):
        return {
            path: file._replace(data=_replace_in_data(file.data, mounts))
            for path, file in _select_items(sources.keys("configmap", source), source, mode).items()
        }
    if source := volume.get("secret"):
        return _select_items(sources.keys("secret", source), source, mode)
    if source := volume.get("downwardAPI"):
        return _downward_files(source, sources, addresses, mode)
    if source := volume.get("serviceAccountToken"):
        token = sources.tokens.get(source.get("audience") or "")
        return {source["path"]: VolumeFile(token.encode(), mode)} if token else {}
    files: dict[str, VolumeFile] = {}
    for projection in (volume.get("projected") or {}).get("sources") or ():
        files |= _files(projection, sources, addresses, mounts, mode)
    return files


def _replace_in_data(data: bytes, mounts: dict[str, str]) -> bytes:
    try:
        return replace_mount_paths(data.decode(), mounts).encode() if mounts else data
    except UnicodeDecodeError:
        return data


def _select_items(data: dict[str, bytes], source: Obj, mode: int) -> dict[str, VolumeFile]:
    items = source.get("items") or [{"path": key, "key": key} for key in data]
    return {item["path"]: VolumeFile(data[item["key"]], item.get("mode", mode)) for item in items if item["key"] in data}


def _downward_files(source: Obj, sources: Sources, addresses: tuple[str, str], mode: int) -> dict[str, VolumeFile]:
    files: dict[str, VolumeFile] = {}
    for item in source.get("items") or ():
        value = ""
        if reference := item.get("fieldRef"):
            value = read_field(sources.pod, reference["fieldPath"], addresses)
        elif reference := item.get("resourceFieldRef"):
            value = read_resource_field(sources.pod, {}, reference, sources.allocatable)
        files[item["path"]] = VolumeFile(value.encode(), item.get("mode", mode))
    return files
