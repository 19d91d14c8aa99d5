"""Volumes of a pod, and the sources that pods and persistent volumes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.claims import claim_spec_errors
from sliceworks.schemas.rules.downward import file_errors
from sliceworks.schemas.rules.metadata import annotation_errors, label_errors
from sliceworks.schemas.rules.projected import key_to_path_errors, projected_errors
from sliceworks.schemas.rules.texts import Errors, descending, file_mode, label, named, no_parent, subdomain

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.rules.shape import Json

_ONE_TYPE = "may not specify more than 1 volume type"
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def volume_errors(out: Errors, volumes: list[Json], path: str, pod_name: str = "") -> dict[str, Json]:
    """The errors of a pod's volumes; gives back the right ones by name, for the mounts."""
    known: dict[str, Json] = {}
    created = (
        {f"{pod_name}-{volume.get('name')}" for volume in volumes if volume.get("ephemeral") is not None} if pod_name else set()
    )
    for index, volume in enumerate(volumes):
        name, place = volume.get("name") or "", f"{path}[{index}]"
        before = len(out)
        _one_source(out, volume, place, name, pod_name)
        if not name:
            out.append(required(f"{place}.name"))
        else:
            label(out, name, f"{place}.name")
        if name in known:
            out.append(duplicate(f"{place}.name", name))
        if len(out) == before:
            known[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            out.append(invalid(f"{place}.persistentVolumeClaim.claimName", claim, detail))
    return known


def source_errors(out: Errors, holder: Json, path: str, sources: dict[str, Callable[[Errors, Any, str], None]]) -> int:
    """Exactly one source, and that one right. Gives back how many there are."""
    count = 0
    for field, check in sources.items():
        source = holder.get(field)
        if source is None:
            continue
        count += 1
        if count > 1:
            out.append(forbidden(f"{path}.{_SPELLING.get(field, field)}", _ONE_TYPE))
        else:
            check(out, source, f"{path}.{_CHECKED_AS.get(field, field)}")
    if not count:
        out.append(required(path, "must specify a volume type"))
    return count


def needs(*fields: str) -> Callable[[Errors, Json, str], None]:
    """A source of which only these fields must be set."""

    def check(out: Errors, source: Json, path: str) -> None:
        for field in fields:
            if not source.get(field):
                out.append(required(f"{path}.{field}"))

    return check


def host_path(out: Errors, source: Json, path: str) -> None:
    if not source.get("path"):
        out.append(required(f"{path}.path"))
        return
    no_parent(out, source["path"], f"{path}.path")
    if (kind := source.get("type")) is not None and kind not in _HOST_PATH_TYPES:
        out.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))


def network_share(out: Errors, source: Json, path: str) -> None:
    needs("server", "path")(out, source, path)
    if not (source.get("path") or "").startswith("/"):
        out.append(invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))


def disk(field: str) -> Callable[[Errors, Json, str], None]:
    def check(out: Errors, source: Json, path: str) -> None:
        needs(field)(out, source, path)
        if not 0 <= (source.get("partition") or 0) <= 255:
            out.append(invalid(f"{path}.partition", source["partition"], "must be between 1 and 255, inclusive"))

    return check


def driver_name(out: Errors, name: str, path: str) -> None:
    """Names of storage drivers are looked at in lower case."""
    if not name:
        out.append(required(path))
        return
    if len(name) > 63:
        out.append(too_long(path, 63))
    for message in name_rules.dns1123_subdomain_errors(name.lower()):
        out.append(invalid(path, name, message))


def flex(out: Errors, source: Json, path: str) -> None:
    needs("driver")(out, source, path)
    for key in source.get("options") or ():
        if f".{key.split('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            out.append(invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved"))


def fibre_channel(out: Errors, source: Json, path: str) -> None:
    targets, wwids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    if not targets and not wwids:
        out.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and wwids:
        out.append(invalid(f"{path}.targetWWNs", targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and lun is None:
        out.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets and lun is not None and not 0 <= lun <= 255:
        out.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))


def _one_source(out: Errors, volume: Json, path: str, name: str, pod_name: str) -> None:
    if len(volume) == 2:
        # The usual case: a name and one source.
        for field, source in volume.items():
            if field != "name" and (check := SOURCES.get(field)) is not None:
                check(out, source, f"{path}.{_CHECKED_AS.get(field, field)}")
    else:
        source_errors(out, volume, path, SOURCES)
    if volume.get("ephemeral") is not None and pod_name and name:
        claim = f"{pod_name}-{name}"
        for message in name_rules.dns1123_subdomain_errors(claim):
            out.append(invalid(f"{path}.name", name, f'PVC name "{claim}": {message}'))


def _empty_dir(out: Errors, source: Json, path: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.nanos(limit) < 0:
        out.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _git(out: Errors, source: Json, path: str) -> None:
    needs("repository")(out, source, path)
    descending(out, source.get("directory") or "", f"{path}.directory")


def _keyed(field: str) -> Callable[[Errors, Json, str], None]:
    def check(out: Errors, source: Json, path: str) -> None:
        if not source.get(field):
            out.append(required(f"{path}.{field}"))
        file_mode(out, source.get("defaultMode"), f"{path}.defaultMode")
        for index, item in enumerate(source.get("items") or ()):
            key_to_path_errors(out, item, f"{path}.items[{index}]")

    return check


def _downward(out: Errors, source: Json, path: str) -> None:
    file_mode(out, source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        file_errors(out, item, path)


def _csi(out: Errors, source: Json, path: str) -> None:
    driver_name(out, source.get("driver") or "", f"{path}.driver")
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if not secret.get("name"):
            out.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            subdomain(out, secret["name"], f"{path}.name")


def _ephemeral(out: Errors, source: Json, path: str) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        out.append(required(f"{path}.volumeClaimTemplate"))
        return
    meta = template.get("metadata") or {}
    annotation_errors(out, meta.get("annotations"), f"{path}.volumeClaimTemplate.metadata.annotations")
    label_errors(out, meta.get("labels"), f"{path}.volumeClaimTemplate.metadata.labels")
    for field in meta:
        if field not in ("annotations", "labels"):
            out.append(forbidden(f"{path}.volumeClaimTemplate.metadata.{field}", "cannot be set"))
    claim_spec_errors(out, template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


def _image(out: Errors, source: Json, path: str) -> None:
    if not source.get("reference"):
        out.append(required(f"{path}.reference"))
    policy = source.get("pullPolicy") or ""
    if not policy:
        out.append(required(f"{path}.pullPolicy"))
    elif policy not in _PULL_POLICIES:
        out.append(not_supported(f"{path}.pullPolicy", policy, _PULL_POLICIES))


def storage_os(out: Errors, source: Json, path: str) -> None:
    needs("volumeName")(out, source, path)
    for field in ("volumeName", "volumeNamespace"):
        if source.get(field):
            named(out, source[field], f"{path}.{field}", name_rules.dns1123_label_errors)


# Kubernetes spells some paths its own way: the first when there are several sources, the second when it looks into one.
_SPELLING = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}

SOURCES: dict[str, Callable[[Errors, Any, str], None]] = {
    "emptyDir": _empty_dir,
    "hostPath": host_path,
    "gitRepo": _git,
    "gcePersistentDisk": disk("pdName"),
    "awsElasticBlockStore": disk("volumeID"),
    "secret": _keyed("secretName"),
    "nfs": network_share,
    "iscsi": needs("targetPortal", "iqn"),
    "glusterfs": needs("endpoints", "path"),
    "flocker": lambda out, source, path: None,
    "persistentVolumeClaim": needs("claimName"),
    "rbd": needs("monitors", "image"),
    "cinder": needs("volumeID"),
    "cephfs": needs("monitors"),
    "quobyte": needs("registry", "volume"),
    "downwardAPI": _downward,
    "fc": fibre_channel,
    "flexVolume": flex,
    "configMap": _keyed("name"),
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": needs("diskName", "diskURI"),
    "storageos": storage_os,
    "projected": projected_errors,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
