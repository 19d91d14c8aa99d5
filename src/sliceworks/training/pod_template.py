"""The pod template of one host of a slice: container, environment variables, volumes, resources. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.kube import pod_placement
from sliceworks.specs import SLICE_JOB

if TYPE_CHECKING:
    from sliceworks.specs.training import Secret, TrainingJob, TrainingSpec, Volume
    from sliceworks.training.slice_request import SliceRequest

Object = dict[str, Any]


def volume_annotations(spec: TrainingSpec) -> dict[str, str]:
    """The annotations that inject the GCS FUSE sidecar on GKE."""
    return {"gke-gcsfuse/volumes": "true"} if any(volume.gcs_fuse for volume in spec.volumes) else {}


def build_volumes(spec: TrainingSpec, *, host_network: bool) -> list[Object]:
    """The volumes of the pod."""
    volumes = [{"name": volume.name, **_source(volume, host_network=host_network)} for volume in spec.volumes]
    return volumes + [{"name": f"secret-{file.secret}", "secret": {"secretName": file.secret}} for file in _files(spec)]


def build_mounts(spec: TrainingSpec) -> list[Object]:
    """The volume mounts of the container."""
    mounts: list[Object] = [
        {"name": volume.name, "mountPath": volume.mount_path, **({"readOnly": True} if volume.read_only else {})}
        for volume in spec.volumes
    ]
    return mounts + [{"name": f"secret-{file.secret}", "mountPath": file.mount_path, "readOnly": True} for file in _files(spec)]


def _files(spec: TrainingSpec) -> list[Secret]:
    return [secret for secret in spec.secrets if secret.mount_path]


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


_JOB_INDEX = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
_JAX_PORT = 8476


def coordinator_address(job: TrainingJob) -> str:
    """The DNS name of the first host of the first slice."""
    name = job.metadata.name
    return f"{name}-{SLICE_JOB}-0-0.{name}"


def build_env(job: TrainingJob, request: SliceRequest) -> list[Object]:
    """The environment variables; those of the document take precedence."""
    spec = job.spec
    variables: dict[str, Object] = {}
    if request.is_tpu and request.count > 1:
        variables |= {
            "MEGASCALE_COORDINATOR_ADDRESS": {"value": coordinator_address(job)},
            "MEGASCALE_NUM_SLICES": {"value": str(request.count)},
            "MEGASCALE_SLICE_ID": _env_from_field(_JOB_INDEX),
        }
    if request.multi_process and (request.count > 1 or not request.is_tpu):
        variables["JAX_COORDINATOR_ADDRESS"] = {"value": f"{coordinator_address(job)}:{_JAX_PORT}"}
        variables["JAX_NUM_PROCESSES"] = {"value": str(request.hosts)}
    if request.multi_process and not request.is_tpu:
        # Each GPU machine has its own Job, so the job index is the process index.
        variables["JAX_PROCESS_ID"] = _env_from_field(_JOB_INDEX)
    for name, flags in (("XLA_FLAGS", spec.xla_flags), ("LIBTPU_INIT_ARGS", spec.libtpu_args)):
        if flags:
            variables[name] = {"value": " ".join(flags)}
    if spec.checkpoints:
        variables["CHECKPOINT_DIR"] = {"value": spec.checkpoints}
    variables |= {name: {"value": value} for name, value in spec.env.items()}
    for secret in spec.secrets:
        if secret.env:
            variables[secret.env] = {"valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}}}
    return [{"name": name, **value} for name, value in variables.items()]


def _env_from_field(path: str) -> Object:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


CONTAINER = "trainer"
SHARED_MEMORY = "/dev/shm"
_ALLOCATABLE_SHARE = Fraction(3, 4)  # of a host's allocatable resources: node agents need the rest
_GRACE_PERIOD = 25  # seconds; GKE gives pods about as long when it reclaims a spot machine
_PORTS = (("tpu", 8471), ("megascale", 8080))


def build_template(job: TrainingJob, request: SliceRequest, script: str) -> Object:
    """The pod template of one host: metadata and spec."""
    spec = job.spec
    annotations = volume_annotations(spec)
    if spec.estimate is not None:
        annotations[RUN_SECONDS] = f"{spec.estimate:g}"
    metadata: Object = {**({"labels": dict(job.metadata.labels)} if job.metadata.labels else {})}
    if annotations:
        metadata["annotations"] = annotations
    return {**({"metadata": metadata} if metadata else {}), "spec": _pod(job, request, script)}


def _pod(job: TrainingJob, request: SliceRequest, script: str) -> Object:
    spec, host_network = job.spec, request.is_tpu and request.multi_process
    pod: Object = {"restartPolicy": "Never"}
    if spec.service_account:
        pod["serviceAccountName"] = spec.service_account
    if host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if request.capacity == "spot":
        pod["terminationGracePeriodSeconds"] = _GRACE_PERIOD
    else:
        pod["affinity"] = pod_placement.affinity(request.capacity)
    user = {"runAsUser": spec.user, "runAsGroup": spec.user, "fsGroup": spec.user}
    pod |= {
        "nodeSelector": request.selector(),
        "tolerations": request.tolerations(),
        "securityContext": {"runAsNonRoot": True, **user, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(job, request, script)],
    }
    volumes = [*build_volumes(spec, host_network=host_network), *_shared_memory(spec)]
    return {**pod, **({"volumes": volumes} if volumes else {})}


def _shared_memory(spec: TrainingSpec) -> list[Object]:
    """A shared-memory volume: the default of 64 MiB is too small for data loaders and NCCL."""
    if any(volume.mount_path.rstrip("/") == SHARED_MEMORY for volume in spec.volumes):
        return []
    return [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]


def _container(job: TrainingJob, request: SliceRequest, script: str) -> Object:
    spec = job.spec
    env, mounts = build_env(job, request), build_mounts(spec)
    mounts += [{"name": item["name"], "mountPath": SHARED_MEMORY} for item in _shared_memory(spec)]
    ports = [{"name": name, "containerPort": port} for name, port in _PORTS] if request.is_tpu else []
    return {
        "name": CONTAINER,
        "image": spec.image,
        **_program(spec, script),
        **({"env": env} if env else {}),
        **({"ports": ports} if ports else {}),
        "resources": _resources(spec, request),
        **({"volumeMounts": mounts} if mounts else {}),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _program(spec: TrainingSpec, script: str) -> Object:
    if spec.script:
        shell = "python3" if spec.script.endswith(".py") else "bash"
        return {"command": [shell, "-c", script]}
    return {**({"command": spec.command} if spec.command else {}), **({"args": spec.args} if spec.args else {})}


def _resources(spec: TrainingSpec, request: SliceRequest) -> Object:
    """All chips of the host, and most of its allocatable CPU and memory."""
    allocatable = request.shape.machine.allocatable()
    cpu = str(max(int(quantity.parse(allocatable["cpu"]) * _ALLOCATABLE_SHARE), 1))
    memory = f"{int(quantity.parse(allocatable['memory']) * _ALLOCATABLE_SHARE) // 2**30}Gi"
    chips = {request.shape.resource: str(request.shape.chips_per_host)}
    return {"requests": {"cpu": spec.cpu or cpu, "memory": spec.memory or memory, **chips}, "limits": chips}
