"""Mounts and block devices of a container: they name volumes of its pod and do not clash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import forbidden, invalid, not_found, not_supported, required
from sliceworks.schemas.rules.texts import Errors, descending

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_BLOCK_SOURCES = ("persistentVolumeClaim", "ephemeral")


def mount_errors(out: Errors, container: Json, volumes: dict[str, Json], path: str) -> None:
    devices = {device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()}
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            out.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            out.append(not_found(f"{path}[{index}].name", name))
        if not target:
            out.append(required(f"{path}[{index}].mountPath"))
        if target in seen:
            out.append(invalid(f"{path}[{index}].mountPath", target, "must be unique"))
        seen.add(target)
        if name in devices:
            out.append(invalid(f"{path}[{index}].name", name, "must not already exist in volumeDevices"))
        if target in devices.values():
            out.append(invalid(f"{path}[{index}].mountPath", target, "must not already exist as a path in volumeDevices"))
        if len(mount) > 2:
            _options(out, mount, container, path, index)


def device_errors(out: Errors, container: Json, volumes: dict[str, Json], path: str) -> None:
    mounts = {mount.get("name"): mount.get("mountPath") for mount in container.get("volumeMounts") or ()}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        name, target, place = device.get("name") or "", device.get("devicePath") or "", f"{path}[{index}]"
        if not name:
            out.append(required(f"{place}.name"))
        if name in names:
            out.append(invalid(f"{place}.name", name, "must be unique"))
        if name not in volumes:
            out.append(not_found(f"{place}.name", name))
        elif all(volumes[name].get(source) is None for source in _BLOCK_SOURCES):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            out.append(invalid(f"{place}.name", name, detail))
        if not target:
            out.append(required(f"{place}.devicePath"))
        if target in paths:
            out.append(invalid(f"{place}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            out.append(invalid(f"{place}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mounts:
            out.append(invalid(f"{place}.name", name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            out.append(invalid(f"{place}.devicePath", target, "must not already exist as a path in volumeMounts"))
        if name:
            names.add(name)


def _options(out: Errors, mount: Json, container: Json, path: str, index: int) -> None:
    """Kubernetes leaves the index out of the paths of these."""
    if sub := mount.get("subPath"):
        descending(out, sub, f"{path}.subPath")
    if expression := mount.get("subPathExpr"):
        if sub:
            out.append(invalid(f"{path}[{index}].subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"))
        descending(out, expression, f"{path}.subPathExpr")
    if (propagation := mount.get("mountPropagation")) is not None:
        if propagation not in _PROPAGATIONS:
            out.append(not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
        if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            out.append(forbidden(f"{path}.mountPropagation", detail))
    if (recursive := mount.get("recursiveReadOnly")) in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            out.append(forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            out.append(forbidden(f"{path}.recursiveReadOnly", detail))
    elif recursive not in (None, "Disabled"):
        out.append(not_supported(f"{path}.recursiveReadOnly", recursive, _RECURSIVE))
