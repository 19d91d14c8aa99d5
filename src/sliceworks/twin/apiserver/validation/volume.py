"""Volumes of a pod: sources, projected volumes and the claim spec that ephemeral volumes share with PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.container_env import validate_downward_api_file
from sliceworks.twin.apiserver.validation.error_list import ErrorList, list_items
from sliceworks.twin.apiserver.validation.object_meta import validate_annotations, validate_labels
from sliceworks.twin.apiserver.validation.resource_requirements import validate_positive_quantity, validate_quantity
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

    SourceValidation = Callable[[ErrorList, Any, str], None]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_PROJECTIONS = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def validate_access_modes(errors: ErrorList, modes: list[str], path: str) -> None:
    for mode in modes:
        if mode not in _MODES:
            errors.not_supported(path, mode, _MODES)
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def validate_claim_spec(errors: ErrorList, spec: Json, path: str) -> None:
    modes = spec.get("accessModes") or []
    if not modes:
        errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    validate_label_selector(errors, spec.get("selector"), f"{path}.selector")
    validate_access_modes(errors, modes, f"{path}.accessModes")
    _validate_size(errors, (spec.get("resources") or {}).get("requests") or {}, f"{path}.resources[storage]")
    errors.check_optional_names(spec, path, error_list.dns1123_subdomain_errors, "storageClassName", "volumeAttributesClassName")
    errors.check_optional_enum(spec, path, "volumeMode", VOLUME_MODES)
    _validate_data_sources(errors, spec, path)


def _validate_size(errors: ErrorList, requests: Json, path: str) -> None:
    if "storage" not in requests:
        errors.required(path)
        return
    before = len(errors)
    validate_positive_quantity(errors, requests["storage"], path)
    if len(errors) == before:
        validate_quantity(errors, "storage", requests["storage"], path)


def _validate_data_sources(errors: ErrorList, spec: Json, path: str) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, data_source in (("dataSource", source), ("dataSourceRef", reference)):
        if data_source is not None:
            _validate_data_source(errors, data_source, f"{path}.{field}")
    namespace = (reference or {}).get("namespace")
    if namespace:
        errors.check_dns_label(namespace, f"{path}.dataSourceRef.namespace")
    if source is None or reference is None:
        return
    if namespace:
        errors.invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.invalid(path, {}, "must match dataSourceRef")


def _validate_data_source(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_required(source, path, "name", "kind")
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        errors.invalid(path, source.get("kind") or "", "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    errors.check_optional_names(source, path, error_list.dns1123_subdomain_errors, "apiGroup")


def validate_key_to_path(errors: ErrorList, item: Json, path: str) -> None:
    errors.check_required(item, path, "key", "path")
    errors.check_local_path(item.get("path") or "", f"{path}.path")
    errors.check_file_mode(item.get("mode"), f"{path}.mode")


def validate_projected(errors: ErrorList, volume: Json, path: str) -> None:
    errors.check_file_mode(volume.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for source, child_path in list_items(volume, path, "sources"):
        for field in ("secret", "configMap"):
            if (projection := source.get(field)) is not None:
                _validate_keyed_projection(errors, projection, f"{child_path}.{field}", path, taken)
        if (projection := source.get("downwardAPI")) is not None:
            for item in projection.get("items") or ():
                validate_downward_api_file(errors, item, f"{child_path}.downwardAPI")
                _validate_unique_path(errors, item.get("path"), taken, path, item.get("path"))
        if (projection := source.get("serviceAccountToken")) is not None:
            _validate_token(errors, projection, f"{child_path}.serviceAccountToken", path)
        if (projection := source.get("clusterTrustBundle")) is not None:
            _validate_bundle(errors, projection, f"{child_path}.clusterTrustBundle", path, taken)
        if sum(source.get(field) is not None for field in _PROJECTIONS) > 1:
            errors.forbidden(child_path, "may not specify more than 1 volume type per source")


def _validate_keyed_projection(errors: ErrorList, source: Json, path: str, volume: str, taken: set[str]) -> None:
    errors.check_required(source, path, "name")
    for item, item_path in list_items(source, path, "items"):
        validate_key_to_path(errors, item, item_path)
        _validate_unique_path(errors, item.get("path"), taken, volume, source.get("name") or "")


def _validate_unique_path(errors: ErrorList, item_path: str | None, taken: set[str], path: str, shown: str | None) -> None:
    if item_path:
        if item_path in taken:
            errors.invalid(path, shown, "conflicting duplicate paths")
        taken.add(item_path)


def _validate_token(errors: ErrorList, source: Json, path: str, volume: str) -> None:
    errors.check_token_seconds(source.get("expirationSeconds") or 0, f"{path}.expirationSeconds")
    errors.check_required(source, volume, "path")
    errors.check_local_path(source.get("path") or "", f"{volume}.path")


def _validate_bundle(errors: ErrorList, source: Json, path: str, volume: str, taken: set[str]) -> None:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        errors.invalid(path, source, "only one of name and signerName may be used")
    elif name is None and signer is None:
        errors.required(path, "either name or signerName must be specified")
    elif name is not None and source.get("labelSelector") is not None:
        errors.invalid(f"{path}.labelSelector", source["labelSelector"], "labelSelector must be unset if name is specified")
    else:
        validate_label_selector(errors, source.get("labelSelector"), f"{path}.labelSelector")
    errors.check_required(source, path, "path")
    errors.check_local_path(source.get("path") or "", f"{path}.path")
    _validate_unique_path(errors, source.get("path"), taken, volume, source.get("path"))


def validate_volumes(errors: ErrorList, volumes: list[Json], path: str, pod_name: str = "") -> dict[str, Json]:
    """Validate a pod's volumes, and return the valid ones by name for the validation of mounts."""
    known: dict[str, Json] = {}
    created = {f"{pod_name}-{volume.get('name')}" for volume in volumes if pod_name and volume.get("ephemeral") is not None}
    for index, volume in enumerate(volumes):
        name, child_path = volume.get("name") or "", f"{path}[{index}]"
        before = len(errors)
        _validate_one_source(errors, volume, child_path, name, pod_name)
        errors.check_required_name(volume, child_path, "name", error_list.dns1123_label_errors)
        if name in known:
            errors.duplicate(f"{child_path}.name", name)
        if len(errors) == before:
            known[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.invalid(f"{child_path}.persistentVolumeClaim.claimName", claim, detail)
    return known


def validate_source(errors: ErrorList, volume: Json, path: str, sources: dict[str, SourceValidation]) -> None:
    """Validate the source of a volume, which must have exactly one."""
    present = [field for field in sources if volume.get(field) is not None]
    if not present:
        errors.required(path, "must specify a volume type")
        return
    first, *others = present
    sources[first](errors, volume[first], f"{path}.{_CHECKED_AS.get(first, first)}")
    for field in others:
        errors.forbidden(f"{path}.{_SPELLING.get(field, field)}", "may not specify more than 1 volume type")


def _requires(*fields: str) -> SourceValidation:
    """Build the validation of a source that only has required fields."""
    return lambda errors, source, path: errors.check_required(source, path, *fields)


def validate_host_path(errors: ErrorList, source: Json, path: str) -> None:
    if not source.get("path"):
        errors.required(f"{path}.path")
        return
    errors.check_no_backsteps(source["path"], f"{path}.path")
    errors.check_optional_enum(source, path, "type", _HOST_PATH_TYPES)


def validate_nfs(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_required(source, path, "server", "path")
    if not (source.get("path") or "").startswith("/"):
        errors.invalid(f"{path}.path", source.get("path") or "", "must be an absolute path")


def _disk(field: str) -> SourceValidation:
    def validate(errors: ErrorList, source: Json, path: str) -> None:
        errors.check_required(source, path, field)
        if not 0 <= (source.get("partition") or 0) <= 255:
            errors.invalid(f"{path}.partition", source["partition"], "must be between 1 and 255, inclusive")

    return validate


def validate_driver_name(errors: ErrorList, name: str, path: str) -> None:
    """Validate the name of a storage driver, converted to lower case."""
    if not name:
        errors.required(path)
        return
    if len(name) > 63:
        errors.too_long(path, 63)
    for message in error_list.dns1123_subdomain_errors(name.lower()):
        errors.invalid(path, name, message)


def _validate_flex(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_required(source, path, "driver")
    for key in source.get("options") or ():
        if f".{key.split('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            errors.invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def _validate_fibre_channel(errors: ErrorList, source: Json, path: str) -> None:
    targets, wwids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    if not targets and not wwids:
        errors.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and wwids:
        errors.invalid(f"{path}.targetWWNs", targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets and lun is not None:
        errors.check_range(lun, f"{path}.lun", 0, 255)
    elif targets:
        errors.required(f"{path}.lun", "lun is required if targetWWNs is specified")


def _validate_one_source(errors: ErrorList, volume: Json, path: str, name: str, pod_name: str) -> None:
    if len(volume) == 2:
        # Fast path: a name and one source.
        for field, source in volume.items():
            if field != "name" and (validate := SOURCES.get(field)) is not None:
                validate(errors, source, f"{path}.{_CHECKED_AS.get(field, field)}")
    else:
        validate_source(errors, volume, path, SOURCES)
    if volume.get("ephemeral") is not None and pod_name and name:
        claim = f"{pod_name}-{name}"
        for message in error_list.dns1123_subdomain_errors(claim):
            errors.invalid(f"{path}.name", name, f'PVC name "{claim}": {message}')


def _validate_empty_dir(errors: ErrorList, source: Json, path: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.nanos(limit) < 0:
        errors.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_git(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_required(source, path, "repository")
    errors.check_descending_path(source.get("directory") or "", f"{path}.directory")


def _keyed(name: str) -> SourceValidation:
    """Build the validation of a ConfigMap or Secret volume."""

    def validate(errors: ErrorList, source: Json, path: str) -> None:
        errors.check_required(source, path, name)
        errors.check_file_mode(source.get("defaultMode"), f"{path}.defaultMode")
        for item, item_path in list_items(source, path, "items"):
            validate_key_to_path(errors, item, item_path)

    return validate


def _validate_downward(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_file_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        validate_downward_api_file(errors, item, path)


def _validate_csi(errors: ErrorList, source: Json, path: str) -> None:
    validate_driver_name(errors, source.get("driver") or "", f"{path}.driver")
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if not secret.get("name"):
            errors.required(f"{path}.nodePublishSecretRef.name")
        else:
            errors.check_dns_subdomain(secret["name"], f"{path}.name")


def _validate_ephemeral(errors: ErrorList, source: Json, path: str) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.required(f"{path}.volumeClaimTemplate")
        return
    meta = template.get("metadata") or {}
    validate_annotations(errors, meta.get("annotations"), f"{path}.volumeClaimTemplate.metadata.annotations")
    validate_labels(errors, meta.get("labels"), f"{path}.volumeClaimTemplate.metadata.labels")
    for field in meta:
        if field not in ("annotations", "labels"):
            errors.forbidden(f"{path}.volumeClaimTemplate.metadata.{field}", "cannot be set")
    validate_claim_spec(errors, template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


def _validate_image(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_required(source, path, "reference")
    errors.check_enum(source, path, "pullPolicy", ("Always", "IfNotPresent", "Never"))


def _validate_storage_os(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_required(source, path, "volumeName")
    errors.check_optional_names(source, path, error_list.dns1123_label_errors, "volumeName", "volumeNamespace")


# Paths that Kubernetes spells differently: the first in the error for several sources, the second in the source's own errors.
_SPELLING = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}

SOURCES: dict[str, SourceValidation] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": validate_host_path,
    "gitRepo": _validate_git,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "secret": _keyed("secretName"),
    "nfs": validate_nfs,
    "iscsi": _requires("targetPortal", "iqn"),
    "glusterfs": _requires("endpoints", "path"),
    "flocker": _requires(),
    "persistentVolumeClaim": _requires("claimName"),
    "rbd": _requires("monitors", "image"),
    "cinder": _requires("volumeID"),
    "cephfs": _requires("monitors"),
    "quobyte": _requires("registry", "volume"),
    "downwardAPI": _validate_downward,
    "fc": _validate_fibre_channel,
    "flexVolume": _validate_flex,
    "configMap": _keyed("name"),
    "azureFile": _requires("secretName", "shareName"),
    "vsphereVolume": _requires("volumePath"),
    "photonPersistentDisk": _requires("pdID"),
    "portworxVolume": _requires("volumeID"),
    "azureDisk": _requires("diskName", "diskURI"),
    "storageos": _validate_storage_os,
    "projected": validate_projected,
    "scaleIO": _requires("gateway", "system", "volumeName"),
    "csi": _validate_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
