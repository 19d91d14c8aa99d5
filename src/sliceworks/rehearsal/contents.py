"""What goes into an environment's cluster: what infra decides, what training renders, and what is read from files and from the
cluster itself, joined. Commands and rehearsals put it there, each over a connection of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import progress, yamls
from sliceworks.base.errors import InvalidDocument, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.infra.cluster.outcomes import Outcome
    from sliceworks.infra.cluster.removing import Remover
    from sliceworks.infra.cluster.shelves import Shelf
    from sliceworks.infra.cluster.steps import Step
    from sliceworks.kube import Client
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
_GRAPH = "ResourceGraphDefinition"


def published(environment: Environment, folder: Path) -> list[Document]:
    """The graphs that an environment publishes; names of files are relative to a folder."""
    service = environment.spec.self_service
    found = [document for each in (service.graphs if service else ()) for document in yamls.load_path(folder / each)]
    strays = [document for document in found if document.data.get("kind") != _GRAPH]
    if strays:
        raise InvalidDocument(f"{strays[0].name} is no {_GRAPH}", place=strays[0].place(), hint="see spec.selfService.graphs")
    return found


def with_roles(environment: Environment, graphs: Sequence[Object]) -> Environment:
    """The Environment with the roles that Config Connector needs for the published graphs, and no more, beside those it names."""
    from sliceworks.infra.cluster import graph_needs

    spec = environment.spec
    if spec.self_service is None:
        return environment
    service = spec.self_service
    needed = graph_needs.roles(graphs) + list(graph_needs.READS if service.project else ())
    roles = sorted({*needed, *service.config_connector.roles})
    grants = sorted({*graph_needs.grants(graphs), *(service.config_connector.grants or ())})
    connector = service.config_connector.model_copy(update={"roles": roles, "grants": grants})
    service = service.model_copy(update={"config_connector": connector})
    return environment.model_copy(update={"spec": spec.model_copy(update={"self_service": service})})


@dataclass(frozen=True, slots=True)
class Contents:
    """What one environment's cluster is to have. `folder` is the document's; `shelf` has what others publish."""

    environment: Environment
    folder: Path
    graphs: tuple[Object, ...]
    twin: bool
    shelf: Shelf
    patience: float = 600.0

    async def apply(
        self, client: Client, outputs: Mapping[str, Any], begun: Callable[[Any], Callable[[str], None]]
    ) -> list[Outcome]:
        """Put everything into the cluster, and take away what is no longer asked for."""
        from sliceworks.infra.cluster import inventory as inventories
        from sliceworks.infra.cluster.applying import Applier

        inventory = await inventories.read(client, self.environment.metadata.name)
        steps = await self.steps(client, inventory, outputs)
        return await Applier(client, self.environment.metadata.name, self.patience).apply(steps, inventory, begun)

    async def remove(self, client: Client, begun: Callable[[Any], Callable[[str], None]]) -> tuple[int, list[str]]:
        """Take everything out again: how many objects have gone, and what stays in Google Cloud."""
        from sliceworks.infra.cluster import inventory as inventories
        from sliceworks.infra.cluster.removing import Remover

        inventory = await inventories.read(client, self.environment.metadata.name)
        remover: Remover = Remover(client, inventory, self.patience)
        return await remover.remove(begun), remover.stays

    async def steps(self, client: Client, inventory: Inventory, outputs: Mapping[str, Any]) -> tuple[Step, ...]:
        """The steps for this cluster, with what it has already."""
        from sliceworks.infra.cluster import compose, queueing, releases, waiting
        from sliceworks.kube.well_known import CONFIG_MAP

        environment, found = self.environment, dict[str, list[Object]]()
        for release in releases.releases(environment.spec):
            there = await waiting.served(client, *release.sign) is not None
            if not there or inventory.installed(release.name):
                found[release.name], checksum = await asyncio.to_thread(self.shelf.objects, release, inventory.checksums)
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

    def first_steps(self) -> tuple[Step, ...]:
        """The steps for a cluster that is not there yet. What would have to be fetched is told by its name alone."""
        from sliceworks.infra.cluster import compose

        given = compose.Given(queues=self._queues(), graphs=self.graphs, secrets=self._secrets())
        return compose.steps(self.environment, given)

    def to_come(self) -> list[Outcome]:
        """What others publish and a new cluster would get; a twin has most of it."""
        from sliceworks.infra.cluster.objects import Identity
        from sliceworks.infra.cluster.outcomes import Outcome
        from sliceworks.infra.cluster.releases import releases

        found = releases(self.environment.spec)
        return [] if self.twin else [Outcome(each.name, Identity("", "Release", "", each.version), "create") for each in found]

    def _queues(self) -> list[Object]:
        from sliceworks.training.queues import manifests

        spec = self.environment.spec
        return manifests(self.environment) if spec.addons.kueue or spec.teams else []

    def _secrets(self) -> dict[str, dict[str, str]]:
        """What is in the files; on a twin nobody needs real credentials."""
        from sliceworks.infra.cluster import secrets

        service = self.environment.spec.self_service
        found = secrets.read(self.environment, self.folder)
        if self.twin and service:
            found = {each.secret: found.get(each.secret, {}) for each in service.model_registries}
        return found
