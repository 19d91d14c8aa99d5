"""vLLM on one TPU host or one GPU machine for each replica. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.serving import objects, pods, versions
from sliceworks.serving.machines import resources
from sliceworks.serving.naming import SERVER

if TYPE_CHECKING:
    from sliceworks.serving.machines import Machines
    from sliceworks.serving.versions import Version
    from sliceworks.specs.serving import ModelService, Vllm

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "openai", "http", ""
IMAGES = {"tpu": "vllm/vllm-tpu:v0.27.0", "gpu": "vllm/vllm-openai:v0.27.0"}
PORTS = {"http": 8000}
METRIC = "vllm:num_requests_waiting"
QUANTIZATIONS = {
    "gpu": {"int8": "int8_per_channel_weight_only", "fp8": "fp8", "awq": "awq", "gptq": "gptq"},
    "tpu": {"fp8": "fp8", "awq": "awq"},
}
"""What vLLM calls them, where it has them."""
_CACHE, _MODELS = "/cache", "/models"
_ENDING = 20  # seconds in which it lets go of its chips once all is answered
_FUSE = {"gke-gcsfuse/volumes": "true"}


def manifests(service: ModelService, found: Machines) -> list[Object]:
    """In the order in which they are applied."""
    part, name = service.spec.vllm, service.metadata.name
    assert part is not None
    notes = {
        **(_FUSE if part.cache or part.model.source.startswith("gs://") else {}),
        **({} if service.spec.command else pods.SIMULATED),
    }
    return [
        *objects.account(service),
        *versions.services(service, PORTS),
        *versions.guards(service, PORTS, "http"),
        *versions.deployments(service, lambda version: _pod(service, part, found, version), notes),
        *objects.autoscaler(service, name, METRIC),
        *objects.monitoring(service, name, SERVER, "http"),
    ]


def _pod(service: ModelService, part: Vllm, found: Machines, version: Version) -> Object:
    spec = service.spec
    volumes, mounts = _storage(part)
    server = pods.container(
        "vllm",
        version.image or IMAGES[found.shape.kind],
        resources(spec, found),
        command=spec.command or ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        args=[*_args(part, found, spec.drain), *version.args],
        env=pods.variables(spec, {**_told(part), **version.env}),
        ports=PORTS,
        mounts=[{"name": "shared-memory", "mountPath": "/dev/shm"}, *mounts, *pods.secret_mounts(spec)],
        read_only=spec.read_only_root,
        **pods.http_probes(spec, "http", "/health", "/health"),
        **pods.drain(spec),
    )
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}
    volumes = [shared, *volumes, *pods.secret_volumes(spec)]
    # A Service that is called vllm would else be told of as VLLM_PORT=tcp://…, which vLLM takes for a port of its own.
    more = {"enableServiceLinks": False, **pods.grace(spec, _ENDING)}
    return pods.pod(spec, [server], found.nodes(), volumes=volumes, **more)


def _args(part: Vllm, found: Machines, drain: float) -> list[str]:
    source = part.model.source
    if source.startswith("gs://"):
        source = f"{_MODELS}/{source.removeprefix('gs://').partition('/')[2]}"
    optional = {
        "dtype": part.dtype if part.dtype != "auto" else "",
        "quantization": QUANTIZATIONS[found.shape.kind].get(part.quantization, ""),
        "max-model-len": part.max_model_len,
        "max-num-seqs": part.max_num_seqs,
        "download-dir": _CACHE if part.cache else "",
    }
    return [
        f"--model={source}",
        f"--served-model-name={part.model.name}",
        "--host=0.0.0.0",
        f"--port={PORTS['http']}",
        f"--tensor-parallel-size={part.tensor_parallel or found.chips_per_host}",
        *(f"--{name}={value}" for name, value in optional.items() if value),
        # Without this it cuts off what it is answering as soon as it is told to end.
        f"--shutdown-timeout={max(int(drain), 1)}",
        # Prompts belong to those who write them.
        "--no-enable-log-requests",
    ]


def _told(part: Vllm) -> dict[str, str | Object]:
    found: dict[str, str | Object] = {
        "POD_IP": pods.from_field("status.podIP"),
        "HF_HOME": f"{pods.SCRATCH}/huggingface",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if part.token:
        found["HF_TOKEN"] = {"valueFrom": {"secretKeyRef": {"name": part.token.secret, "key": part.token.key}}}
    return found


def _storage(part: Vllm) -> tuple[list[Object], list[Object]]:
    """Buckets that are seen as folders."""
    volumes: list[Object] = []
    mounts: list[Object] = []
    if part.cache:
        volumes.append(_bucket("cache", part.cache, read_only=False))
        mounts.append({"name": "cache", "mountPath": _CACHE})
    if part.model.source.startswith("gs://"):
        bucket = part.model.source.removeprefix("gs://").partition("/")[0]
        volumes.append(_bucket("models", bucket, read_only=True))
        mounts.append({"name": "models", "mountPath": _MODELS, "readOnly": True})
    return volumes, mounts


def _bucket(name: str, bucket: str, *, read_only: bool) -> Object:
    attributes = {"bucketName": bucket, "mountOptions": "implicit-dirs"}
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "readOnly": read_only, "volumeAttributes": attributes}
    return {"name": name, "csi": csi}
