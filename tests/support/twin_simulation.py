"""Random lives of a whole twin: queues, Jobs, JobSets, slices and graphs, while programs are killed, quota changes and nodes fail.

What must hold is checked at every write (see `twin_oracles`), now and then (each job that does not run has a cause) and at the end:
every job that can run has completed, and nothing is left of what was deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from tests.support.slices_controller import CLUSTER, LOCATION, PROJECT, make_queue
from tests.support.slices_controller import QUEUE as SLICES_QUEUE
from tests.support.slices_controller import jobset as slices_jobset
from tests.support.twin_oracles import (
    JobOracle,
    OwnerOracle,
    PlacementOracle,
    QuotaOracle,
    SourceOracle,
    TimeOracle,
    container_requests,
)

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import ApiError, Conflict, NotFound, SliceworksError
from sliceworks.base.transport import InProcess
from sliceworks.cli.train_show import diagnose
from sliceworks.cloud.container import Container
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.kube.client import Client
from sliceworks.kube.resources import (
    CONFIG_MAP,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Resource,
)
from sliceworks.platform.controller_host import ControllerRequirements, list_restartables, run_controllers
from sliceworks.rehearsal.drill import Drill
from sliceworks.specs.scenario import CloudCluster
from sliceworks.training.status import is_pending_workload
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sliceworks.platform.controller_host import Restartable

Obj = dict[str, Any]
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
_KUEUE = "kueue.x-k8s.io"
WORKLOAD = Resource(_KUEUE, "v1beta2", "Workload", "workloads")
LOCAL_QUEUE = Resource(_KUEUE, "v1beta2", "LocalQueue", "localqueues")
CLUSTER_QUEUE = Resource(_KUEUE, "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
GRAPH = Resource("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False)
RUN = Resource("kro.run", "v1alpha1", "Run", "runs")
_SOURCES = {
    "secrets": SECRET,
    "configmaps": CONFIG_MAP,
    "persistentvolumeclaims": PERSISTENT_VOLUME_CLAIM,
    "serviceaccounts": SERVICE_ACCOUNT,
}
_EVENTFUL, _PATIENCE, _STUCK, _RELEASE, _INSPECTION = 900.0, 6 * 3600.0, 180.0, 90.0, 50.0
_QUEUE_LABEL, _PRIORITY_LABEL = f"{_KUEUE}/queue-name", f"{_KUEUE}/priority-class"
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_IMAGE, _RUN_SECONDS, _STATE = "example.com/train:1", "sliceworks.dev/run-seconds", "sliceworks.dev/state"
_FLAVORS = ("cpu", "spot")
_RUN_GRAPH: Obj = {
    "apiVersion": "kro.run/v1alpha1",
    "kind": "ResourceGraphDefinition",
    "metadata": {"name": "run"},
    "spec": {
        "schema": {"apiVersion": "v1alpha1", "kind": "Run", "spec": {"queue": "string", "seconds": "string", "note": "string"}},
        "resources": [
            {
                "id": "settings",
                "template": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}"},
                    "data": {"note": "${schema.spec.note}"},
                },
            },
            {
                "id": "job",
                "template": {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "${settings.metadata.name}", "labels": {_QUEUE_LABEL: "${schema.spec.queue}"}},
                    "spec": {
                        "backoffLimit": 100,
                        "template": {
                            "metadata": {"annotations": {_RUN_SECONDS: "${schema.spec.seconds}"}},
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [{"name": "c", "image": _IMAGE, "resources": {"requests": {"cpu": "1"}}}],
                            },
                        },
                    },
                },
            },
        ],
    },
}


@dataclass
class Life:
    """One life: what was submitted, what happened and what was wrong."""

    cluster: Cluster
    client: Client
    container: Container
    random: Random
    owners: OwnerOracle
    quota: QuotaOracle
    jobs: JobOracle
    failures: Random | None = None  # of pods, if they fail
    submitted: dict[str, Resource] = field(default_factory=dict)
    never_fit: set[str] = field(default_factory=set)
    bad_images: set[str] = field(default_factory=set)
    later: list[Obj] = field(default_factory=list)  # objects that pods need and that do not exist yet
    quotas: dict[str, list[Obj]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    repairs: list[Callable[[], Awaitable[Any]]] = field(default_factory=list)
    stuck: dict[str, tuple[float, str]] = field(default_factory=dict)
    blocks: bool = False  # whether Kueue admits no workload before all admitted ones are ready

    def note(self, text: str) -> None:
        self.seen.append(f"{clock.loop_time():9.1f} {text}")


async def simulate(seed: int, *, drill: bool = True, failures: bool = True) -> Life:
    """Run one life to its end. With `failures` the containers of pods fail too, which restarts Jobs and JobSets."""
    random = Random(f"twin {seed}")
    killer = Drill(random.choice([15.0, 40.0, 120.0]), seed)
    place = CloudCluster(project=PROJECT, location=LOCATION, name=CLUSTER)
    needs = ControllerRequirements(graphs=True, slices=place)
    async with Cluster(between=killer.between) as cluster, run_controllers(cluster, needs) as beside:
        session = Session(credentials=Token(cluster.token), transport=InProcess(cluster.cloud.serve))
        container = Container(session, PROJECT, LOCATION, CLUSTER, prefix="/container")
        async with Client(cluster.transport(), namespace="default") as client:
            quota, time, sources, owners = QuotaOracle(), TimeOracle(), SourceOracle(), OwnerOracle()
            placement, jobs = PlacementOracle(), JobOracle()
            oracles = (quota, time, sources, owners, placement, jobs)
            life = Life(cluster, client, container, random, owners, quota, jobs, Random(f"failures {seed}") if failures else None)
            for oracle in oracles:
                cluster.store.subscribe(oracle.observe)
            await _furnish(life)
            inspection = asyncio.create_task(_inspect_periodically(life), name="inspection")
            if drill:
                async with killer.active(cluster, lambda: beside):
                    await _happen(life)
                life.seen += [f"{death.at:9.1f} {death.name} was killed for {death.duration:.0f} s" for death in killer.outages]
                await _revive(life, beside)
            else:
                await _happen(life)
            await _settle(life)
            inspection.cancel()
            await asyncio.gather(inspection, return_exceptions=True)
            await _clear(life, quota)
            life.wrong += [reported for oracle in oracles for reported in oracle.wrong]
            assert sources.checked, "no pod has started"
            return life


async def _furnish(life: Life) -> None:
    """Nodes, flavors, a cohort of queues with random limits and policies, a queue for slices, priorities and a graph."""
    random, client = life.random, life.client
    cpu = "8" if life.failures is None else "3"  # fewer than the quota
    await create_nodes(client, NodeShape(pool="cpu-pool", cpu=cpu, memory="32Gi"), 6)
    await create_nodes(client, NodeShape(pool="spot-pool", cpu=cpu, memory="32Gi"), 3)
    for flavor in _FLAVORS:
        await client.create(_kueue("ResourceFlavor", flavor, {"nodeLabels": {"cloud.google.com/gke-nodepool": f"{flavor}-pool"}}))
    for name, value in (("low", 0), ("high", 100)):
        await client.create(
            {"apiVersion": f"{_KUEUE}/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        )
    if random.random() < 0.4:
        await client.create(_kueue("Cohort", "all", {"resourceGroups": _groups([random.choice([0, 4]), 0])}))
    for number in range(random.randint(1, 3)):
        limits = {"borrowingLimit": random.choice([None, 0, 4]), "lendingLimit": random.choice([None, 0, 3])}
        cohort = {"cohortName": "all"} if random.random() < 0.8 else {}
        preemption: Obj = {
            "withinClusterQueue": random.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
            "reclaimWithinCohort": random.choice(["Never", "LowerPriority", "Any"]),
        }
        if cohort and preemption["reclaimWithinCohort"] != "Never" and random.random() < 0.3:
            preemption["borrowWithinCohort"] = {"policy": "LowerPriority"}
        spec: Obj = {
            "namespaceSelector": {},
            **cohort,
            "queueingStrategy": random.choice(["BestEffortFIFO", "StrictFIFO"]),
            "resourceGroups": _groups([random.choice([4, 6, 8]), random.choice([0, 0, 4])], **(limits if cohort else {})),
            "preemption": preemption,
        }
        name = f"q{number}"
        life.quotas[name] = spec["resourceGroups"]
        life.note(f"queue {name} {spec}")
        await client.create(_kueue("ClusterQueue", name, spec))
        await client.create(_kueue("LocalQueue", name, {"clusterQueue": name}), "default")
    await make_queue(client, 16)
    await client.create(_RUN_GRAPH)

    async def is_served() -> bool:
        return is_condition_true(await client.get(GRAPH, "run"), "Ready")

    await _until(is_served, 120, "the graph is ready")


def _groups(cpus: Sequence[int], **limits: Any) -> list[Obj]:
    """Quota of each flavor, with the same limits."""
    flavors = []
    for flavor, cpu in zip(_FLAVORS, cpus, strict=True):
        own = {
            name: str(min(cpu, value) if name == "lendingLimit" else value) for name, value in limits.items() if value is not None
        }
        flavors.append({"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(cpu), **own}]})
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def _kueue(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": f"{_KUEUE}/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _happen(life: Life) -> None:
    random = life.random
    events: list[tuple[float, Callable[[Life, int], Awaitable[None]], int]] = []
    for happen, least, most in (
        (_submit, 5, 10),
        (_delete, 0, 3),
        (_resize, 0, 3),
        (_stop, 0, 2),
        (_deactivate, 0, 2),
        (_fail_node, 0, 2),
        (_fault, 0, 2),
        (_wait_for_pods, 0, 1),
        (_edit_run, 0, 2),
        (_provide, 0, 3),
        (_withdraw, 0, 2),
        (_remove_node, 0, 1),
        (_inspect, 3, 6),
    ):
        events += [(random.uniform(0, _EVENTFUL * 0.8), happen, index) for index in range(random.randint(least, most))]
    if life.failures is not None:
        for happen, most in ((_fail_pod, 8), (_submit_more, 8)):
            times = [life.failures.uniform(0, _EVENTFUL * 0.8) for _ in range(life.failures.randint(0, most))]
            events += [(at, happen, index) for index, at in enumerate(times)]
    now = 0.0
    for at, action, index in sorted(events, key=lambda event: event[0]):
        await clock.sleep(at - now)
        now = at
        try:
            await action(life, index)
        except (NotFound, Conflict) as error:
            life.note(f"refused: {error.message}")
    await clock.sleep(_EVENTFUL - now)


async def _submit(life: Life, index: int) -> None:
    random = life.random
    kind = random.choices(["job", "jobset", "steps", "run", "slices"], [3, 4, 2, 2, 2])[0]
    name, queue = f"{kind}-{index}", random.choice(sorted(life.quotas))
    labels = {_QUEUE_LABEL: queue, _PRIORITY_LABEL: random.choice(["low", "high"])}
    seconds, cpu = random.choice([20, 120, 400]), random.choice([1, 1, 2])
    if kind != "run" and random.random() < 0.08:
        cpu = 7  # in several pods, more than any queue has
        life.never_fit.add(name)
    life.note(f"submit {name} {labels} {cpu} CPUs for {seconds} s")
    life.submitted[name] = {"job": JOB, "run": RUN}.get(kind, JOBSET)
    spec: Obj
    if kind == "run":
        spec = {"queue": queue, "seconds": str(seconds), "note": "first"}
        await life.client.create({"apiVersion": "kro.run/v1alpha1", "kind": "Run", "metadata": {"name": name}, "spec": spec})
    elif kind == "job":
        pods = 4 if name in life.never_fit else random.randint(1, 4 // cpu)
        spec = {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 100,
            "template": _with_sources(life, name, _template(cpu, seconds)),
        }
        await life.client.create(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec}
        )
    elif kind == "slices":
        life.never_fit.discard(name)
        more: Obj = {"pod": {"tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}]}}
        body = slices_jobset(name, random.randint(1, 2), seconds=seconds, failurePolicy={"maxRestarts": 100}, **more)
        await life.client.create({**body, "metadata": {**body["metadata"], "labels": {_QUEUE_LABEL: SLICES_QUEUE}}})
    else:
        pods = 4 if name in life.never_fit else 1 if kind == "steps" else random.randint(1, 4 // cpu)
        parts = [_part("first", pods, cpu, seconds)]
        template = parts[0]["template"]["spec"]
        template["template"] = _with_sources(life, name, template["template"])
        if kind == "steps":
            follows = [{"name": "first", "status": random.choice(["Complete", "Ready"])}]
            parts.append({**_part("second", 1, 1, seconds), "dependsOn": follows})
        spec = {"replicatedJobs": parts, "failurePolicy": {"maxRestarts": 100}}
        if life.failures is not None and name not in life.never_fit:
            _vary(life.failures, spec, room=4 - pods * cpu)
        metadata = {"name": name, "labels": labels}
        await life.client.create({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec})


async def _submit_more(life: Life, index: int) -> None:
    """Jobs that compete for quota with those before."""
    await _submit(life, 100 + index)


def _vary(random: Random, spec: Obj, room: int) -> None:
    """Let some JobSets restart when a pod fails, and some, if every queue has room, complete while a part of them still runs."""
    parts = spec["replicatedJobs"]
    if random.random() < 0.5:
        for part in parts:
            part["template"]["spec"]["backoffLimit"] = 0
        spec["failurePolicy"]["restartStrategy"] = random.choice(["Recreate", "BlockingRecreate"])
    if len(parts) == 1 and random.random() < 0.3 and room > 0:
        parts.append(_part("helper", 1, 1, 4000))
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["first"]}


def _part(name: str, pods: int, cpu: int, seconds: int) -> Obj:
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 100, "template": _template(cpu, seconds)}
    return {"name": name, "replicas": 1, "template": {"spec": spec}}


def _template(cpu: int, seconds: int) -> Obj:
    container = {"name": "c", "image": _IMAGE, "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "metadata": {"annotations": {_RUN_SECONDS: str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def _with_sources(life: Life, name: str, template: Obj) -> Obj:
    """Let some pods need an object, which is created later, or an image that does not exist."""
    kind = life.random.choices(
        ["", "image", "secrets", "configmaps", "persistentvolumeclaims", "serviceaccounts"], [10, 1, 2, 2, 2, 2]
    )[0]
    if not kind or name in life.never_fit:
        return template
    life.note(f"{name} needs {kind}")
    pod, container = template["spec"], template["spec"]["containers"][0]
    if kind == "image":
        life.bad_images.add(name)
        return {
            **template,
            "metadata": {"annotations": {**template["metadata"]["annotations"], "sliceworks.dev/image-pull": "fail"}},
        }
    metadata = {"name": f"of-{name}"}
    if kind == "configmaps":
        container["envFrom"] = [{"configMapRef": metadata}]
    elif kind == "serviceaccounts":
        pod["serviceAccountName"] = metadata["name"]
    else:
        source = {"secret": {"secretName": metadata["name"]}}
        if kind == "persistentvolumeclaims":
            source = {"persistentVolumeClaim": {"claimName": metadata["name"]}}
        pod["volumes"] = [{"name": "needed", **source}]
        container["volumeMounts"] = [{"name": "needed", "mountPath": "/needed"}]
    needed: Obj = {"apiVersion": "v1", "kind": _SOURCES[kind].kind, "metadata": metadata}
    if kind == "persistentvolumeclaims":
        resources = {"requests": {"storage": "1Gi"}}
        needed["spec"] = {"accessModes": ["ReadWriteMany"], "storageClassName": "standard-rwx", "resources": resources}
    life.later.append(needed)
    return template


async def _provide(life: Life, index: int) -> None:
    """Create the oldest object that pods wait for."""
    if life.later:
        needed = life.later.pop(0)
        life.note(f"create {needed['kind']} {needed['metadata']['name']}")
        await life.client.create(needed)


async def _withdraw(life: Life, index: int) -> None:
    """Delete an object that pods need, and create it again later."""
    kind = life.random.choice(["secrets", "configmaps", "serviceaccounts"])
    items = [
        item for item in (await life.client.list(_SOURCES[kind], "default")).items if item["metadata"]["name"].startswith("of-")
    ]
    if items:
        needed = life.random.choice(sorted(items, key=lambda item: str(item["metadata"]["name"])))
        life.note(f"delete {kind} {needed['metadata']['name']}")
        await life.client.delete(_SOURCES[kind], needed["metadata"]["name"])
        life.later.append({"apiVersion": "v1", "kind": needed["kind"], "metadata": {"name": needed["metadata"]["name"]}})


async def _remove_node(life: Life, index: int) -> None:
    """A pool becomes smaller by one node."""
    nodes = (await life.client.list(NODE, labels="cloud.google.com/gke-nodepool=cpu-pool")).items
    name = life.random.choice(sorted(node["metadata"]["name"] for node in nodes))
    life.note(f"remove {name}")
    await life.client.delete(NODE, name)


async def _delete(life: Life, index: int) -> None:
    if not life.submitted:
        return
    name = life.random.choice(sorted(life.submitted))
    life.note(f"delete {name}")
    resource = life.submitted.pop(name)
    await life.client.delete(resource, name, propagation_policy=life.random.choice(["Background", "Foreground"]))


async def _resize(life: Life, index: int) -> None:
    """Other quota for a queue, until the end of the events."""
    if life.blocks:
        return  # Kueue decides first and then waits: it admits what it decided on, whatever the quota is by then
    name, cpus = life.random.choice(sorted(life.quotas)), [life.random.choice([0, 2, 5, 12]), life.random.choice([0, 0, 3])]
    life.note(f"quota of {name}: {cpus}")
    resource = life.quotas[name][0]["flavors"][0]["resources"][0]
    limits = {key: int(value) for key, value in resource.items() if key.endswith("Limit")}
    await life.client.patch(CLUSTER_QUEUE, name, {"spec": {"resourceGroups": _groups(cpus, **limits)}})
    life.repairs.append(lambda: life.client.patch(CLUSTER_QUEUE, name, {"spec": {"resourceGroups": life.quotas[name]}}))


async def _stop(life: Life, index: int) -> None:
    """Stop a queue for a while."""
    name, policy = life.random.choice(sorted(life.quotas)), life.random.choice(["Hold", "HoldAndDrain"])
    kind = life.random.choice([CLUSTER_QUEUE, LOCAL_QUEUE])
    life.note(f"stop {kind.kind} {name} ({policy})")
    await life.client.patch(kind, name, {"spec": {"stopPolicy": policy}})
    life.repairs.append(lambda: life.client.patch(kind, name, {"spec": {"stopPolicy": "None"}}))
    await clock.sleep(life.random.choice([5, 60]))
    if life.random.random() < 0.7:
        life.note(f"resume {kind.kind} {name}")
        await life.client.patch(kind, name, {"spec": {"stopPolicy": "None"}})


async def _deactivate(life: Life, index: int) -> None:
    """A person deactivates a Workload, and activates it again."""
    workloads = (await life.client.list(WORKLOAD, "default")).items
    unfinished = sorted(workload["metadata"]["name"] for workload in workloads if not is_condition_true(workload, "Finished"))
    if not unfinished:
        return
    name = life.random.choice(unfinished)
    life.note(f"deactivate {name}")
    await life.client.patch(WORKLOAD, name, {"spec": {"active": False}})
    life.repairs.append(lambda: life.client.patch(WORKLOAD, name, {"spec": {"active": True}}))


async def _fail_node(life: Life, index: int) -> None:
    """A node goes silent; a node of a slice may also be preempted or maintained."""
    nodes = (await life.client.list(NODE)).items
    node = life.random.choice(sorted(nodes, key=lambda item: str(item["metadata"]["name"])))
    name, pool = node["metadata"]["name"], node["metadata"]["labels"]["cloud.google.com/gke-nodepool"]
    state = "silent" if pool == "cpu-pool" else life.random.choice(["silent", "preempted", "maintenance"])
    life.note(f"{state} {name}")
    await life.client.patch(NODE, name, {"metadata": {"annotations": {_STATE: state}}})
    if state == "silent" and pool in ("cpu-pool", "spot-pool"):  # the controller replaces slices
        life.repairs.append(lambda: life.client.patch(NODE, name, {"metadata": {"annotations": {_STATE: None}}}))


async def _fail_pod(life: Life, index: int) -> None:
    """A container exits with an error."""
    assert life.failures is not None
    running = sorted(pod["metadata"]["name"] for pod in (await life.client.list(POD, "default")).items if _phase(pod) == "Running")
    if running:
        name = life.failures.choice(running)
        life.note(f"fail {name}")
        await life.client.patch(POD, name, {"metadata": {"annotations": {"sliceworks.dev/fail": "crash"}}})


async def _fault(life: Life, index: int) -> None:
    kind = life.random.choice(["Stockout", "FailedOperations", "Unavailable", "TooManyOperations", "QuotaExceeded"])
    life.note(f"cloud fault {kind}")
    life.cluster.cloud.faults.add({"name": f"fault-{index}", "fault": kind, "for": life.random.uniform(20, 300)})


async def _wait_for_pods(life: Life, index: int) -> None:
    """Kueue evicts what is not ready in time."""
    try:
        await life.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
    except ApiError as error:
        life.note(error.message)
    life.blocks = life.random.random() < 0.3
    text = f"waitForPodsReady: {{timeout: 2m, blockAdmission: {str(life.blocks).lower()}}}"
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    data = {"controller_manager_config.yaml": text}
    life.note(text)
    await life.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    async def repair() -> None:
        """Before quota is restored: while Kueue blocks, it admits what it decided on, whatever the quota is by then."""
        await life.client.delete(CONFIG_MAP, metadata["name"], "kueue-system")
        await clock.sleep(10)

    life.repairs.insert(0, repair)


async def _edit_run(life: Life, index: int) -> None:
    runs = sorted(name for name, resource in life.submitted.items() if resource is RUN)
    if runs:
        name = life.random.choice(runs)
        life.note(f"edit {name}")
        await life.client.patch(RUN, name, {"spec": {"note": f"edit-{index}"}})


async def _inspect_periodically(life: Life) -> None:
    while True:
        await clock.sleep(_INSPECTION)
        await _inspect(life, 0)


async def _inspect(life: Life, index: int) -> None:
    """Each job that does not run says why, and no object outlives its owner. What is unexplained does not last for minutes."""
    life.owners.check()
    life.jobs.check()
    for name, resource in sorted(life.submitted.items()):
        _report_stuck(life, name, await (_unexplained(life, name) if resource is JOBSET else _unstarted(life, name)))
    for workload in (await life.client.list(WORKLOAD, "default")).items:
        since = "" if workload["spec"].get("active", True) else "it was deactivated"
        if is_condition_true(workload, "Evicted"):
            since = f"its eviction at {find_condition(workload, 'Evicted')['lastTransitionTime']}"
        is_held = is_condition_true(workload, "QuotaReserved") and not is_condition_true(workload, "Finished")
        held = f"its quota is not released since {since}" if since and is_held else ""
        _report_stuck(life, workload["metadata"]["name"], held, patience=_RELEASE)
    await _inspect_pending(life)


async def _inspect_pending(life: Life) -> None:
    """A Workload that fits the quota of its own queue is admitted.

    In a StrictFIFO queue it may wait for another one; in any queue for one of which only the first pod set fits, since Kueue tries
    that one again and again.
    """
    held = {"Hold", "HoldAndDrain"}
    stopped = set()
    for resource in (CLUSTER_QUEUE, LOCAL_QUEUE):
        stopped |= {item["metadata"]["name"] for item in (await life.client.list_all(resource)).items if _stop_policy(item) in held}
    blocked = {item["metadata"]["name"] for item in (await life.client.list_all(CLUSTER_QUEUE)).items if _is_strict(item)}
    workloads = (await life.client.list(WORKLOAD, "default")).items
    blocked |= {item["spec"]["queueName"] for item in workloads if is_pending_workload(item) and len(item["spec"]["podSets"]) > 1}
    for workload in workloads:
        queue, requeue = workload["spec"]["queueName"], (workload.get("status") or {}).get("requeueState") or {}
        is_waiting = not requeue.get("requeueAt") and is_pending_workload(workload) and workload["spec"].get("active", True)
        requests: Counter[str] = Counter()
        for pods in workload["spec"]["podSets"]:
            for name, amount in container_requests(pods["template"]["spec"]).items():
                requests[name] += amount * pods["count"]
        is_free = queue in life.quotas and queue not in stopped | blocked and not life.blocks
        fits = is_waiting and is_free and life.quota.fits_nominal_quota(queue, requests)
        _report_stuck(life, f"{workload['metadata']['name']} in {queue}", f"it fits: {dict(requests)}" if fits else "")


def _stop_policy(queue: Obj) -> str:
    return str(queue["spec"].get("stopPolicy") or "None")


def _is_strict(queue: Obj) -> bool:
    return bool(queue["spec"].get("queueingStrategy") == "StrictFIFO")


def _report_stuck(life: Life, name: str, reported: str, patience: float = _STUCK) -> None:
    """Report what has been in the same unexplained state for too long."""
    since, before = life.stuck.get(name, (0.0, ""))
    if not reported or reported != before:
        life.stuck[name] = (clock.loop_time(), reported)
    elif clock.loop_time() - since > patience:
        life.wrong.append(f"{clock.loop_time():.1f} {name} is stuck since {since:.1f}, without a cause: {reported}")


async def _unexplained(life: Life, name: str) -> str:
    """The state of a JobSet that does not run although `why` knows of nothing in its way; empty otherwise."""
    try:
        diagnosis = await diagnose(life.client, name, life.container)
        obj = await life.client.get(JOBSET, name)
    except SliceworksError as error:
        return "" if isinstance(error, NotFound) or "not found" in error.message else f"why failed: {error.message}"
    if diagnosis.causes[0].kind.name not in ("starting", "running"):
        return ""
    selector = f"jobset.sigs.k8s.io/jobset-name={name}"
    pods = (await life.client.list(POD, "default", labels=selector)).items
    idle = [f"{pod['metadata']['name']} is pending" for pod in pods if _phase(pod) == "Pending"]
    jobs = (await life.client.list(JOB, "default", labels=selector)).items
    idle += [f"{job['metadata']['name']} lacks pods" for job in jobs if _lacks_pods(job)]
    if pods and not idle:
        return ""
    return f"{diagnosis.causes[0].message} suspend={obj['spec'].get('suspend')} {sorted(idle)}"


def _phase(pod: Obj) -> str:
    return str(pod["status"].get("phase", ""))


def _lacks_pods(job: Obj) -> bool:
    """Whether a Job that has not ended has fewer pods than it should."""
    status, spec = job.get("status") or {}, job["spec"]
    is_over = is_condition_true(job, "Complete") or is_condition_true(job, "Failed")
    return not is_over and int(status.get("active") or 0) + int(status.get("succeeded") or 0) < int(spec["parallelism"])


async def _unstarted(life: Life, name: str) -> str:
    """What does not happen to a Job without a reason that Kueue, the scheduler or a kubelet reports; empty if all is explained."""
    try:
        job = await life.client.get(JOB, name)
    except NotFound:
        return ""
    if job["spec"].get("suspend"):
        return await _unadmitted(life, name)
    pods = (await life.client.list(POD, "default", labels=f"job-name={name}")).items
    lost = {node["metadata"]["name"] for node in (await life.client.list(NODE)).items if not is_condition_true(node, "Ready")}
    silent = [pod["metadata"]["name"] for pod in pods if _phase(pod) == "Pending" and not _is_explained(pod, lost)]
    return f"pods are pending without a reason: {sorted(silent)}" if silent else ""


async def _unadmitted(life: Life, name: str) -> str:
    """A suspended Job without a Workload, or whose Workload is admitted, or not admitted without a message of Kueue."""
    workloads = (await life.client.list(WORKLOAD, "default")).items
    own = [workload for workload in workloads if workload["metadata"]["ownerReferences"][0]["name"] == name]
    if not own:
        return f"{name} has no Workload"
    if is_condition_true(own[0], "Evicted") or own[0]["spec"].get("active") is False:
        return ""
    if is_condition_true(own[0], "Admitted"):
        return f"{name} is admitted but suspended"
    # Kueue says nothing of a Workload before it is the first of its queue, nor while it blocks admission for another one.
    others = [item for item in workloads if item["spec"]["queueName"] == own[0]["spec"]["queueName"] and item is not own[0]]
    is_explained = life.blocks or find_condition(own[0], "QuotaReserved").get("message") or any(map(is_pending_workload, others))
    return "" if is_explained else f"{name} waits, and its Workload says nothing"


def _is_explained(pod: Obj, lost: set[str]) -> bool:
    """Whether a pending pod is unschedulable, waits on a host that is lost or that says for what, or is being deleted."""
    waiting = [(status.get("state") or {}).get("waiting") for status in pod["status"].get("containerStatuses") or ()]
    unschedulable = find_condition(pod, "PodScheduled").get("reason") == "Unschedulable"
    return unschedulable or any(waiting) or "deletionTimestamp" in pod["metadata"] or pod["spec"].get("nodeName") in lost


async def _revive(life: Life, beside: Sequence[Restartable]) -> None:
    """Restart all programs: the drill may have ended while one was dead."""
    programs = [*list_restartables(life.cluster), *beside]
    for program in programs:
        await program.kill()
    for program in programs:
        await program.restart()


async def _settle(life: Life) -> None:
    """Undo all that is in the way; then every job that can run completes."""
    for fault in life.cluster.cloud.faults.all():
        life.cluster.cloud.faults.end(fault["name"])
    for repair in life.repairs:
        try:
            await repair()
        except NotFound:
            continue
    while life.later:
        await _provide(life, 0)
    await clock.sleep(60)
    for name in sorted((life.never_fit | life.bad_images) & life.submitted.keys()):
        expected = {"queue"} if name in life.never_fit else {"queue", "container"}
        if life.submitted[name] is JOBSET and (diagnosis := await diagnose(life.client, name)).causes[0].kind.layer not in expected:
            life.wrong.append(f"{name} can never run, and why says: {diagnosis.causes[0].message}")
        # It may block its queue indefinitely.
        await life.client.delete(life.submitted.pop(name), name, propagation_policy="Background")

    async def completed() -> bool:
        return all(
            [
                await _is_complete(life, name, resource) or await _has_lost_leader(life, name)
                for name, resource in life.submitted.items()
            ]
        )

    with contextlib.suppress(AssertionError):
        await _until(completed, _PATIENCE, "all jobs complete")
    for name, resource in life.submitted.items():
        if await _has_lost_leader(life, name):
            if not (await diagnose(life.client, name, life.container)).causes:
                life.wrong.append(f"{name} can never complete, and why names no cause")
        elif not await _is_complete(life, name, resource):
            life.wrong.append(f"{name} is not complete: {await _describe(life, name)}")
    if not any([await _has_lost_leader(life, name) for name in life.submitted]):
        with contextlib.suppress(AssertionError):
            await _until(lambda: _has_no_pools(life), 1800, "no node pools")
        life.wrong += [f"pool {name} outlives its completed JobSet" for name in await _managed_pools(life)]


async def _managed_pools(life: Life) -> list[str]:
    """The node pools that the slices controller created."""
    label = "google.com/nodepool-manager"
    return [pool["name"] for pool in await life.container.list_node_pools() if label in (pool["config"].get("labels") or {})]


async def _has_no_pools(life: Life) -> bool:
    return not await _managed_pools(life)


async def _has_lost_leader(life: Life, name: str) -> bool:
    """Whether JobSet rejects followers forever: their leader completed before a suspension, and was deleted with its node."""
    pods = (await life.client.list(POD, "default")).items
    leaders = {pod["metadata"]["labels"].get("job-name") for pod in pods if _completion_index(pod) == "0"}
    for job in (await life.client.list(JOB, "default")).items:
        annotations, indexes = job["metadata"].get("annotations") or {}, (job.get("status") or {}).get("completedIndexes", "")
        is_exclusive = annotations.get("jobset.sigs.k8s.io/jobset-name") == name and _EXCLUSIVE in annotations
        if (
            is_exclusive
            and indexes.startswith("0")
            and job["metadata"]["name"] not in leaders
            and not is_condition_true(job, "Complete")
        ):
            return True
    return False


def _completion_index(pod: Obj) -> str | None:
    index: str | None = (pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
    return index


async def _is_complete(life: Life, name: str, resource: Resource) -> bool:
    try:
        obj = await life.client.get(JOB if resource is RUN else resource, name)
    except NotFound:
        return False
    return is_condition_true(obj, "Complete") or is_condition_true(obj, "Completed")


async def _describe(life: Life, name: str) -> str:
    try:
        obj = await life.client.get(JOB if life.submitted[name] is RUN else life.submitted[name], name)
    except NotFound:
        return "not found"
    workloads = (await life.client.list(WORKLOAD, "default")).items
    own = [workload.get("status") for workload in workloads if workload["metadata"]["ownerReferences"][0]["name"] == name]
    why = ""
    if life.submitted[name] is JOBSET:
        why = "; ".join(cause.message for cause in (await diagnose(life.client, name, life.container)).causes)
    return f"{why} suspend={obj['spec'].get('suspend')} {obj.get('status')} {own}"


async def _clear(life: Life, quota: QuotaOracle) -> None:
    """Delete all that was submitted: nothing of it is left."""
    for resource in _SOURCES.values():
        for item in (await life.client.list(resource, "default")).items:
            if item["metadata"]["name"].startswith("of-"):
                await life.client.delete(resource, item["metadata"]["name"])
    for name, resource in life.submitted.items():
        try:
            await life.client.delete(resource, name, propagation_policy="Background")
        except NotFound:
            continue

    async def left() -> list[str]:
        result = []
        for resource in (JOBSET, JOB, POD, WORKLOAD, RUN, SERVICE, CONFIG_MAP, PERSISTENT_VOLUME_CLAIM):
            items = (await life.client.list(resource, "default")).items
            result += [f"{resource.kind} {item['metadata']['name']}" for item in items]
        queues = (await life.client.list_all(CLUSTER_QUEUE)).items
        result += [f"pool {name}" for name in await _managed_pools(life)] + [f"quota of {name}" for name in quota.reserved]
        result += [f"queue {queue['metadata']['name']} {queue['status']}" for queue in queues if _has_workloads(queue)]
        return [item for item in result if item not in ("Service kubernetes", "ConfigMap kube-root-ca.crt")]

    async def is_clear() -> bool:
        return not await left()

    try:
        await _until(is_clear, _PATIENCE, "nothing is left")
    except AssertionError:
        life.wrong.append(f"left after the deletion: {await left()}")


def _has_workloads(queue: Obj) -> bool:
    status = queue.get("status") or {}
    counts = [status.get(name) for name in ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")]
    totals = [
        resource.get("total", "0")
        for flavor in status.get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    ]
    return any(counts) or any(total not in ("0", 0) for total in totals)


async def _until(look: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    deadline, pause = clock.loop_time() + seconds, 1.0
    while not await look():
        assert clock.loop_time() < deadline, f"{what}: not within {seconds:g} s"
        await clock.sleep(pause)
        pause = min(pause * 1.5, 60.0)
