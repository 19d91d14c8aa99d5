"""JetStream: MaxEngine on one TPU host for each replica, its HTTP server beside it, and a Job that loads the checkpoint. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.serving import objects, pods, versions
from sliceworks.serving.machines import resources, small
from sliceworks.serving.naming import SERVER

if TYPE_CHECKING:
    from sliceworks.serving.machines import Machines
    from sliceworks.serving.versions import Version
    from sliceworks.specs.serving import JetStream, ModelService

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "jetstream", "http", "grpc"
IMAGE = "us-docker.pkg.dev/cloud-tpu-images/inference/maxengine-server:v0.2.2"
PORTS = {"http": 8000, "grpc": 9000}
METRIC = "jetstream_prefill_backlog_size"
_METRICS = 9090
_SECRET_FOR_GROUP = 0o440
_LOADING = {RUN_SECONDS: "1200"}
"""On a twin, where nothing is downloaded; without meaning elsewhere."""


def manifests(service: ModelService, found: Machines) -> list[Object]:
    """In the order in which they are applied: the checkpoint is there before a server asks for it."""
    part, name = service.spec.jetstream, service.metadata.name
    assert part is not None
    return [
        *objects.account(service),
        *versions.services(service, PORTS),
        *versions.guards(service, PORTS, "metrics"),
        *_loader(service, part, found),
        *versions.deployments(service, lambda version: _pod(service, part, found, version)),
        *objects.autoscaler(service, name, METRIC),
        *objects.monitoring(service, name, SERVER, "metrics"),
    ]


def _pod(service: ModelService, part: JetStream, found: Machines, version: Version) -> Object:
    spec = service.spec
    asked = {"tcpSocket": {"port": "grpc"}}
    engine = pods.container(
        "maxengine",
        version.image or IMAGE,
        resources(spec, found),
        command=spec.command,
        args=[*(f"{key}={value}" for key, value in _settings(part).items()), *version.args],
        env=pods.variables(spec, {"POD_IP": pods.from_field("status.podIP"), **version.env}),
        ports={"grpc": PORTS["grpc"], "metrics": _METRICS},
        mounts=pods.secret_mounts(spec),
        read_only=spec.read_only_root,
        **pods.probes(spec, asked, asked),
        **pods.drain(spec),
    )
    alive = {"httpGet": {"path": "/v1/health", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 5}
    http = pods.container(
        "http",
        part.http_image,
        small("1", "1Gi"),
        ports={"http": PORTS["http"]},
        read_only=spec.read_only_root,
        readinessProbe=alive,
        **pods.drain(spec),
    )
    return pods.pod(spec, [engine, http], found.nodes(), volumes=pods.secret_volumes(spec), **pods.grace(spec))


def _settings(part: JetStream) -> dict[str, str]:
    """MaxText's settings: all chips share each layer; what the document sets itself wins."""
    return {
        "model_name": part.model.maxtext_name or part.model.name,
        "tokenizer_path": part.model.tokenizer,
        "per_device_batch_size": str(part.per_device_batch_size),
        "max_prefill_predict_length": str(part.max_prefill_length),
        "max_target_length": str(part.max_target_length),
        "async_checkpointing": "false",
        "ici_fsdp_parallelism": "1",
        "ici_autoregressive_parallelism": "-1",
        "ici_tensor_parallelism": "1",
        "scan_layers": "false",
        "weight_dtype": "bfloat16",
        "load_parameters_path": part.model.checkpoint,
        "prometheus_port": str(_METRICS),
        **part.settings,
    }


def _loader(service: ModelService, part: JetStream, found: Machines) -> list[Object]:
    """It converts on the same kind of machine, before the servers take it."""
    if part.loader is None:
        return []
    spec, loader = service.spec, part.loader
    kaggle = {"name": "kaggle", "secret": {"secretName": loader.kaggle_secret, "defaultMode": _SECRET_FOR_GROUP}}
    container = pods.container(
        "load",
        loader.image,
        resources(spec, found),
        args=[f"-b={part.bucket}", f"-m={loader.model}"],
        mounts=[{"name": "kaggle", "mountPath": "/kaggle", "readOnly": True}],
        read_only=False,
    )
    template = objects.template(service, "loader", pods.pod(spec, [container], found.nodes(), volumes=[kaggle]), **_LOADING)
    return [objects.job(service, "loader", "loader", template)]
