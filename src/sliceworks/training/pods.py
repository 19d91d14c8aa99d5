"""The pod of one host of a slice. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.catalog import placing
from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.training import storage
from sliceworks.training.variables import variables

if TYPE_CHECKING:
    from sliceworks.specs.training import TrainingJob, TrainingSpec
    from sliceworks.training.shapes import Ask

Object = dict[str, Any]
CONTAINER = "trainer"
SHARED_MEMORY = "/dev/shm"
_SHARE = Fraction(3, 4)  # of what a host leaves to pods: agents of the node need the rest
_NOTICE = 25  # seconds between the word that a spot machine is taken and its end
_PORTS = (("tpu", 8471), ("megascale", 8080))


def template(job: TrainingJob, ask: Ask, script: str) -> Object:
    """Its metadata and its spec."""
    spec = job.spec
    annotations = storage.markers(spec)
    if spec.estimate is not None:
        annotations[RUN_SECONDS] = f"{spec.estimate:g}"
    metadata: Object = {**({"labels": dict(job.metadata.labels)} if job.metadata.labels else {})}
    if annotations:
        metadata["annotations"] = annotations
    return {**({"metadata": metadata} if metadata else {}), "spec": _pod(job, ask, script)}


def _pod(job: TrainingJob, ask: Ask, script: str) -> Object:
    spec, host_network = job.spec, ask.is_tpu and ask.joined
    found: Object = {"restartPolicy": "Never"}
    if spec.service_account:
        found["serviceAccountName"] = spec.service_account
    if host_network:
        found |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if ask.capacity == "spot":
        found["terminationGracePeriodSeconds"] = _NOTICE
    else:
        found["affinity"] = placing.affinity(ask.capacity)
    user = {"runAsUser": spec.user, "runAsGroup": spec.user, "fsGroup": spec.user}
    found |= {
        "nodeSelector": ask.selector(),
        "tolerations": ask.tolerations(),
        "securityContext": {"runAsNonRoot": True, **user, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(job, ask, script)],
    }
    volumes = [*storage.volumes(spec, host_network=host_network), *_shared_memory(spec)]
    return {**found, **({"volumes": volumes} if volumes else {})}


def _shared_memory(spec: TrainingSpec) -> list[Object]:
    """Memory that the processes of a host share. A container has 64 MiB of it by itself, which loaders of data and NCCL outgrow."""
    if any(each.mount_path.rstrip("/") == SHARED_MEMORY for each in spec.volumes):
        return []
    return [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]


def _container(job: TrainingJob, ask: Ask, script: str) -> Object:
    spec = job.spec
    env, mounts = variables(job, ask), storage.mounts(spec)
    mounts += [{"name": each["name"], "mountPath": SHARED_MEMORY} for each in _shared_memory(spec)]
    ports = [{"name": name, "containerPort": port} for name, port in _PORTS] if ask.is_tpu else []
    return {
        "name": CONTAINER,
        "image": spec.image,
        **_program(spec, script),
        **({"env": env} if env else {}),
        **({"ports": ports} if ports else {}),
        "resources": _resources(spec, ask),
        **({"volumeMounts": mounts} if mounts else {}),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _program(spec: TrainingSpec, script: str) -> Object:
    if spec.script:
        shell = "python3" if spec.script.endswith(".py") else "bash"
        return {"command": [shell, "-c", script]}
    return {**({"command": spec.command} if spec.command else {}), **({"args": spec.args} if spec.args else {})}


def _resources(spec: TrainingSpec, ask: Ask) -> Object:
    """All chips of the host, and of its CPU and memory as much as a queue can count on."""
    left = ask.shape.machine.allocatable()
    cpu = str(max(int(quantity.parse(left["cpu"]) * _SHARE), 1))
    memory = f"{int(quantity.parse(left['memory']) * _SHARE) // 2**30}Gi"
    chips = {ask.shape.resource: str(ask.shape.chips_per_host)}
    return {"requests": {"cpu": spec.cpu or cpu, "memory": spec.memory or memory, **chips}, "limits": chips}
