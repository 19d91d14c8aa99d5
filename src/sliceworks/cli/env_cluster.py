"""The inside of an environment's cluster, for the commands: the way there, and what is done with its contents."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
    from pathlib import Path

    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.infra.cluster.outcomes import Outcome
    from sliceworks.infra.cluster.shelves import Shelf
    from sliceworks.infra.environments import Site
    from sliceworks.kube import Client
    from sliceworks.rehearsal.contents import Contents

T = TypeVar("T")
Object = dict[str, Any]
_QUEUES = "queues"
STAGE = "2-cluster"
"""The stage that makes the cluster."""


@dataclass(frozen=True, slots=True)
class Inside:
    """One environment's cluster. `folder` is the document's: names of files in it are relative to that."""

    site: Site
    folder: Path
    graphs: tuple[Object, ...]
    twin: bool
    manifests: Path | None = None
    patience: float = 600.0

    def apply(self, outputs: Mapping[str, Any], begun: Callable[[Any], Callable[[str], None]]) -> list[Outcome]:
        """Put everything into the cluster, and take away what is no longer asked for."""

        async def main() -> list[Outcome]:
            async with self._open(outputs) as client:
                return await self._contents.apply(client, outputs, begun)

        return self._run(main)

    def requeue(self, outputs: Mapping[str, Any]) -> None:
        """Have queues know how much there is to share; nothing where none were made yet."""
        from sliceworks.infra.cluster.applying import Applier

        async def main() -> None:
            async with self._entered(outputs) as (client, inventory):
                if any(each.step == _QUEUES for each in inventory.entries.values()):
                    steps = [each for each in await self._contents.steps(client, inventory, outputs) if each.name == _QUEUES]
                    await Applier(client, self._name, self.patience).apply_only(steps, inventory, lambda _step: lambda _said: None)

        if outputs.get("cluster"):
            self._run(main)

    def compare(self, outputs: Mapping[str, Any]) -> list[Outcome]:
        """What applying would do, asked of the cluster; where there is none yet, what it would be."""
        from sliceworks.infra.cluster import comparing

        async def main() -> list[Outcome]:
            async with self._entered(outputs) as (client, inventory):
                return await comparing.compare(client, await self._contents.steps(client, inventory, outputs), inventory)

        contents = self._contents
        return self._run(main) if outputs.get("cluster") else [*contents.to_come(), *comparing.fresh(contents.first_steps())]

    def listed(self, outputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What was put into the cluster: the step and the object."""

        async def main() -> list[tuple[str, str]]:
            async with self._entered(outputs) as (_client, inventory):
                return [(each.step, str(each.who)) for each in inventory.entries.values()]

        return self._run(main) if outputs.get("cluster") else []

    def remove(self, outputs: Mapping[str, Any], begun: Callable[[Any], Callable[[str], None]]) -> tuple[int, list[str]]:
        """Take everything out again: how many objects have gone, and what stays in Google Cloud."""

        async def main() -> tuple[int, list[str]]:
            async with self._open(outputs) as client:
                return await self._contents.remove(client, begun)

        try:
            return self._run(main) if outputs.get("cluster") else (0, [])
        except Unreachable as error:
            hint = "when it is gone already, or never to be reached again: --abandon"
            raise Unreachable(f"what is in the cluster cannot be cleared up: {error.message}", hint=hint) from error

    @property
    def _name(self) -> str:
        return self.site.environment.metadata.name

    def _run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        from sliceworks.base import clock
        from sliceworks.cli import connections

        return connections.run(main, kubeconfig=None, context=None, twin=True) if self.twin else clock.run(main())

    @asynccontextmanager
    async def _entered(self, outputs: Mapping[str, Any]) -> AsyncIterator[tuple[Client, Inventory]]:
        from sliceworks.infra.cluster import inventory

        async with self._open(outputs) as client:
            yield client, await inventory.read(client, self._name)

    def _open(self, outputs: Mapping[str, Any]) -> Client:
        """The twin's own cluster, or the one that Terraform made: whoever makes clusters may also fill them."""
        if self.twin:
            from sliceworks.cli.connections import open_cluster

            return open_cluster(None, None, twin=True)
        from sliceworks.cloud.connecting import credentials
        from sliceworks.infra.cluster.connecting import connect
        from sliceworks.infra.names import Names

        return connect(outputs["cluster"], credentials(impersonate=Names(self.site.environment).automation_account))

    @property
    def _contents(self) -> Contents:
        from sliceworks.rehearsal.contents import Contents

        return Contents(self.site.environment, self.folder, self.graphs, self.twin, self._shelf(), self.patience)

    def _shelf(self) -> Shelf:
        from sliceworks.infra.cluster.shelves import Files, OfTheTwin

        if self.twin and self.manifests is None:
            return OfTheTwin()
        return Files(self.site.workspace.folder / "releases", self.manifests)
