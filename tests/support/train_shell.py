"""`sliceworks train` on an embedded twin in virtual time; each command runs against a prepared cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sliceworks.base import clock
from sliceworks.cli import main, train_client
from sliceworks.cli.env_site import read_environment
from sliceworks.kube.client import Client
from sliceworks.kube.resources import JOBSET
from sliceworks.training import submission
from sliceworks.training.queues import build_manifests
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = EXAMPLES / "environments" / "training" / "environment.yaml"
TEAM = "tpu-training"
Object = dict[str, Any]
T = TypeVar("T")


class CommandResult(NamedTuple):
    """Exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[list[str]]:
        """The words of each line of stdout."""
        return [line.split() for line in self.out.splitlines()]


class Shell:
    """Runs commands one after another on one twin; `ready` prepares the next twin and stops the previous one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: Callable[[Client], Awaitable[None]] = platform
        self._workloads = True
        monkeypatch.setattr(train_client, "run", self._on_twin)

    def __call__(self, *arguments: str) -> CommandResult:
        code = main.run(["train", *arguments])
        return CommandResult(code, *self._capsys.readouterr())

    def ready(self, make: Callable[[Client], Awaitable[None]], *, workloads: bool = True) -> None:
        """Prepare a new twin for the next commands."""
        self.close()
        self._ready, self._workloads = make, workloads

    def on(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run a coroutine with a client of the twin."""
        result: T = self._on_twin(work, "", {})
        return result

    def close(self) -> None:
        """Stop the twin."""
        if self._loop is not None:
            self._loop.run_until_complete(self._twin.__aexit__(None, None, None))
            self._loop.close()
            self._loop = None

    def _on_twin(self, work: Callable[[Client], Awaitable[Any]], namespace: str, where: Object) -> Any:
        async def run_main() -> Any:
            return await work(Client(self._twin.transport(), namespace=namespace or TEAM))

        with train_client.permission_hints():
            return self._open().run_until_complete(run_main())

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = clock.new_loop(virtual=True, seed=1)
            self._twin = Cluster(workloads=self._workloads)
            self._loop.run_until_complete(self._twin.__aenter__())
            if self._workloads:
                self._loop.run_until_complete(self._ready(Client(self._twin.transport(), namespace=TEAM)))
        return self._loop


async def platform(client: Client) -> None:
    """The queues of the training example, without nodes."""
    for obj in build_manifests(read_environment(ENVIRONMENT)):
        await client.create(obj)


async def with_machines(client: Client) -> None:
    """The same with a pool of CPU nodes and two v4-32 slices."""
    from sliceworks import catalog

    await platform(client)
    await create_nodes(client, NodeShape(pool="cpu-pool", machine="n1-standard-4"), 3)
    shape = catalog.find("v4-32")
    left = shape.machine.allocatable()
    for number in range(2):
        pool = NodeShape(
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
    """Submit an example with other annotations on its pods, and let a minute pass."""
    built = submission.load(EXAMPLES / "training-jobs" / f"{example}.yaml").jobset(TEAM)
    for replicated_job in built["spec"]["replicatedJobs"]:
        if replicated_job["name"] == "slice":
            metadata = replicated_job["template"]["spec"]["template"].setdefault("metadata", {})
            reported = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in changes.items()}
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **reported}
    created = await client.create(built, resource=JOBSET)
    await clock.sleep(60)
    return created
