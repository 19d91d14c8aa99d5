"""Volumes of a pod: sources, projected volumes and the claim spec that ephemeral volumes share with PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.container_env import file_errors
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_descending_path,
    check_dns_label,
    check_dns_subdomain,
    check_file_mode,
    check_local_path,
    check_name,
    check_no_backsteps,
)
from sliceworks.twin.apiserver.validation.object_meta import annotation_errors, label_errors
from sliceworks.twin.apiserver.validation.resource_requirements import check_positive_quantity, check_quantity
from sliceworks.twin.apiserver.validation.selectors import selector_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def access_mode_errors(errors: Errors, modes: list[str], path: str) -> None:
    for mode in modes:
        if mode not in _MODES:
            errors.append(not_supported(path, mode, _MODES))
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def claim_spec_errors(errors: Errors, spec: Json, path: str) -> None:
    modes = spec.get("accessModes") or []
    if not modes:
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    selector_errors(errors, spec.get("selector"), f"{path}.selector")
    access_mode_errors(errors, modes, f"{path}.accessModes")
    _size(errors, (spec.get("resources") or {}).get("requests") or {}, f"{path}.resources[storage]")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            check_dns_subdomain(errors, spec[field], f"{path}.{field}")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    _data_sources(errors, spec, path)


def _size(errors: Errors, requests: Json, path: str) -> None:
    if "storage" not in requests:
        errors.append(required(path))
        return
    before = len(errors)
    check_positive_quantity(errors, requests["storage"], path)
    if len(errors) == before:
        check_quantity(errors, "storage", requests["storage"], path)


def _data_sources(errors: Errors, spec: Json, path: str) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, data_source in (("dataSource", source), ("dataSourceRef", reference)):
        if data_source is not None:
            _data_source(errors, data_source, f"{path}.{field}")
    namespace = (reference or {}).get("namespace")
    if namespace:
        check_name(errors, namespace, f"{path}.dataSourceRef.namespace", field_checks.dns1123_label_errors)
    if source is None or reference is None:
        return
    if namespace:
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))


def _data_source(errors: Errors, source: Json, path: str) -> None:
    for field in ("name", "kind"):
        if not source.get(field):
            errors.append(required(f"{path}.{field}"))
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") != "PersistentVolumeClaim":
        errors.append(
            invalid(path, source.get("kind") or "", "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
        )
    if group:
        check_dns_subdomain(errors, group, f"{path}.apiGroup")


_SOURCES = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_CLASH = "conflicting duplicate paths"


def key_to_path_errors(errors: Errors, item: Json, path: str) -> None:
    if not item.get("key"):
        errors.append(required(f"{path}.key"))
    if not item.get("path"):
        errors.append(required(f"{path}.path"))
    check_local_path(errors, item.get("path") or "", f"{path}.path")
    check_file_mode(errors, item.get("mode"), f"{path}.mode")


def projected_errors(errors: Errors, volume: Json, path: str) -> None:
    check_file_mode(errors, volume.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        child_path = f"{path}.sources[{index}]"
        for field in ("secret", "configMap"):
            if (projection := source.get(field)) is not None:
                _keyed(errors, projection, f"{child_path}.{field}", path, taken)
        if (projection := source.get("downwardAPI")) is not None:
            for item in projection.get("items") or ():
                file_errors(errors, item, f"{child_path}.downwardAPI")
                _take(errors, item.get("path"), taken, path, item.get("path"))
        if (projection := source.get("serviceAccountToken")) is not None:
            _token(errors, projection, f"{child_path}.serviceAccountToken", path)
        if (projection := source.get("clusterTrustBundle")) is not None:
            _bundle(errors, projection, f"{child_path}.clusterTrustBundle", path, taken)
        if sum(source.get(field) is not None for field in _SOURCES) > 1:
            errors.append(forbidden(child_path, "may not specify more than 1 volume type per source"))


def _keyed(errors: Errors, source: Json, path: str, volume: str, taken: set[str]) -> None:
    if not source.get("name"):
        errors.append(required(f"{path}.name"))
    for index, item in enumerate(source.get("items") or ()):
        key_to_path_errors(errors, item, f"{path}.items[{index}]")
        _take(errors, item.get("path"), taken, volume, source.get("name") or "")


def _take(errors: Errors, item_path: str | None, taken: set[str], path: str, shown: str | None) -> None:
    if item_path:
        if item_path in taken:
            errors.append(invalid(path, shown, _CLASH))
        taken.add(item_path)


def _token(errors: Errors, source: Json, path: str, volume: str) -> None:
    seconds = source.get("expirationSeconds") or 0
    if seconds < 600:
        errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    if not source.get("path"):
        errors.append(required(f"{volume}.path"))
    else:
        check_local_path(errors, source["path"], f"{volume}.path")


def _bundle(errors: Errors, source: Json, path: str, volume: str, taken: set[str]) -> None:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        errors.append(invalid(path, source, "only one of name and signerName may be used"))
    elif name is None and signer is None:
        errors.append(required(path, "either name or signerName must be specified"))
    elif name is not None and source.get("labelSelector") is not None:
        errors.append(invalid(f"{path}.labelSelector", source["labelSelector"], "labelSelector must be unset if name is specified"))
    else:
        selector_errors(errors, source.get("labelSelector"), f"{path}.labelSelector")
    if not source.get("path"):
        errors.append(required(f"{path}.path"))
    check_local_path(errors, source.get("path") or "", f"{path}.path")
    _take(errors, source.get("path"), taken, volume, source.get("path"))


_ONE_TYPE = "may not specify more than 1 volume type"
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def volume_errors(errors: Errors, volumes: list[Json], path: str, pod_name: str = "") -> dict[str, Json]:
    """Report the errors of a pod's volumes and return the valid volumes by name, for the checks of mounts."""
    known: dict[str, Json] = {}
    created = (
        {f"{pod_name}-{volume.get('name')}" for volume in volumes if volume.get("ephemeral") is not None} if pod_name else set()
    )
    for index, volume in enumerate(volumes):
        name, child_path = volume.get("name") or "", f"{path}[{index}]"
        before = len(errors)
        _one_source(errors, volume, child_path, name, pod_name)
        if not name:
            errors.append(required(f"{child_path}.name"))
        else:
            check_dns_label(errors, name, f"{child_path}.name")
        if name in known:
            errors.append(duplicate(f"{child_path}.name", name))
        if len(errors) == before:
            known[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{child_path}.persistentVolumeClaim.claimName", claim, detail))
    return known


def source_errors(errors: Errors, holder: Json, path: str, sources: dict[str, Callable[[Errors, Any, str], None]]) -> int:
    """Check that exactly one source is set and valid. Returns the number of sources."""
    count = 0
    for field, check in sources.items():
        source = holder.get(field)
        if source is None:
            continue
        count += 1
        if count > 1:
            errors.append(forbidden(f"{path}.{_SPELLING.get(field, field)}", _ONE_TYPE))
        else:
            check(errors, source, f"{path}.{_CHECKED_AS.get(field, field)}")
    if not count:
        errors.append(required(path, "must specify a volume type"))
    return count


def needs(*fields: str) -> Callable[[Errors, Json, str], None]:
    """Build the check of a source that only has these required fields."""

    def check(errors: Errors, source: Json, path: str) -> None:
        for field in fields:
            if not source.get(field):
                errors.append(required(f"{path}.{field}"))

    return check


def host_path(errors: Errors, source: Json, path: str) -> None:
    if not source.get("path"):
        errors.append(required(f"{path}.path"))
        return
    check_no_backsteps(errors, source["path"], f"{path}.path")
    if (kind := source.get("type")) is not None and kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))


def network_share(errors: Errors, source: Json, path: str) -> None:
    needs("server", "path")(errors, source, path)
    if not (source.get("path") or "").startswith("/"):
        errors.append(invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))


def disk(field: str) -> Callable[[Errors, Json, str], None]:
    def check(errors: Errors, source: Json, path: str) -> None:
        needs(field)(errors, source, path)
        if not 0 <= (source.get("partition") or 0) <= 255:
            errors.append(invalid(f"{path}.partition", source["partition"], "must be between 1 and 255, inclusive"))

    return check


def driver_name(errors: Errors, name: str, path: str) -> None:
    """Check the name of a storage driver, converted to lower case."""
    if not name:
        errors.append(required(path))
        return
    if len(name) > 63:
        errors.append(too_long(path, 63))
    for message in field_checks.dns1123_subdomain_errors(name.lower()):
        errors.append(invalid(path, name, message))


def flex(errors: Errors, source: Json, path: str) -> None:
    needs("driver")(errors, source, path)
    for key in source.get("options") or ():
        if f".{key.split('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            errors.append(invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved"))


def fibre_channel(errors: Errors, source: Json, path: str) -> None:
    targets, wwids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    if not targets and not wwids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and wwids:
        errors.append(invalid(f"{path}.targetWWNs", targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and lun is None:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets and lun is not None and not 0 <= lun <= 255:
        errors.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))


def _one_source(errors: Errors, volume: Json, path: str, name: str, pod_name: str) -> None:
    if len(volume) == 2:
        # Fast path: a name and one source.
        for field, source in volume.items():
            if field != "name" and (check := SOURCES.get(field)) is not None:
                check(errors, source, f"{path}.{_CHECKED_AS.get(field, field)}")
    else:
        source_errors(errors, volume, path, SOURCES)
    if volume.get("ephemeral") is not None and pod_name and name:
        claim = f"{pod_name}-{name}"
        for message in field_checks.dns1123_subdomain_errors(claim):
            errors.append(invalid(f"{path}.name", name, f'PVC name "{claim}": {message}'))


def _empty_dir(errors: Errors, source: Json, path: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.nanos(limit) < 0:
        errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _git(errors: Errors, source: Json, path: str) -> None:
    needs("repository")(errors, source, path)
    check_descending_path(errors, source.get("directory") or "", f"{path}.directory")


def _keyed_source(field: str) -> Callable[[Errors, Json, str], None]:
    def check(errors: Errors, source: Json, path: str) -> None:
        if not source.get(field):
            errors.append(required(f"{path}.{field}"))
        check_file_mode(errors, source.get("defaultMode"), f"{path}.defaultMode")
        for index, item in enumerate(source.get("items") or ()):
            key_to_path_errors(errors, item, f"{path}.items[{index}]")

    return check


def _downward(errors: Errors, source: Json, path: str) -> None:
    check_file_mode(errors, source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        file_errors(errors, item, path)


def _csi(errors: Errors, source: Json, path: str) -> None:
    driver_name(errors, source.get("driver") or "", f"{path}.driver")
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if not secret.get("name"):
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            check_dns_subdomain(errors, secret["name"], f"{path}.name")


def _ephemeral(errors: Errors, source: Json, path: str) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.append(required(f"{path}.volumeClaimTemplate"))
        return
    meta = template.get("metadata") or {}
    annotation_errors(errors, meta.get("annotations"), f"{path}.volumeClaimTemplate.metadata.annotations")
    label_errors(errors, meta.get("labels"), f"{path}.volumeClaimTemplate.metadata.labels")
    for field in meta:
        if field not in ("annotations", "labels"):
            errors.append(forbidden(f"{path}.volumeClaimTemplate.metadata.{field}", "cannot be set"))
    claim_spec_errors(errors, template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


def _image(errors: Errors, source: Json, path: str) -> None:
    if not source.get("reference"):
        errors.append(required(f"{path}.reference"))
    policy = source.get("pullPolicy") or ""
    if not policy:
        errors.append(required(f"{path}.pullPolicy"))
    elif policy not in _PULL_POLICIES:
        errors.append(not_supported(f"{path}.pullPolicy", policy, _PULL_POLICIES))


def storage_os(errors: Errors, source: Json, path: str) -> None:
    needs("volumeName")(errors, source, path)
    for field in ("volumeName", "volumeNamespace"):
        if source.get(field):
            check_name(errors, source[field], f"{path}.{field}", field_checks.dns1123_label_errors)


# Paths that Kubernetes spells differently: the first in the error for several sources, the second in the source's own errors.
_SPELLING = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}

SOURCES: dict[str, Callable[[Errors, Any, str], None]] = {
    "emptyDir": _empty_dir,
    "hostPath": host_path,
    "gitRepo": _git,
    "gcePersistentDisk": disk("pdName"),
    "awsElasticBlockStore": disk("volumeID"),
    "secret": _keyed_source("secretName"),
    "nfs": network_share,
    "iscsi": needs("targetPortal", "iqn"),
    "glusterfs": needs("endpoints", "path"),
    "flocker": lambda errors, source, path: None,
    "persistentVolumeClaim": needs("claimName"),
    "rbd": needs("monitors", "image"),
    "cinder": needs("volumeID"),
    "cephfs": needs("monitors"),
    "quobyte": needs("registry", "volume"),
    "downwardAPI": _downward,
    "fc": fibre_channel,
    "flexVolume": flex,
    "configMap": _keyed_source("name"),
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
