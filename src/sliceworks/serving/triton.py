"""Triton: servers with a model repository in a bucket, loaded model by model. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.serving import objects, pods, versions
from sliceworks.serving.machines import resources, small
from sliceworks.serving.naming import SERVER

if TYPE_CHECKING:
    from sliceworks.serving.machines import Machines
    from sliceworks.serving.versions import Version
    from sliceworks.specs.serving import ModelService, Triton

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "triton", "http", "grpc"
IMAGE = "nvcr.io/nvidia/tritonserver:25.08-py3"
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
_COPYING = {RUN_SECONDS: "30", **pods.SIMULATED}
METRIC = "nv_inference_pending_request_count"
"""Requests that wait in Triton's own queue."""


def manifests(service: ModelService, found: Machines | None) -> list[Object]:
    """In the order in which they are applied."""
    part, name = service.spec.triton, service.metadata.name
    assert part is not None
    return [
        *objects.account(service),
        *versions.services(service, PORTS),
        *versions.guards(service, PORTS, "metrics"),
        *_copies(service, part),
        *versions.deployments(service, lambda version: _pod(service, part, found, version)),
        *objects.autoscaler(service, name, METRIC),
        *objects.monitoring(service, name, SERVER, "metrics"),
    ]


def _pod(service: ModelService, part: Triton, found: Machines | None, version: Version) -> Object:
    spec = service.spec
    args = [
        f"--model-repository={part.repository}",
        # Models come and go by name. A server listens once it has all that it was told to load, and ends where it cannot; strictly
        # asked it would never be ready again after a model that somebody published could not be loaded, for all its other models.
        "--model-control-mode=explicit",
        *(f"--load-model={name}" for name in (["*"] if part.load == "all" else [model.name for model in part.models])),
        "--strict-readiness=false",
        "--exit-on-error=true",
        f"--exit-timeout-secs={int(spec.drain)}",
        *([f"--log-verbose={part.log_verbose}"] if part.log_verbose else []),
        *version.args,
    ]
    server = pods.container(
        "triton",
        version.image or IMAGE,
        resources(spec, found),
        command=spec.command or ["tritonserver"],
        args=args,
        env=[*pods.variables(spec, {"POD_IP": pods.from_field("status.podIP"), **version.env})],
        ports=PORTS,
        mounts=[{"name": "shared-memory", "mountPath": "/dev/shm"}, *pods.secret_mounts(spec)],
        read_only=spec.read_only_root,
        **pods.http_probes(spec, "http", "/v2/health/ready", "/v2/health/live"),
        **pods.drain(spec),
    )
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    nodes = found.nodes() if found else {}
    return pods.pod(spec, [server], nodes, volumes=[shared, *pods.secret_volumes(spec)], **pods.grace(spec))


def _copies(service: ModelService, part: Triton) -> list[Object]:
    """A Job that copies models into the repository, where some come from elsewhere."""
    lines = [
        f"gcloud storage rsync --recursive {model.source} {part.repository.rstrip('/')}/{model.name}"
        for model in part.models
        if model.source
    ]
    if not lines:
        return []
    script = "\n".join(["set -euo pipefail", *lines])
    env = [{"name": "CLOUDSDK_CONFIG", "value": f"{pods.SCRATCH}/gcloud"}]
    copier = pods.container("copy", part.copy_image, small("250m", "512Mi"), command=["bash", "-c", script], env=env)
    template = objects.template(service, "copy", pods.pod(service.spec, [copier], {}), **_COPYING)
    return [objects.job(service, "copy", "copy", template)]
