"""Random runs of the slices controller: JobSets are created and deleted, the cloud fails, the controller is killed; then invariants
are checked.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
from tests.support.slices_controller import QUEUE, SETTINGS, ZONE, Obj, Rig, jobset, make_queue, rig

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.base.transport import Request, Response
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT
from sliceworks.kube.resources import JOB, JOBSET, NODE

if TYPE_CHECKING:
    from collections.abc import Iterable

ZONES = (ZONE, "us-central2-a", "us-central2-c")
SHAPES = (("tpu-v4-podslice", "2x2x1", 1, 4), ("tpu-v4-podslice", "2x2x2", 2, 4), ("tpu-v5p-slice", "2x2x4", 4, 4))
_TROUBLED = 900  # seconds in which events happen
_PATIENCE = 6 * 3600  # seconds until the cluster must have recovered
_REQUESTS = ("TooManyOperations", "IncompatibleOperation", "Unavailable", "InternalError", "LostAnswers", "PermissionDenied")
_REFUSALS = ("ExpiredCredentials", "RateLimited", "QuotaExceeded")
_OPERATIONS = ("FailedOperations", "SlowOperations", "StuckOperations", "Stockout", "MachineQuotaExceeded")


@dataclass
class Simulation:
    """One run: what was submitted, and what was observed."""

    rig: Rig
    random: Random
    submitted: dict[str, str] = field(default_factory=dict)  # JobSets and their expected outcome
    foreign: dict[str, Obj] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    queued: bool = False  # whether Kueue queues the JobSets, with the controller's admission check
    # the writes to the cloud after which the controller is killed before it receives the response
    crashes: set[int] = field(default_factory=set)
    writes: int = 0
    dying: asyncio.Task[None] | None = None
    one_death: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note(self, text: str) -> None:
        self.seen.append(f"{clock.loop_time():9.1f} {text}")


async def simulate(seed: int) -> Simulation:
    """Run one simulation to its end."""
    random = Random(seed)
    capacity = random.choice([(ON_DEMAND,), (SPOT, ON_DEMAND)])
    zones = ZONES[: random.randint(1, 3)]
    limit = random.choice([0.0, 600.0, 1800.0])
    settings = replace(SETTINGS, zones=zones, capacity=capacity, time_limit=limit, suspended_grace=60.0, creation_timeout=600.0)
    seconds = {name: random.choice([2, 10, 40]) for name in ("createNodePool", "deleteNodePool", "boot", "giveUp")}
    async with rig(settings, operations=random.randint(1, 6), seconds=seconds) as created:
        life = Simulation(created, random, crashes={random.randint(1, 40) for _ in range(random.randint(0, 3))})
        created.cluster.cloud.serve = _watched(life, created.cluster.cloud.serve)  # type: ignore[method-assign]
        created.container = created.open_container()
        await _others(life)
        if random.random() < 0.3:
            life.queued = True
            await make_queue(created.client, random.choice([48, 96]))
        created.start()
        await _injected_events(life)
        await _settle(life)
        await _check_invariants(life)
        if life.dying is not None:
            await life.dying
        await created.check_alive()
        return life


def _watched(life: Simulation, serve: Any) -> Any:
    """Check every request to the cloud: foreign pools are not touched, and no pool is created twice."""

    async def watched(request: Request) -> Response:
        method, body, name = request.method, request.body, request.path.rpartition("/")[2]
        if method == "DELETE" and name in life.foreign:
            life.wrong.append(f"{name} was deleted")
        answer: Response = await serve(request)
        if method != "GET":
            requested = orjson.loads(body)["nodePool"]["name"] if method == "POST" and body and b"nodePool" in body else name
            life.note(f"{method} {requested} {answer.status} {answer.body[:160].decode() if answer.status >= 400 else ''}")
            if requested != name and answer.status == 200:
                listed = await serve(Request("GET", request.path, request.query, request.headers))
                await _count(life, requested, orjson.loads(listed.body).get("nodePools") or ())
            life.writes += life.rig.running
            if life.rig.running and life.writes in life.crashes and (life.dying is None or life.dying.done()):
                life.dying = asyncio.create_task(_kill(life, 0))
                await clock.sleep(3600)  # the controller is killed before it receives the response
        return answer

    return watched


async def _count(life: Simulation, asked: str, pools: Iterable[Obj]) -> None:
    """A Job whose pool is requested has no other active or pending pool, except those that other JobSets occupy."""
    live: dict[str, str] = {}
    for pool in pools:
        labels = pool["config"].get("labels") or {}
        if well_known.MANAGER in labels and pool["status"] not in ("STOPPING", "ERROR"):
            live[pool["name"]] = labels[well_known.PARENT_NAME]
    job = live.get(asked, "")
    names = {name for name, parent in live.items() if parent == job}
    if job and len(names & await _lent(life, job)) < len(names) - 1:
        life.wrong.append(f"{job} has {sorted(names)} at {clock.loop_time():.1f}")


async def _lent(life: Simulation, job: str) -> set[str]:
    """The pools that pods of other JobSets use or used."""
    created = (await life.rig.client.list(NODE)).items
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"].get("cloud.google.com/gke-nodepool") for node in created}
    own = job.rpartition("-slice-")[0]
    others = (pod for pod in await life.rig.pods() if pod["metadata"]["labels"].get(well_known.JOBSET_NAME) != own)
    return {str(nodes.get(pod["spec"].get("nodeName", ""))) for pod in others}


async def _others(life: Simulation) -> None:
    """Pools of Terraform and of users; one of them looks like a slice."""
    for name in ("terraform-pool", "slice-of-a-person"):
        config = {"machineType": "n2-standard-4", "labels": {well_known.POOL_JOBSET_NAME: "js-0", "team": "a"}}
        body = {"name": name, "initialNodeCount": 1, "locations": [ZONE], "config": config}
        operation = await life.rig.container.create_node_pool(body)

        async def over(name: str = operation.name) -> bool:
            return (await life.rig.container.get_operation(name)).done

        await life.rig.until(over)
        life.foreign[name] = (await life.rig.pools())[name]


async def _injected_events(life: Simulation) -> None:
    random, rig = life.random, life.rig
    moments = [(random.uniform(0, 600), _submit, index) for index in range(random.randint(2, 4))]
    moments += [(random.uniform(0, _TROUBLED), _fault, index) for index in range(random.randint(0, 5))]
    moments += [(random.uniform(0, _TROUBLED), _kill, index) for index in range(random.randint(0, 4))]
    moments += [(random.uniform(100, _TROUBLED), _interfere, index) for index in range(random.randint(0, 3))]
    moments += [(random.uniform(100, _TROUBLED), _lose, index) for index in range(random.randint(0, 2))]
    now = 0.0
    for seconds_after_now, happen, index in sorted(moments, key=lambda each: each[0]):
        await clock.sleep(seconds_after_now - now)
        now = seconds_after_now
        await happen(life, index)
    await clock.sleep(max(_TROUBLED - now, 0))
    for fault in rig.cluster.cloud.faults.all():
        rig.cluster.cloud.faults.end(fault["name"])


async def _submit(life: Simulation, index: int) -> None:
    random, name = life.random, f"js-{index}"
    accelerator, topology, pods, chips = random.choice(SHAPES)
    kind = random.choices(["runs", "fails", "restarts", "wrong"], [6, 1, 1, 1])[0]
    # No other tolerations: a pod that tolerates all taints is scheduled again and again to nodes that are shutting down.
    tolerated = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in ("google.com/tpu", well_known.SPOT)]
    more: dict[str, Any] = {"pod": {"tolerations": tolerated}}
    if kind == "wrong":
        topology = "9x9x9"
    if kind == "fails":
        more["pod_annotations"] = {"sliceworks.dev/exit-code": "1"}
    more["failurePolicy"] = {"maxRestarts": 0 if kind == "fails" else 20}
    body = jobset(name, random.randint(1, 3), topology=topology, accelerator=accelerator, pods=pods, chips=chips, **more)
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]["annotations"]["sliceworks.dev/run-seconds"] = (
        str(random.choice([20, 200]))
    )
    if life.queued:
        body["metadata"]["labels"] = {well_known.QUEUE_NAME: QUEUE}
    life.submitted[name] = {"runs": "Completed", "restarts": "Completed", "fails": "Failed", "wrong": ""}[kind]
    life.note(f"submit {name} {kind} {topology} x{body['spec']['replicatedJobs'][0]['replicas']}")
    await life.rig.client.create(body)


async def _fault(life: Simulation, index: int) -> None:
    random = life.random
    kind = random.choice((*_REQUESTS, *_REFUSALS, *_OPERATIONS))
    given: Obj = {"name": f"fault-{index}", "fault": kind, "for": random.uniform(20, 400)}
    if kind in ("SlowOperations", "LostAnswers"):
        given["seconds"] = random.uniform(1, 60)
    if kind in _OPERATIONS and random.random() < 0.4:
        given["match"] = {"zone": random.choice(ZONES)}
    if random.random() < 0.3:
        given["count"] = random.randint(1, 5)
    life.note(f"fault {given}")
    life.rig.cluster.cloud.faults.add(given)


async def _kill(life: Simulation, index: int) -> None:
    async with life.one_death:
        life.note("kill")
        await life.rig.kill()
        await clock.sleep(life.random.choice([0.0, 1.0, 120.0]))
        life.rig.start()
        life.note("start")


async def _interfere(life: Simulation, index: int) -> None:
    """A user deletes a JobSet, or suspends it for a while."""
    if not life.submitted:
        return
    name = life.random.choice(sorted(life.submitted))
    try:
        if life.random.random() < 0.5:
            life.note(f"delete {name}")
            await life.rig.client.delete(JOBSET, name, "default", propagation_policy="Background")
            life.submitted[name] = ""
            return
        life.note(f"suspend {name}")
        await life.rig.client.patch(JOBSET, name, {"spec": {"suspend": True}}, "default")
        await clock.sleep(life.random.choice([10, 200]))
        if await _is_half_done(life, name):
            life.submitted[name] = ""
        await life.rig.client.patch(JOBSET, name, {"spec": {"suspend": False}}, "default")
        life.note(f"resume {name}")
    except NotFound:
        return


async def _is_half_done(life: Simulation, name: str) -> bool:
    """Whether one host of a slice succeeded and another did not.

    JobSet places hosts by the first one's pod. If that pod ended and was deleted with its node, JobSet's webhook rejects the others
    permanently.
    """
    jobs = (await life.rig.client.list(JOB, "default", labels=f"{well_known.JOBSET_NAME}={name}")).items
    return any(0 < job["status"].get("succeeded", 0) < job["spec"]["completions"] for job in jobs)


async def _lose(life: Simulation, index: int) -> None:
    """A node of a slice becomes unreachable, is deleted, or is under maintenance; the cloud repairs it."""
    names = sorted(node["metadata"]["name"] for node in (await life.rig.client.list(NODE)).items if _is_of_slice(node))
    if not names:
        return
    name, state = life.random.choice(names), life.random.choice(["silent", "preempted", "maintenance"])
    life.note(f"{state} {name}")
    await life.rig.client.patch(NODE, name, {"metadata": {"annotations": {"sliceworks.dev/state": state}}})


def _is_of_slice(node: Obj) -> bool:
    return well_known.MANAGER in node["metadata"]["labels"]


async def _settle(life: Simulation) -> None:
    """No further faults: wait until everything that can run has finished, then delete the rest and wait for its pools."""
    rig = life.rig

    async def ended() -> bool:
        return all([await _state(rig, name) == expected for name, expected in life.submitted.items() if expected])

    try:
        await rig.until(ended, _PATIENCE, "all JobSets end as they must")
    except AssertionError as error:
        life.wrong.append(str(error))
    for name, expected in life.submitted.items():
        if not expected:
            try:
                await rig.client.delete(JOBSET, name, "default", propagation_policy="Background")
            except NotFound:
                continue

    async def pools_deleted() -> bool:
        return not await rig.slices()

    try:
        await rig.until(pools_deleted, _PATIENCE, "all pools are deleted")
    except AssertionError as error:
        life.wrong.append(str(error))


async def _state(rig: Rig, name: str) -> str:
    try:
        return str(((await rig.jobset(name)).get("status") or {}).get("terminalState") or "")
    except NotFound:
        return ""


async def _check_invariants(life: Simulation) -> None:
    pools = await life.rig.pools()
    for name, before in life.foreign.items():
        if pools.get(name) != before:
            life.wrong.append(f"{name} is not what it was")
    left = sorted(set(pools) - set(life.foreign))
    if left:
        life.wrong.append(f"pools are left: {left}")
    for name, expected in life.submitted.items():
        if expected and (result := await _state(life.rig, name)) != expected:
            life.wrong.append(f"{name} is {result or 'not over'}, not {expected}: {(await life.rig.jobset(name)).get('status')}")
