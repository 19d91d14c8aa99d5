"""`sliceworks train` on a twin in the same process and in virtual time: each command finds a cluster that was made ready for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sliceworks.base import clock
from sliceworks.cli import main, train_cluster
from sliceworks.cli.env_sites import read_environment
from sliceworks.kube.client import Client
from sliceworks.rehearsal import submissions
from sliceworks.training.queues import manifests
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.shapes import Shape, create_nodes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = EXAMPLES / "environments" / "training" / "environment.yaml"
TEAM = "tpu-training"
Object = dict[str, Any]
T = TypeVar("T")


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[list[str]]:
        """The words of each line on stdout."""
        return [line.split() for line in self.out.splitlines()]


class Shell:
    """Runs commands, one after another on one twin. `ready` says how the next twin is made, and ends the one before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: Callable[[Client], Awaitable[None]] = platform
        self._workloads = True
        monkeypatch.setattr(train_cluster, "run", self._on_twin)

    def __call__(self, *arguments: str) -> Said:
        code = main.run(["train", *arguments])
        return Said(code, *self._capsys.readouterr())

    def ready(self, make: Callable[[Client], Awaitable[None]], *, workloads: bool = True) -> None:
        """The next command finds a twin that was made so."""
        self.close()
        self._ready, self._workloads = make, workloads

    def on(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something else with the twin."""
        found: T = self._on_twin(work, "", {})
        return found

    def close(self) -> None:
        """End the twin."""
        if self._loop is not None:
            self._loop.run_until_complete(self._twin.__aexit__(None, None, None))
            self._loop.close()
            self._loop = None

    def _on_twin(self, work: Callable[[Client], Awaitable[Any]], namespace: str, where: Object) -> Any:
        async def whole() -> Any:
            return await work(Client(self._twin.transport(), namespace=namespace or TEAM))

        with train_cluster.remedies():
            return self._open().run_until_complete(whole())

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = clock.new_loop(virtual=True, seed=1)
            self._twin = Cluster(workloads=self._workloads)
            self._loop.run_until_complete(self._twin.__aenter__())
            if self._workloads:
                self._loop.run_until_complete(self._ready(Client(self._twin.transport(), namespace=TEAM)))
        return self._loop


async def platform(client: Client) -> None:
    """The training example's queues, and no machines."""
    for each in manifests(read_environment(ENVIRONMENT)):
        await client.create(each)


async def with_machines(client: Client) -> None:
    """The same with a pool of CPUs and two v4-32 slices."""
    from sliceworks import catalog

    await platform(client)
    await create_nodes(client, Shape(pool="cpu-pool", machine="n1-standard-4"), 3)
    shape = catalog.find("v4-32")
    left = shape.machine.allocatable()
    for number in range(2):
        pool = Shape(
            f"tpu-node-pool-{number}",
            shape.machine.name,
            cpu=left["cpu"],
            memory=left["memory"],
            resources={shape.resource: str(shape.chips_per_host)},
            labels=shape.node_labels(),
            taints=tuple(shape.node_taints()),
        )
        await create_nodes(client, pool, shape.hosts, first=10 * (number + 1))


async def send(client: Client, example: str, **changes: str) -> Object:
    """Submit an example, with other annotations on its pods, and let a minute pass."""
    made = submissions.read(EXAMPLES / "training-jobs" / f"{example}.yaml").jobset(TEAM)
    for each in made["spec"]["replicatedJobs"]:
        if each["name"] == "slice":
            metadata = each["template"]["spec"]["template"].setdefault("metadata", {})
            told = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in changes.items()}
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **told}
    created = await client.create(made, resource=train_cluster.JOBSETS)
    await clock.sleep(60)
    return created
