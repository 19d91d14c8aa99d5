"""Saxml: an admin server, model servers with a slice each, a shell, and Jobs that convert checkpoints and publish models. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube.gke import pool
from sliceworks.serving import objects, pods, sax_jobs, slices, versions
from sliceworks.serving.machines import resources, small

if TYPE_CHECKING:
    from sliceworks.serving.machines import Machines
    from sliceworks.serving.versions import Version
    from sliceworks.specs.serving import ModelService, Saxml

Object = dict[str, Any]
KIND, PORT, GRPC_PORT = "sax", "grpc", ""
IMAGE = "us-docker.pkg.dev/cloud-tpu-images/inference/sax-model-server:v1.1.0"
PORTS = {"grpc": 10001}
ADMIN_PORTS = {"grpc": 10000, "http": 8080}
CHIPS = {"v4": "tpuv4", "v5e": "tpuv5e"}
"""What Sax calls the chips that it knows."""
TOPOLOGIES = frozenset(
    {
        *("1x1", "2x2", "2x4", "4x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32", "1x1x1", "1x2x1", "2x2x1", "2x2x2"),
        *("2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x4x16", "4x8x8", "8x8x8", "8x8x12"),
    }
)
"""The shapes of slices that it knows; a server with another one does not start."""
# A cell must be written down before a server can lead it. The image's own script does both, but knows no root than its bucket's and
# keeps the signal to end for itself.
_START = """\
set -eu
admin_config --sax_cell={cell} --sax_root={root} --fs_root=gs://{bucket}/sax-fs-root --alsologtostderr
exec admin_server --sax_cell={cell} --sax_root={root} --port={port} --alsologtostderr
"""


def root(part: Saxml) -> str:
    """Where the cell keeps what it knows."""
    return part.root or f"gs://{part.admin_bucket}/sax-root"


def manifests(service: ModelService, found: Machines) -> list[Object]:
    """In the order in which they are applied: checkpoints, the admin server, model servers, and then the models."""
    part, name = service.spec.saxml, service.metadata.name
    assert part is not None
    several = found.shape.multi_host
    return [
        *objects.account(service),
        objects.service_object(service, f"{name}-admin", "admin", ADMIN_PORTS),
        *(slices.services(service, PORTS) if several else versions.services(service, PORTS)),
        *versions.guards(service, PORTS, hosts=found.shape.hosts),
        objects.network_policy(service, f"{name}-admin", "admin", versions.peers(service)),
        *sax_jobs.conversions(service, part),
        _admin(service, part),
        *(
            slices.stateful_sets(service, found, _pod(service, part, found, versions.versions(service)[0]))
            if several
            else versions.deployments(service, lambda version: _pod(service, part, found, version))
        ),
        *([_shell(service, part)] if part.shell else []),
        *sax_jobs.publications(service, part, root(part)),
    ]


def _admin(service: ModelService, part: Saxml) -> Object:
    """One admin server: what it knows is in the bucket, so that another one goes on where it left off."""
    asked = {"tcpSocket": {"port": "grpc"}, "periodSeconds": 10, "timeoutSeconds": 5}
    server = pods.container(
        "admin",
        part.admin_image,
        small(part.admin.cpu, part.admin.memory),
        command=["bash", "-c", _START.format(cell=part.cell, root=root(part), bucket=part.admin_bucket, port=ADMIN_PORTS["grpc"])],
        env=_cell(part),
        ports=ADMIN_PORTS,
        read_only=service.spec.read_only_root,
        readinessProbe=asked,
        livenessProbe={**asked, "failureThreshold": 6},
    )
    pod = pods.pod(service.spec, [server], pool(part.admin.pool), **pods.grace(service.spec))
    template = objects.template(service, "admin", pod, **pods.SIMULATED)
    found = objects.deployment(service, f"{service.metadata.name}-admin", "admin", template, replicas=1)
    # Two admin servers of one cell would both want to lead it.
    found["spec"]["strategy"] = {"type": "Recreate"}
    return found


def _pod(service: ModelService, part: Saxml, found: Machines, version: Version) -> Object:
    spec = service.spec
    server = pods.container(
        "model-server",
        version.image or IMAGE,
        resources(spec, found),
        command=spec.command,
        args=[
            f"--port={PORTS['grpc']}",
            f"--sax_cell={part.cell}",
            f"--platform_chip={chip(part, found)}",
            f"--platform_topology={found.shape.topology}",
            "--jax_platforms=tpu",
            *version.args,
        ],
        env=pods.variables(
            spec, {**{each["name"]: each["value"] for each in _cell(part)}, **slices.worker(service, found), **version.env}
        ),
        ports=PORTS,
        mounts=pods.secret_mounts(spec),
        read_only=spec.read_only_root,
        **_probes(service, found),
        **pods.drain(spec),
    )
    return pods.pod(spec, [server], found.nodes(), volumes=pods.secret_volumes(spec), **pods.grace(spec))


def _probes(service: ModelService, found: Machines) -> Object:
    """Of a slice only the first host answers callers; the others follow it."""
    asked: Object = {"tcpSocket": {"port": "grpc"}}
    if found.shape.multi_host:
        follows = f'[ "$TPU_WORKER_ID" != 0 ] || exec 3<>/dev/tcp/127.0.0.1/{PORTS["grpc"]}'
        asked = {"exec": {"command": ["bash", "-c", follows]}}
    return pods.probes(service.spec, asked, asked)


def chip(part: Saxml, found: Machines) -> str:
    """Sax's name of the chip; empty where it has none."""
    generation = getattr(found.shape, "generation", None)
    return part.platform_chip or (CHIPS.get(generation.name, "") if generation else "")


def _shell(service: ModelService, part: Saxml) -> Object:
    """A pod that waits for somebody to run saxutil in it."""
    tool = pods.container(
        "saxutil",
        part.util_image,
        small("100m", "256Mi"),
        command=["sleep", "infinity"],
        env=_cell(part),
        read_only=service.spec.read_only_root,
    )
    template = objects.template(service, "shell", pods.pod(service.spec, [tool], {}), **pods.SIMULATED)
    return objects.deployment(service, f"{service.metadata.name}-shell", "shell", template, replicas=1)


def _cell(part: Saxml) -> list[Object]:
    return [{"name": "SAX_ROOT", "value": root(part)}, {"name": "SAX_CELL", "value": part.cell}]
