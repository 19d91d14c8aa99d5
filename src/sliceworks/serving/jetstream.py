"""JetStream: MaxEngine and its HTTP server on one TPU host per replica, and a Job that loads the checkpoint. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.serving import objects, pod_spec, workload
from sliceworks.serving.hardware import container_resources, cpu_resources
from sliceworks.serving.objects import SERVER_COMPONENT

if TYPE_CHECKING:
    from sliceworks.serving.hardware import ReplicaHardware
    from sliceworks.serving.workload import Version
    from sliceworks.specs.model_service import JetStream, ModelService

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "jetstream", "http", "grpc"
IMAGE = "us-docker.pkg.dev/cloud-tpu-images/inference/maxengine-server:v0.2.2"
PORTS = {"http": 8000, "grpc": 9000}
METRIC = "jetstream_prefill_backlog_size"
_METRICS_PORT = 9090
_GROUP_READABLE = 0o440
_SIMULATED_LOAD = {RUN_SECONDS: "1200"}
"""Duration of the simulated Job on a twin; ignored elsewhere."""


def manifests(service: ModelService, hardware: ReplicaHardware) -> list[Object]:
    """The objects of the service, in apply order: the checkpoint is loaded before a server needs it."""
    settings, name = service.spec.jetstream, service.metadata.name
    assert settings is not None
    return [
        *objects.service_account(service),
        *workload.version_services(service, PORTS),
        *workload.policies(service, PORTS, "metrics"),
        *_loader(service, settings, hardware),
        *workload.deployments(
            service,
            lambda version: _pod(service, settings, hardware, version),
            pod_spec.storage_access([settings.model.checkpoint]),
        ),
        *objects.autoscaler(service, name, METRIC),
        *objects.pod_monitoring(service, name, SERVER_COMPONENT, "metrics"),
    ]


def _pod(service: ModelService, settings: JetStream, hardware: ReplicaHardware, version: Version) -> Object:
    spec = service.spec
    probe = {"tcpSocket": {"port": "grpc"}}
    engine = pod_spec.container(
        "maxengine",
        version.image or IMAGE,
        container_resources(spec, hardware),
        command=spec.command,
        args=[*(f"{key}={value}" for key, value in _maxtext_settings(settings).items()), *version.args],
        env=pod_spec.env_vars(spec, {"POD_IP": pod_spec.field_ref("status.podIP"), **version.env}),
        ports={"grpc": PORTS["grpc"], "metrics": _METRICS_PORT},
        mounts=pod_spec.secret_mounts(spec),
        read_only=spec.read_only_root_filesystem,
        **pod_spec.probes(spec, probe, probe),
        **pod_spec.pre_stop(spec),
    )
    http_probe = {"httpGet": {"path": "/v1/health", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 5}
    http = pod_spec.container(
        "http",
        settings.http_image,
        cpu_resources("1", "1Gi"),
        ports={"http": PORTS["http"]},
        read_only=spec.read_only_root_filesystem,
        readinessProbe=http_probe,
        **pod_spec.pre_stop(spec),
    )
    return pod_spec.build(
        spec, [engine, http], hardware.nodes(), volumes=pod_spec.secret_volumes(spec), **pod_spec.termination_grace_period(spec)
    )


def _maxtext_settings(settings: JetStream) -> dict[str, str]:
    """MaxText's settings, with the document's on top. All chips share each layer."""
    return {
        "model_name": settings.model.maxtext_name or settings.model.name,
        "tokenizer_path": settings.model.tokenizer,
        "per_device_batch_size": str(settings.per_device_batch_size),
        "max_prefill_predict_length": str(settings.max_prefill_length),
        "max_target_length": str(settings.max_target_length),
        "async_checkpointing": "false",
        "ici_fsdp_parallelism": "1",
        "ici_autoregressive_parallelism": "-1",
        "ici_tensor_parallelism": "1",
        "scan_layers": "false",
        "weight_dtype": "bfloat16",
        "load_parameters_path": settings.model.checkpoint,
        "prometheus_port": str(_METRICS_PORT),
        **settings.settings,
    }


def _loader(service: ModelService, settings: JetStream, hardware: ReplicaHardware) -> list[Object]:
    """The Job that loads the checkpoint, on the same hardware as the servers."""
    if settings.loader is None:
        return []
    spec, loader = service.spec, settings.loader
    kaggle = {"name": "kaggle", "secret": {"secretName": loader.kaggle_secret, "defaultMode": _GROUP_READABLE}}
    container = pod_spec.container(
        "load",
        loader.image,
        container_resources(spec, hardware),
        args=[f"-b={settings.bucket}", f"-m={loader.model}"],
        mounts=[{"name": "kaggle", "mountPath": "/kaggle", "readOnly": True}],
        read_only=False,
    )
    access = pod_spec.storage_access(writes=[f"{settings.model.checkpoint.rstrip('/')}/commit_success.txt"])
    pod = pod_spec.build(spec, [container], hardware.nodes(), volumes=[kaggle])
    template = objects.pod_template(service, "loader", pod, **_SIMULATED_LOAD, **access)
    return [objects.job(service, "loader", "loader", template)]
