"""The inside of an environment's cluster, joined for the commands: what infra decides, what training renders, and what is read from
files and from the cluster itself."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base import progress
from sliceworks.base.errors import NotFound, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
    from pathlib import Path

    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.infra.cluster.outcomes import Outcome
    from sliceworks.infra.cluster.removing import Remover
    from sliceworks.infra.cluster.shelves import Shelf
    from sliceworks.infra.cluster.steps import Step
    from sliceworks.infra.environments import Site
    from sliceworks.kube import Client

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
        from sliceworks.infra.cluster.applying import Applier

        async def main() -> list[Outcome]:
            async with self._entered(outputs) as (client, inventory):
                steps = await self._steps(client, inventory, outputs)
                return await Applier(client, self._name, self.patience).apply(steps, inventory, begun)

        return self._run(main)

    def requeue(self, outputs: Mapping[str, Any]) -> None:
        """Have queues know how much there is to share; nothing where none were made yet."""
        from sliceworks.infra.cluster.applying import Applier

        async def main() -> None:
            async with self._entered(outputs) as (client, inventory):
                if any(each.step == _QUEUES for each in inventory.entries.values()):
                    steps = [each for each in await self._steps(client, inventory, outputs) if each.name == _QUEUES]
                    await Applier(client, self._name, self.patience).apply_only(steps, inventory, lambda _step: lambda _said: None)

        if outputs.get("cluster"):
            self._run(main)

    def compare(self, outputs: Mapping[str, Any]) -> list[Outcome]:
        """What applying would do, asked of the cluster; where there is none yet, what it would be."""
        from sliceworks.infra.cluster import comparing

        async def main() -> list[Outcome]:
            async with self._entered(outputs) as (client, inventory):
                return await comparing.compare(client, await self._steps(client, inventory, outputs), inventory)

        return self._run(main) if outputs.get("cluster") else [*self._to_come(), *comparing.fresh(self._first_steps())]

    def listed(self, outputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What was put into the cluster: the step and the object."""

        async def main() -> list[tuple[str, str]]:
            async with self._entered(outputs) as (_client, inventory):
                return [(each.step, str(each.who)) for each in inventory.entries.values()]

        return self._run(main) if outputs.get("cluster") else []

    def remove(self, outputs: Mapping[str, Any], begun: Callable[[Any], Callable[[str], None]]) -> tuple[int, list[str]]:
        """Take everything out again: how many objects have gone, and what stays in Google Cloud."""
        from sliceworks.infra.cluster.removing import Remover

        async def main() -> tuple[int, list[str]]:
            async with self._entered(outputs) as (client, inventory):
                remover: Remover = Remover(client, inventory, self.patience)
                return await remover.remove(begun), remover.stays

        try:
            return self._run(main) if outputs.get("cluster") else (0, [])
        except Unreachable as error:
            hint = "when it is gone already, or never to be reached again: --abandon"
            raise Unreachable(f"what is in the cluster cannot be cleared up: {error.message}", hint=hint) from error

    @property
    def _name(self) -> str:
        return self.site.environment.metadata.name

    def _run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        from sliceworks.cli import connections

        return connections.run(main, kubeconfig=None, context=None, twin=self.twin)

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

    async def _steps(self, client: Client, inventory: Inventory, outputs: Mapping[str, Any]) -> tuple[Step, ...]:
        """The steps for this cluster, with what it has already."""
        from sliceworks.infra.cluster import compose, queueing, releases, waiting
        from sliceworks.kube.well_known import CONFIG_MAP

        environment, found = self.site.environment, dict[str, list[Object]]()
        for release in releases.releases(environment.spec):
            there = await waiting.served(client, *release.sign) is not None
            if not there or inventory.installed(release.name):
                found[release.name], checksum = await asyncio.to_thread(self._shelf().objects, release, inventory.checksums)
                if checksum:
                    inventory.note_checksum(release.title, checksum)
        settles = ("v1", "ConfigMap", *queueing.CONFIGURATION) in inventory.entries
        if not settles:
            place, name = queueing.CONFIGURATION
            try:
                await client.get(CONFIG_MAP, name, place)
                if environment.spec.queues.ready_within and "kueue" not in found:
                    progress.say(f"queues.readyWithin: Kueue's settings ({place}/{name}) are somebody else's, and stay as they are")
            except NotFound:
                settles = True
        given = compose.Given(
            emails=outputs.get("identities") or {},
            queues=self._queues(),
            releases=found,
            graphs=self.graphs,
            secrets=self._secrets(),
            settles_kueue=settles,
        )
        return compose.steps(environment, given)

    def _first_steps(self) -> tuple[Step, ...]:
        """The steps for a cluster that is not there yet. What would have to be fetched is told by its name alone."""
        from sliceworks.infra.cluster import compose

        given = compose.Given(queues=self._queues(), graphs=self.graphs, secrets=self._secrets())
        return compose.steps(self.site.environment, given)

    def _to_come(self) -> list[Outcome]:
        """What others publish and a new cluster would get; a twin has most of it."""
        from sliceworks.infra.cluster.objects import Identity
        from sliceworks.infra.cluster.outcomes import Outcome
        from sliceworks.infra.cluster.releases import releases

        found = releases(self.site.environment.spec)
        return [] if self.twin else [Outcome(each.name, Identity("", "Release", "", each.version), "create") for each in found]

    def _queues(self) -> list[Object]:
        from sliceworks.training.queues import manifests

        spec = self.site.environment.spec
        return manifests(self.site.environment) if spec.addons.kueue or spec.teams else []

    def _secrets(self) -> dict[str, dict[str, str]]:
        """What is in the files; on a twin nobody needs real credentials."""
        from sliceworks.infra.cluster import secrets

        service = self.site.environment.spec.self_service
        found = secrets.read(self.site.environment, self.folder)
        if self.twin and service:
            found = {each.secret: found.get(each.secret, {}) for each in service.model_registries}
        return found

    def _shelf(self) -> Shelf:
        from sliceworks.infra.cluster.shelves import Files, OfTheTwin

        if self.twin and self.manifests is None:
            return OfTheTwin()
        return Files(self.site.workspace.folder / "releases", self.manifests)
