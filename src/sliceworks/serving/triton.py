"""Triton: servers with explicit model control over a model repository. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.serving import objects, pod_spec, workload
from sliceworks.serving.hardware import container_resources, cpu_resources
from sliceworks.serving.objects import SERVER_COMPONENT

if TYPE_CHECKING:
    from sliceworks.serving.hardware import ReplicaHardware
    from sliceworks.serving.workload import Version
    from sliceworks.specs.model_service import ModelService, Triton

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "triton", "http", "grpc"
IMAGE = "nvcr.io/nvidia/tritonserver:25.08-py3"
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
_SIMULATED_COPY = {RUN_SECONDS: "30", **pod_spec.SIMULATED}
METRIC = "nv_inference_pending_request_count"
"""Requests in Triton's queue."""


def manifests(service: ModelService, hardware: ReplicaHardware | None) -> list[Object]:
    """The objects of the service, in apply order."""
    settings, name = service.spec.triton, service.metadata.name
    assert settings is not None
    return [
        *objects.service_account(service),
        *workload.version_services(service, PORTS),
        *workload.policies(service, PORTS, "metrics"),
        *_copy_job(service, settings),
        *workload.deployments(
            service,
            lambda version: _pod(service, settings, hardware, version),
            pod_spec.storage_access([settings.repository] if settings.load == "all" else _folders(settings).values()),
        ),
        *objects.autoscaler(service, name, METRIC),
        *objects.pod_monitoring(service, name, SERVER_COMPONENT, "metrics"),
    ]


def _pod(service: ModelService, settings: Triton, hardware: ReplicaHardware | None, version: Version) -> Object:
    spec = service.spec
    args = [
        f"--model-repository={settings.repository}",
        # Models are loaded and unloaded by name. A server listens once it has loaded the models below, and exits if it cannot.
        # With strict readiness, one failed load of a published model would make the server unready for all its models.
        "--model-control-mode=explicit",
        *(f"--load-model={name}" for name in (["*"] if settings.load == "all" else [model.name for model in settings.models])),
        "--strict-readiness=false",
        "--exit-on-error=true",
        f"--exit-timeout-secs={int(spec.drain_timeout)}",
        *([f"--log-verbose={settings.log_verbose}"] if settings.log_verbose else []),
        *version.args,
    ]
    server = pod_spec.container(
        "triton",
        version.image or IMAGE,
        container_resources(spec, hardware),
        command=spec.command or ["tritonserver"],
        args=args,
        env=[*pod_spec.env_vars(spec, {"POD_IP": pod_spec.field_ref("status.podIP"), **version.env})],
        ports=PORTS,
        mounts=[{"name": "shared-memory", "mountPath": "/dev/shm"}, *pod_spec.secret_mounts(spec)],
        read_only=spec.read_only_root_filesystem,
        **pod_spec.http_probes(spec, "/v2/health/ready", "/v2/health/live"),
        **pod_spec.pre_stop(spec),
    )
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    nodes = hardware.nodes() if hardware else {}
    return pod_spec.build(
        spec, [server], nodes, volumes=[shared, *pod_spec.secret_volumes(spec)], **pod_spec.termination_grace_period(spec)
    )


def _folders(settings: Triton) -> dict[str, str]:
    """The folder of each model in the repository."""
    return {model.name: f"{settings.repository.rstrip('/')}/{model.name}" for model in settings.models}


def _copy_job(service: ModelService, settings: Triton) -> list[Object]:
    """The Job that copies models with a source into the repository."""
    folders = _folders(settings)
    sources = {model.source: folders[model.name] for model in settings.models if model.source}
    commands = [f"gcloud storage rsync --recursive {source} {folder}" for source, folder in sources.items()]
    if not commands:
        return []
    script = "\n".join(["set -euo pipefail", *commands])
    env = [{"name": "CLOUDSDK_CONFIG", "value": f"{pod_spec.SCRATCH}/gcloud"}]
    copier = pod_spec.container(
        "copy", settings.copy_image, cpu_resources("250m", "512Mi"), command=["bash", "-c", script], env=env
    )
    access = pod_spec.storage_access(sources, [f"{folder}/config.pbtxt" for folder in sources.values()])
    template = objects.pod_template(service, "copy", pod_spec.build(service.spec, [copier], {}), **_SIMULATED_COPY, **access)
    return [objects.job(service, "copy", "copy", template)]
