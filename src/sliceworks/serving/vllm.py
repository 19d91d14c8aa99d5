"""vLLM on one TPU host or one GPU machine per replica. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.serving import objects, pod_spec, workload
from sliceworks.serving.hardware import container_resources
from sliceworks.serving.objects import SERVER_COMPONENT

if TYPE_CHECKING:
    from sliceworks.serving.hardware import ReplicaHardware
    from sliceworks.serving.workload import Version
    from sliceworks.specs.model_service import ModelService, Vllm

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "openai", "http", ""
IMAGES = {"tpu": "vllm/vllm-tpu:v0.27.0", "gpu": "vllm/vllm-openai:v0.27.0"}
PORTS = {"http": 8000}
METRIC = "vllm:num_requests_waiting"
QUANTIZATIONS = {
    "gpu": {"int8": "int8_per_channel_weight_only", "fp8": "fp8", "awq": "awq", "gptq": "gptq"},
    "tpu": {"fp8": "fp8", "awq": "awq"},
}
"""vLLM's names of the quantizations that it supports."""
_CACHE, _MODELS = "/cache", "/models"
_CLEANUP_SECONDS = 20  # to release its chips after the last request
_FUSE = {"gke-gcsfuse/volumes": "true"}


def manifests(service: ModelService, hardware: ReplicaHardware) -> list[Object]:
    """The objects of the service, in apply order."""
    settings, name = service.spec.vllm, service.metadata.name
    assert settings is not None
    annotations = {
        **(_FUSE if settings.cache or settings.model.source.startswith("gs://") else {}),
        **({} if service.spec.command else pod_spec.SIMULATED),
        **pod_spec.storage_access([settings.model.source]),
    }
    return [
        *objects.service_account(service),
        *workload.version_services(service, PORTS),
        *workload.policies(service, PORTS, "http"),
        *workload.deployments(service, lambda version: _pod(service, settings, hardware, version), annotations),
        *objects.autoscaler(service, name, METRIC),
        *objects.pod_monitoring(service, name, SERVER_COMPONENT, "http"),
    ]


def _pod(service: ModelService, settings: Vllm, hardware: ReplicaHardware, version: Version) -> Object:
    spec = service.spec
    volumes, mounts = _bucket_volumes(settings)
    server = pod_spec.container(
        "vllm",
        version.image or IMAGES[hardware.shape.kind],
        container_resources(spec, hardware),
        command=spec.command or ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        args=[*_args(settings, hardware, spec.drain_timeout), *version.args],
        env=pod_spec.env_vars(spec, {**_environment(settings), **version.env}),
        ports=PORTS,
        mounts=[{"name": "shared-memory", "mountPath": "/dev/shm"}, *mounts, *pod_spec.secret_mounts(spec)],
        read_only=spec.read_only_root_filesystem,
        **pod_spec.http_probes(spec, "/health", "/health"),
        **pod_spec.pre_stop(spec),
    )
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}
    volumes = [shared, *volumes, *pod_spec.secret_volumes(spec)]
    # For a Service named vllm, service links would set VLLM_PORT=tcp://…, which vLLM takes for its port.
    options = {"enableServiceLinks": False, **pod_spec.termination_grace_period(spec, _CLEANUP_SECONDS)}
    return pod_spec.build(spec, [server], hardware.nodes(), volumes=volumes, **options)


def _args(settings: Vllm, hardware: ReplicaHardware, drain_timeout: float) -> list[str]:
    source = settings.model.source
    if source.startswith("gs://"):
        source = f"{_MODELS}/{source.removeprefix('gs://').partition('/')[2]}"
    optional = {
        "dtype": settings.dtype if settings.dtype != "auto" else "",
        "quantization": QUANTIZATIONS[hardware.shape.kind].get(settings.quantization, ""),
        "max-model-len": settings.max_model_len,
        "max-num-seqs": settings.max_num_seqs,
        "download-dir": _CACHE if settings.cache else "",
    }
    return [
        f"--model={source}",
        f"--served-model-name={settings.model.name}",
        "--host=0.0.0.0",
        f"--port={PORTS['http']}",
        f"--tensor-parallel-size={settings.tensor_parallel or hardware.chips_per_host}",
        *(f"--{name}={value}" for name, value in optional.items() if value),
        # By default, vLLM aborts requests in flight on SIGTERM.
        f"--shutdown-timeout={max(int(drain_timeout), 1)}",
        # Prompts are private.
        "--no-enable-log-requests",
    ]


def _environment(settings: Vllm) -> dict[str, str | Object]:
    variables: dict[str, str | Object] = {
        "POD_IP": pod_spec.field_ref("status.podIP"),
        "HF_HOME": f"{pod_spec.SCRATCH}/huggingface",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if settings.token:
        variables["HF_TOKEN"] = {"valueFrom": {"secretKeyRef": {"name": settings.token.secret, "key": settings.token.key}}}
    return variables


def _bucket_volumes(settings: Vllm) -> tuple[list[Object], list[Object]]:
    """Volumes and mounts of buckets, through Cloud Storage FUSE."""
    volumes: list[Object] = []
    mounts: list[Object] = []
    if settings.cache:
        volumes.append(_fuse_volume("cache", settings.cache, read_only=False))
        mounts.append({"name": "cache", "mountPath": _CACHE})
    if settings.model.source.startswith("gs://"):
        bucket = settings.model.source.removeprefix("gs://").partition("/")[0]
        volumes.append(_fuse_volume("models", bucket, read_only=True))
        mounts.append({"name": "models", "mountPath": _MODELS, "readOnly": True})
    return volumes, mounts


def _fuse_volume(name: str, bucket: str, *, read_only: bool) -> Object:
    attributes = {"bucketName": bucket, "mountOptions": "implicit-dirs"}
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "readOnly": read_only, "volumeAttributes": attributes}
    return {"name": name, "csi": csi}
