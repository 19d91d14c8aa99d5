"""Saxml: an admin server, model servers with one slice each, and Jobs that convert checkpoints and publish models. Pure."""

from __future__ import annotations

import hashlib
import shlex
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import RUN_SECONDS, STORAGE_EXIT_CODE
from sliceworks.kube.pod_placement import node_pool_scheduling
from sliceworks.serving import objects, pod_spec, workload
from sliceworks.serving.hardware import container_resources, cpu_resources
from sliceworks.serving.sax_classes import DEFAULT_MODULE

if TYPE_CHECKING:
    from sliceworks.serving.hardware import ReplicaHardware
    from sliceworks.serving.workload import Version
    from sliceworks.specs.model_service import ModelService, Saxml, SaxModel

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "sax", "grpc", ""
IMAGE = "us-docker.pkg.dev/cloud-tpu-images/inference/sax-model-server:v1.1.0"
PORTS = {"grpc": 10001}
ADMIN_PORTS = {"grpc": 10000, "http": 8080}
_ADDRESS = "grpc://"
PUBLISHER = "publisher"
"""Component of the Jobs that publish models, which need a converted checkpoint and servers."""
CHIPS = {"v4": "tpuv4", "v5e": "tpuv5e"}
"""Sax's names of the supported chips."""
TOPOLOGIES = frozenset(
    {
        *("1x1", "2x2", "2x4", "4x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32", "1x1x1", "1x2x1", "2x2x1", "2x2x2"),
        *("2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x4x16", "4x8x8", "8x8x8", "8x8x12"),
    }
)
"""The supported topologies; a server with another one does not start."""

# A cell must be configured before a server can lead it. The image's script does both, but supports no other root than its bucket's
# and does not pass SIGTERM on.
_START = """\
set -eu
admin_config --sax_cell={cell} --sax_root={root} --fs_root=gs://{bucket}/sax-fs-root --alsologtostderr
exec admin_server --sax_cell={cell} --sax_root={root} --port={port} --alsologtostderr
"""


def root(settings: Saxml) -> str:
    """The Sax root: where the cell keeps its state."""
    return settings.root or f"gs://{settings.admin_bucket}/sax-root"


def led_cell(service: ModelService) -> str:
    """The place of the cell that the service's admin server leads; empty if it deploys none."""
    settings = service.spec.saxml
    if settings is None or root(settings).startswith(_ADDRESS):
        return ""
    return f"{root(settings).rstrip('/')}{settings.cell}"


def manifests(service: ModelService, hardware: ReplicaHardware) -> list[Object]:
    """The objects of the service, in apply order: conversions, admin server, model servers, publications."""
    settings = service.spec.saxml
    assert settings is not None
    is_multi_host = hardware.shape.multi_host
    return [
        *objects.service_account(service),
        *(workload.slice_services(service, PORTS) if is_multi_host else workload.version_services(service, PORTS)),
        *workload.policies(service, PORTS, hosts=hardware.shape.hosts),
        *conversion_jobs(service, settings),
        *(_admin(service, settings) if led_cell(service) else ()),
        *(
            workload.stateful_sets(service, hardware, _pod(service, settings, hardware, workload.list_versions(service)[0]))
            if is_multi_host
            else workload.deployments(service, lambda version: _pod(service, settings, hardware, version))
        ),
        *([_shell(service, settings)] if settings.shell else []),
        *publication_jobs(service, settings, root(settings)),
    ]


def _admin(service: ModelService, settings: Saxml) -> list[Object]:
    """The admin server. Its state is in the bucket, so that a replacement continues from there."""
    name = f"{service.metadata.name}-admin"
    probe = {"tcpSocket": {"port": "grpc"}, "periodSeconds": 10, "timeoutSeconds": 5}
    server = pod_spec.container(
        "admin",
        settings.admin_image,
        cpu_resources(settings.admin.cpu, settings.admin.memory),
        command=[
            "bash",
            "-c",
            _START.format(cell=settings.cell, root=root(settings), bucket=settings.admin_bucket, port=ADMIN_PORTS["grpc"]),
        ],
        env=_cell_env(settings),
        ports=ADMIN_PORTS,
        read_only=service.spec.read_only_root_filesystem,
        readinessProbe=probe,
        livenessProbe={**probe, "failureThreshold": 6},
    )
    pod = pod_spec.build(
        service.spec, [server], node_pool_scheduling(settings.admin.pool), **pod_spec.termination_grace_period(service.spec)
    )
    access = pod_spec.storage_access(writes=[f"{root(settings)}{settings.cell}/location.proto"])
    template = objects.pod_template(service, "admin", pod, **pod_spec.SIMULATED, **access)
    deployment = objects.deployment(service, name, "admin", template, replicas=1)
    # Two admin servers of one cell would compete for its leadership.
    deployment["spec"]["strategy"] = {"type": "Recreate"}
    return [
        objects.service_object(service, name, "admin", ADMIN_PORTS),
        objects.network_policy(service, name, "admin", workload.network_peers(service)),
        deployment,
    ]


def _pod(service: ModelService, settings: Saxml, hardware: ReplicaHardware, version: Version) -> Object:
    spec = service.spec
    server = pod_spec.container(
        "model-server",
        version.image or IMAGE,
        container_resources(spec, hardware),
        command=spec.command,
        args=[
            f"--port={PORTS['grpc']}",
            f"--sax_cell={settings.cell}",
            f"--platform_chip={chip(settings, hardware)}",
            f"--platform_topology={hardware.shape.topology}",
            "--jax_platforms=tpu",
            *version.args,
        ],
        env=pod_spec.env_vars(
            spec,
            {
                **{item["name"]: item["value"] for item in _cell_env(settings)},
                **workload.worker_env(service, hardware),
                **version.env,
            },
        ),
        ports=PORTS,
        mounts=pod_spec.secret_mounts(spec),
        read_only=spec.read_only_root_filesystem,
        **_probes(service, hardware),
        **pod_spec.pre_stop(spec),
    )
    return pod_spec.build(
        spec, [server], hardware.nodes(), volumes=pod_spec.secret_volumes(spec), **pod_spec.termination_grace_period(spec)
    )


def _probes(service: ModelService, hardware: ReplicaHardware) -> Object:
    """Probes of a server. In a multi-host slice only the first host listens."""
    probe: Object = {"tcpSocket": {"port": "grpc"}}
    if hardware.shape.multi_host:
        command = f'[ "$TPU_WORKER_ID" != 0 ] || exec 3<>/dev/tcp/127.0.0.1/{PORTS["grpc"]}'
        probe = {"exec": {"command": ["bash", "-c", command]}}
    return pod_spec.probes(service.spec, probe, probe)


def chip(settings: Saxml, hardware: ReplicaHardware) -> str:
    """Sax's name of the chip; empty if unsupported."""
    generation = getattr(hardware.shape, "generation", None)
    return settings.platform_chip or (CHIPS.get(generation.name, "") if generation else "")


def _shell(service: ModelService, settings: Saxml) -> Object:
    """A pod for interactive use of saxutil."""
    tool = pod_spec.container(
        "saxutil",
        settings.util_image,
        cpu_resources("100m", "256Mi"),
        command=["sleep", "infinity"],
        env=_cell_env(settings),
        read_only=service.spec.read_only_root_filesystem,
    )
    template = objects.pod_template(service, "shell", pod_spec.build(service.spec, [tool], {}), **pod_spec.SIMULATED)
    return objects.deployment(service, f"{service.metadata.name}-shell", "shell", template, replicas=1)


def _cell_env(settings: Saxml) -> list[Object]:
    return [{"name": "SAX_ROOT", "value": root(settings)}, {"name": "SAX_CELL", "value": settings.cell}]


_WORK_DIR = "/checkpoints"
_SIMULATED_CONVERSION = {RUN_SECONDS: "1200", **pod_spec.SIMULATED}
_SIMULATED_PUBLICATION = {RUN_SECONDS: "60", **pod_spec.SIMULATED}
_NOT_LOADED_EXIT_CODE = 3

# A failed step fails the Job. Orbax accepts a checkpoint in a bucket only if each of its folders contains commit_success.txt: these
# are uploaded after everything else, and finally a marker that a repeated Job checks.
_CONVERT = """\
set -euo pipefail
if gcloud storage ls {done}; then echo "already converted"; exit 0; fi
mkdir -p {folder}/base {folder}/pax
gcloud storage cp --recursive {source}/* {folder}/base
python3 -m {module} --base {folder}/base --pax {folder}/pax {args}
{quantize}cd {folder}/pax
[ -n "$(find . -type f)" ] || {{ echo "the converter wrote nothing" >&2; exit 1; }}
gcloud storage rsync --recursive . {target}
find . -type d -exec touch {{}}/commit_success.txt \\;
gcloud storage rsync --recursive . {target}
gcloud storage ls {target}/**/commit_success.txt
gcloud storage cp commit_success.txt {done}
"""

# Sax's tool reads and writes only the state; the rest of the checkpoint stays.
_QUANTIZE = """\
tools=$(python3 -c 'import saxml.tools; print(list(saxml.tools.__path__)[0])')
mv {folder}/pax/{checkpoint}/state {folder}/float
cd {folder}/pax/{checkpoint}
python3 "$tools/offline_quantize.py" --input_dir={folder}/float --output_dir="$PWD/state" --quantization_configs={name}
"""

# Publication returns at once, and a server loads the model later: the model is ready when it responds.
_WAIT = """\
until {saxutil} lm.generate {path} Hello; do
  if [ "$SECONDS" -ge {timeout} ]; then echo "no server has loaded the model; see their logs" >&2; exit {code}; fi
  sleep {pause}
done
{saxutil} ls {path}"""
_RETRY_SECONDS = 10


def model_class(model: SaxModel) -> str:
    """The model class with its module."""
    return model.model_class if "." in model.model_class else f"{DEFAULT_MODULE}.{model.model_class}"


def conversion_jobs(service: ModelService, settings: Saxml) -> list[Object]:
    """A Job for each model with a conversion."""
    return [_conversion_job(service, model) for model in settings.models if model.convert]


def _conversion_job(service: ModelService, model: SaxModel) -> Object:
    conversion = model.convert
    assert conversion is not None
    # The checkpoint is a folder such as checkpoint_00000000 in the output of the converter.
    target, _, checkpoint = model.checkpoint.rstrip("/").rpartition("/")
    source = conversion.source.rstrip("/")
    inputs = [source, conversion.module, *conversion.args, conversion.quantize or "", checkpoint]
    digest = hashlib.sha256(shlex.join(inputs).encode()).hexdigest()[:8]
    quantize = _QUANTIZE.format(folder=_WORK_DIR, checkpoint=shlex.quote(checkpoint), name=conversion.quantize)
    done = f"{target}/converted-{digest}"
    script = _CONVERT.format(
        folder=_WORK_DIR,
        source=shlex.quote(source),
        module=shlex.quote(conversion.module),
        args=shlex.join(conversion.args),
        quantize=quantize if conversion.quantize else "",
        target=shlex.quote(target),
        done=shlex.quote(done),
    )
    container = pod_spec.container(
        "convert",
        conversion.image,
        cpu_resources(conversion.cpu, conversion.memory),
        command=["bash", "-c", script],
        env=[{"name": "CLOUDSDK_CONFIG", "value": f"{pod_spec.SCRATCH}/gcloud"}, {"name": "JAX_PLATFORMS", "value": "cpu"}],
        mounts=[{"name": "checkpoints", "mountPath": _WORK_DIR}],
    )
    folder = {"name": "checkpoints", "emptyDir": {"sizeLimit": conversion.disk}}
    # It reads a foreign checkpoint: gcloud has its credentials from the metadata server, and the Kubernetes API is not needed.
    pod = pod_spec.build(
        service.spec, [container], node_pool_scheduling(conversion.pool), volumes=[folder], automountServiceAccountToken=False
    )
    access = pod_spec.storage_access([source], [f"{target}/{checkpoint}/commit_success.txt", done])
    template = objects.pod_template(service, "converter", pod, **_SIMULATED_CONVERSION, **access)
    return objects.job(service, "convert", "converter", template, backoff_limit=1)


def publication_jobs(service: ModelService, settings: Saxml, root: str) -> list[Object]:
    """A Job for each model that publishes it and replaces an earlier publication."""
    return [publication_job(service, settings, root, model.name) for model in settings.models] if settings.publish else []


def publication_job(service: ModelService, settings: Saxml, root: str, name: str) -> Object:
    """The Job that publishes one model."""
    model = next(model for model in settings.models if model.name == name)
    # A server that cannot load the checkpoint makes the Job fail.
    access = {**pod_spec.storage_access([model.checkpoint]), STORAGE_EXIT_CODE: str(_NOT_LOADED_EXIT_CODE)}
    return _saxutil_job(service, settings, root, _publish_commands(service, settings, model), access)


def unpublication_job(service: ModelService, settings: Saxml, root: str, model: str) -> Object:
    """The Job that unpublishes one model."""
    return _saxutil_job(service, settings, root, [_unpublish_command(settings, f"{settings.cell}/{model}")], {})


def _publish_commands(service: ModelService, settings: Saxml, model: SaxModel) -> list[str]:
    path = f"{settings.cell}/{model.name}"
    arguments = [path, model_class(model), model.checkpoint, str(model.replicas or max(service.spec.replicas, 1))]
    quoted = shlex.quote(path)
    timeout, saxutil = int(service.spec.startup_timeout), _saxutil(settings)
    wait = _WAIT.format(path=quoted, timeout=timeout, pause=_RETRY_SECONDS, code=_NOT_LOADED_EXIT_CODE, saxutil=saxutil)
    # Sax can update only the number of servers of a published model.
    return [_unpublish_command(settings, path), f"{saxutil} publish {shlex.join(arguments)}", wait]


def _saxutil(settings: Saxml) -> str:
    return shlex.join(settings.util_command or ["saxutil"])


def _unpublish_command(settings: Saxml, path: str) -> str:
    """An interrupted Job may have unpublished the model already."""
    quoted, saxutil = shlex.quote(path), _saxutil(settings)
    return f"if {saxutil} ls {quoted}; then {saxutil} unpublish {quoted}; fi"


def _saxutil_job(service: ModelService, settings: Saxml, root: str, commands: list[str], access: dict[str, str]) -> Object:
    container = pod_spec.container(
        "saxutil",
        settings.util_image,
        cpu_resources("500m", "512Mi"),
        command=["bash", "-c", "\n".join(["set -euo pipefail", *commands])],
        env=[{"name": "SAX_ROOT", "value": root}],
    )
    pod = pod_spec.build(service.spec, [container], {})
    runtime = {} if settings.util_command else _SIMULATED_PUBLICATION
    template = objects.pod_template(service, PUBLISHER, pod, **runtime, **access)
    # Publishing again does not help a server that cannot load the model.
    fail = {"action": "FailJob", "onExitCodes": {"containerName": "saxutil", "operator": "In", "values": [_NOT_LOADED_EXIT_CODE]}}
    return objects.job(service, "publish", PUBLISHER, template, backoff_limit=6, podFailurePolicy={"rules": [fail]})
