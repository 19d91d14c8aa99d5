"""Random clusters in which jobs cannot run: queues are stopped, nodes are unusable, objects are missing, programs are dead.

`explain_all` runs `train why` for every job that does not run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import ApiError
from sliceworks.cli.train_show import diagnose
from sliceworks.kube.client import Client
from sliceworks.kube.resources import NAMESPACE, NODE, POD, Resource
from sliceworks.platform.controller_host import list_restartables
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.training.diagnosis.model import Diagnosis

Obj = dict[str, Any]
_GROUP = "kueue.x-k8s.io"
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
_LOCAL_QUEUE = Resource(_GROUP, "v1beta2", "LocalQueue", "localqueues")
_CLUSTER_QUEUE = Resource(_GROUP, "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
_FLAVOR = Resource(_GROUP, "v1beta2", "ResourceFlavor", "resourceflavors", namespaced=False)
_WORKLOAD = Resource(_GROUP, "v1beta2", "Workload", "workloads")
_SETTLED = 400.0
"""Seconds after which every controller has done what it can."""


@dataclass
class World:
    """One cluster, the jobs that were submitted, and what was put in their way."""

    cluster: Cluster
    client: Client
    random: Random
    jobs: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    job: Obj = field(default_factory=dict)
    """Fields that later JobSets have."""
    pod: Obj = field(default_factory=dict)
    """Fields that the pods of later jobs have."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations that the pods of later jobs have."""


async def explain_all(seed: int) -> tuple[World, dict[str, Diagnosis]]:
    """A random cluster, and the diagnoses of its unfinished jobs, after all controllers have settled.

    Two obstacles follow from the seed, so that `len(PAIRS)` seeds try every pair; a third one is random.
    """
    random = Random(f"obstructed {seed}")
    async with Cluster() as cluster, Client(cluster.transport(), namespace="default") as client:
        world = World(cluster, client, random)
        await _furnish(world)
        steps: list[Callable[[World], Awaitable[None]]] = [_submit] * random.randint(2, 5)
        steps += [*PAIRS[seed * _STRIDE % len(PAIRS)], *random.sample(OBSTACLES, random.randint(0, 1))]
        random.shuffle(steps)
        for step in [_submit, *steps, _submit]:
            if step is not _submit:
                world.obstacles.append(step.__name__.removeprefix("_"))
            try:
                await step(world)
            except ApiError as error:
                world.obstacles.append(f"refused: {error.message}")
            await clock.sleep(random.choice([0, 1, 30]))
        await clock.sleep(_SETTLED)
        unfinished = [name for name in world.jobs if not await _has_ended(world, name)]
        world.running = [name for name in unfinished if await _runs(world, name)]
        return world, {name: await diagnose(client, name) for name in unfinished}


async def _has_ended(world: World, name: str) -> bool:
    obj = await world.client.get(JOBSET, name)
    return is_condition_true(obj, "Completed") or is_condition_true(obj, "Failed")


async def _runs(world: World, name: str) -> bool:
    """Whether all pods of a job run or have succeeded."""
    obj = await world.client.get(JOBSET, name)
    pods = (await world.client.list(POD, "default", labels=f"jobset.sigs.k8s.io/jobset-name={name}")).items
    ready = [pod for pod in pods if is_condition_true(pod, "Ready") or pod["status"].get("phase") == "Succeeded"]
    expected = sum(part["template"]["spec"]["parallelism"] for part in obj["spec"]["replicatedJobs"])
    return not obj["spec"].get("suspend") and len(ready) == expected


async def _furnish(world: World) -> None:
    random = world.random
    await create_nodes(world.client, NodeShape(pool="cpu-pool", cpu="8", memory="32Gi"), 4)
    labels = {"cloud.google.com/gke-nodepool": "cpu-pool"}
    await world.client.create(_kueue("ResourceFlavor", "cpu", {"nodeLabels": labels}))
    for name, value in (("low", 0), ("high", 100)):
        await world.client.create(
            {"apiVersion": f"{_GROUP}/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        )
    for name in ("a", "b"):
        spec = {
            "namespaceSelector": {},
            **({"cohortName": "all"} if random.random() < 0.6 else {}),
            "queueingStrategy": random.choice(["BestEffortFIFO", "StrictFIFO"]),
            "resourceGroups": _groups(random.choice([2, 4, 8])),
            "preemption": {"withinClusterQueue": random.choice(["Never", "LowerPriority"])},
        }
        await world.client.create(_kueue("ClusterQueue", name, spec))
        await world.client.create(_kueue("LocalQueue", name, {"clusterQueue": name}), "default")


def _kueue(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": f"{_GROUP}/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _groups(cpus: int) -> list[Obj]:
    flavor = {"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
    return [{"coveredResources": ["cpu"], "flavors": [flavor]}]


async def _submit(world: World) -> None:
    random, name = world.random, f"job-{len(world.jobs)}"
    labels = {f"{_GROUP}/queue-name": random.choice("ab"), f"{_GROUP}/priority-class": random.choice(["low", "high"])}
    parts = [_part(world, "first", random.randint(1, 2), random.choice([1, 2, 4]))]
    if random.random() < 0.3:
        parts.append({**_part(world, "second", 1, 1), "dependsOn": [{"name": "first", "status": "Ready"}]})
    metadata: Obj = {"name": name, "labels": labels if random.random() < 0.9 else {}}
    spec = {"replicatedJobs": parts, **world.job}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}
    await world.client.create(body)
    world.jobs.append(name)


def _part(world: World, name: str, pods: int, cpu: int) -> Obj:
    container = {"name": "c", "image": "example.com/train:1", "resources": {"requests": {"cpu": str(cpu)}}}
    pod = {"restartPolicy": "Never", **world.pod, "containers": [{**container, **world.pod.get("container", {})}]}
    pod.pop("container", None)
    template = {"metadata": {"annotations": dict(world.annotations)}, "spec": pod}
    return {
        "name": name,
        "replicas": 1,
        "template": {"spec": {"parallelism": pods, "completions": pods, "backoffLimit": 100, "template": template}},
    }


async def _hold_local_queue(world: World) -> None:
    await world.client.patch(_LOCAL_QUEUE, world.random.choice("ab"), {"spec": {"stopPolicy": "Hold"}})


async def _drain_cluster_queue(world: World) -> None:
    await world.client.patch(_CLUSTER_QUEUE, world.random.choice("ab"), {"spec": {"stopPolicy": "HoldAndDrain"}})


async def _delete_local_queue(world: World) -> None:
    await world.client.delete(_LOCAL_QUEUE, world.random.choice("ab"))


async def _delete_cluster_queue(world: World) -> None:
    await world.client.delete(_CLUSTER_QUEUE, world.random.choice("ab"))


async def _delete_flavor(world: World) -> None:
    await world.client.delete(_FLAVOR, "cpu")


async def _exclude_namespace(world: World) -> None:
    selector = {"matchLabels": {"team": "other"}}
    await world.client.patch(_CLUSTER_QUEUE, world.random.choice("ab"), {"spec": {"namespaceSelector": selector}})


async def _shrink_quota(world: World) -> None:
    groups = _groups(world.random.choice([0, 1]))
    await world.client.patch(_CLUSTER_QUEUE, world.random.choice("ab"), {"spec": {"resourceGroups": groups}})


async def _require_admission_check(world: World) -> None:
    name = world.random.choice(["missing", "waiting"])
    if name == "waiting":
        await world.client.create(_kueue("AdmissionCheck", name, {"controllerName": "example.com/nobody"}))
    strategy = {"admissionChecks": [{"name": name}]}
    await world.client.patch(_CLUSTER_QUEUE, world.random.choice("ab"), {"spec": {"admissionChecksStrategy": strategy}})


async def _deactivate(world: World) -> None:
    for item in (await world.client.list(_WORKLOAD, "default")).items:
        await world.client.patch(_WORKLOAD, item["metadata"]["name"], {"spec": {"active": False}})


async def _block_admission(world: World) -> None:
    """No workload is admitted before the admitted ones are ready."""
    await world.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
    data = {"controller_manager_config.yaml": "waitForPodsReady: {timeout: 30m, blockAdmission: true}"}
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    await world.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    world.annotations["sliceworks.dev/image-pull"] = "fail"


async def _cordon_nodes(world: World) -> None:
    await _patch_nodes(world, {"spec": {"unschedulable": True}})


async def _taint_nodes(world: World) -> None:
    taint = {"key": "reserved", "value": "other", "effect": world.random.choice(["NoSchedule", "NoExecute"])}
    await _patch_nodes(world, {"spec": {"taints": [taint]}})


async def _silence_nodes(world: World) -> None:
    await _patch_nodes(world, {"metadata": {"annotations": {"sliceworks.dev/state": "silent"}}})


async def _relabel_nodes(world: World) -> None:
    await _patch_nodes(world, {"metadata": {"labels": {"cloud.google.com/gke-nodepool": "other"}}})


async def _delete_nodes(world: World) -> None:
    for node in (await world.client.list(NODE)).items:
        await world.client.delete(NODE, node["metadata"]["name"])


async def _patch_nodes(world: World, patch: Obj) -> None:
    for node in (await world.client.list(NODE)).items:
        await world.client.patch(NODE, node["metadata"]["name"], patch)


async def _occupy_nodes(world: World) -> None:
    await world.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "others"}})
    container = {"name": "c", "image": "example.com/other:1", "resources": {"requests": {"cpu": "6"}}}
    for number in range(4):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"other-{number}"}, "spec": {"containers": [container]}}
        await world.client.create(body, "others")


async def _limit_pods(world: World) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await world.client.create(body, "default")


async def _enforce_pod_security(world: World) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await world.client.patch(NAMESPACE, "default", {"metadata": {"labels": labels}})


async def _miss_image(world: World) -> None:
    world.annotations["sliceworks.dev/image-pull"] = "fail"


async def _miss_account(world: World) -> None:
    world.pod["serviceAccountName"] = "missing"


async def _miss_secret(world: World) -> None:
    world.pod["container"] = {"envFrom": [{"secretRef": {"name": "missing"}}]}


async def _miss_config_map(world: World) -> None:
    world.pod["volumes"] = [{"name": "v", "configMap": {"name": "missing"}}]


async def _miss_claim(world: World) -> None:
    world.pod["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]


async def _miss_selector(world: World) -> None:
    world.pod["nodeSelector"] = {"cloud.google.com/gke-tpu-topology": "2x2x4"}


async def _miss_priority(world: World) -> None:
    world.pod["priorityClassName"] = "missing"


async def _miss_runtime(world: World) -> None:
    world.pod["runtimeClassName"] = "missing"


async def _miss_driver(world: World) -> None:
    """A claim that nothing binds."""
    spec = {"storageClassName": "missing", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "unbound"}, "spec": spec}
    await world.client.create(body, "default")
    world.pod["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "unbound"}}]


async def _gate_pods(world: World) -> None:
    world.pod["schedulingGates"] = [{"name": "example.com/wait"}]


async def _require_affinity(world: World) -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world.pod["affinity"] = {"nodeAffinity": required}


async def _separate_pods(world: World) -> None:
    """No two pods on one node."""
    term = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    world.pod["affinity"] = {"podAntiAffinity": required}


async def _request_memory(world: World) -> None:
    """A resource that no queue covers."""
    world.pod["container"] = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}


async def _crash(world: World) -> None:
    world.annotations |= {"sliceworks.dev/exit-code": "1", "sliceworks.dev/run-seconds": "5"}


async def _crash_in_place(world: World) -> None:
    """Containers that the kubelet restarts."""
    world.pod["restartPolicy"] = "OnFailure"
    await _crash(world)


async def _delay_readiness(world: World) -> None:
    world.annotations["sliceworks.dev/ready-seconds"] = "9000"


async def _delegate_jobs(world: World) -> None:
    """JobSet's controller leaves these jobs to another one."""
    world.job["managedBy"] = "example.com/other"


async def _limit_jobs(world: World) -> None:
    spec = {"hard": {"count/jobs.batch": "0"}}
    await world.client.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-jobs"}, "spec": spec}, "default"
    )


async def _limit_containers(world: World) -> None:
    limit = {"type": "Container", "max": {"cpu": "500m"}}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [limit]}}
    await world.client.create(body, "default")


async def _break_webhook(world: World) -> None:
    """An admission webhook that does not answer rejects pods or Jobs."""
    group, resource = world.random.choice([("", "pods"), ("batch", "jobs")])
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    webhook = {
        "name": "absent.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "absent"}},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    kind = "ValidatingWebhookConfiguration"
    await world.client.create(
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "absent"}, "webhooks": [webhook]}
    )


async def _taint_flavor(world: World) -> None:
    taint = {"key": "reserved", "value": "other", "effect": "NoSchedule"}
    await world.client.patch(_FLAVOR, "cpu", {"spec": {"nodeTaints": [taint]}})


async def _suspend_jobs(world: World) -> None:
    for name in world.jobs:
        await world.client.patch(JOBSET, name, {"spec": {"suspend": True}})


async def _kill_program(world: World) -> None:
    program = world.random.choice(list_restartables(world.cluster))
    world.obstacles.append(f"killed {program.name}")
    await program.kill()


OBSTACLES: list[Callable[[World], Awaitable[None]]] = [
    _hold_local_queue,
    _drain_cluster_queue,
    _delete_local_queue,
    _delete_cluster_queue,
    _delete_flavor,
    _exclude_namespace,
    _shrink_quota,
    _require_admission_check,
    _deactivate,
    _block_admission,
    _cordon_nodes,
    _taint_nodes,
    _silence_nodes,
    _relabel_nodes,
    _delete_nodes,
    _occupy_nodes,
    _limit_pods,
    _enforce_pod_security,
    _miss_image,
    _miss_account,
    _miss_secret,
    _miss_config_map,
    _miss_claim,
    _miss_selector,
    _miss_priority,
    _miss_runtime,
    _miss_driver,
    _gate_pods,
    _require_affinity,
    _separate_pods,
    _request_memory,
    _crash,
    _crash_in_place,
    _delay_readiness,
    _delegate_jobs,
    _limit_jobs,
    _limit_containers,
    _break_webhook,
    _taint_flavor,
    _suspend_jobs,
    _kill_program,
]

PAIRS = list(combinations(OBSTACLES, 2))
_STRIDE = 97  # has no factor in common with the number of pairs: neighbouring seeds differ in both obstacles
