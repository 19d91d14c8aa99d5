"""Volumes of a job's pods: buckets through GCS FUSE, claims, NFS shares and Secrets as files. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sliceworks.specs.training import Secret, TrainingSpec, Volume

Object = dict[str, Any]


def markers(spec: TrainingSpec) -> dict[str, str]:
    """What asks GKE for the sidecar of GCS FUSE."""
    return {"gke-gcsfuse/volumes": "true"} if any(each.gcs_fuse for each in spec.volumes) else {}


def volumes(spec: TrainingSpec, *, host_network: bool) -> list[Object]:
    """The sources."""
    found = [{"name": each.name, **_source(each, host_network=host_network)} for each in spec.volumes]
    return found + [{"name": f"secret-{each.secret}", "secret": {"secretName": each.secret}} for each in _files(spec)]


def mounts(spec: TrainingSpec) -> list[Object]:
    """Where they are seen."""
    found: list[Object] = [
        {"name": each.name, "mountPath": each.mount_path, **({"readOnly": True} if each.read_only else {})} for each in spec.volumes
    ]
    return found + [{"name": f"secret-{each.secret}", "mountPath": each.mount_path, "readOnly": True} for each in _files(spec)]


def _files(spec: TrainingSpec) -> list[Secret]:
    return [each for each in spec.secrets if each.mount_path]


def _source(volume: Volume, *, host_network: bool) -> Object:
    if volume.gcs_fuse:
        attributes = {"bucketName": volume.gcs_fuse.bucket, "mountOptions": ",".join(volume.gcs_fuse.options)}
        if host_network:
            # Without it the sidecar cannot act as the pod's service account on the host's network.
            attributes["hostNetworkPodKSA"] = "true"
        read_only = {"readOnly": True} if volume.read_only else {}
        return {"csi": {"driver": "gcsfuse.csi.storage.gke.io", **read_only, "volumeAttributes": attributes}}
    if volume.pvc:
        return {"persistentVolumeClaim": {"claimName": volume.pvc}}
    share = volume.filestore or volume.nfs
    assert share is not None
    return {"nfs": {"server": share.server, "path": share.path}}
