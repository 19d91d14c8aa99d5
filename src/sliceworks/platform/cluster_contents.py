"""Everything that an environment's cluster contains: add-ons, queues, graphs and Secrets, applied and removed through a client."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import progress, yaml_documents
from sliceworks.base.errors import InvalidDocument, NotFound
from sliceworks.platform import twin_home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.base.yaml_documents import Document
    from sliceworks.infra.cluster.addon import ReleaseSource
    from sliceworks.infra.cluster.inventory import ApplyResult, Inventory, Step
    from sliceworks.infra.stack import Stack
    from sliceworks.infra.target import Target
    from sliceworks.kube import Client
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
_GRAPH = "ResourceGraphDefinition"


def find_target(*, twin: bool) -> Target:
    """Google Cloud, or the cloud of the running twin."""
    from sliceworks.infra.target import Target, TwinTarget

    if not twin:
        return Target()
    state = twin_home.running_twin()
    return TwinTarget(address=state.cloud, token=state.token)


def find_stack(environment: Environment, *, twin: bool) -> Stack:
    """The Terraform stages of an environment: in Google Cloud, or in the cloud of the running twin."""
    from sliceworks.infra.stack import Stack, Workspace, find_terraform

    root = Path(twin_home.running_twin().directory) if twin else twin_home.state_root()
    workspace = Workspace(root / "environments" / environment.metadata.name)
    return Stack(environment, find_target(twin=twin), workspace, find_terraform())


def load_published_graphs(environment: Environment, folder: Path) -> list[Document]:
    """The graphs that an environment publishes; file names are relative to `folder`."""
    service = environment.spec.self_service
    documents = [document for item in (service.graphs if service else ()) for document in yaml_documents.load_path(folder / item)]
    strays = [document for document in documents if document.data.get("kind") != _GRAPH]
    if strays:
        raise InvalidDocument(f"{strays[0].name} is not a {_GRAPH}", place=strays[0].place(), hint="see spec.selfService.graphs")
    return documents


def add_graph_roles(environment: Environment, graphs: Sequence[Object]) -> Environment:
    """The Environment plus exactly the roles that Config Connector needs for the published graphs."""
    from sliceworks.infra.cluster import self_service

    spec = environment.spec
    if spec.self_service is None:
        return environment
    service = spec.self_service
    needed = self_service.config_connector_roles(graphs) + list(self_service.READ_ROLES if service.project else ())
    roles = sorted({*needed, *service.config_connector.roles})
    grants = sorted({*self_service.granted_roles(graphs), *(service.config_connector.grants or ())})
    connector = service.config_connector.model_copy(update={"roles": roles, "grants": grants})
    service = service.model_copy(update={"config_connector": connector})
    return environment.model_copy(update={"spec": spec.model_copy(update={"self_service": service})})


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """Desired contents of one environment's cluster. `folder` is the document's; `releases` provides third-party manifests."""

    environment: Environment
    folder: Path
    graphs: tuple[Object, ...]
    twin: bool
    releases: ReleaseSource
    timeout: float = 600.0

    async def apply(
        self, client: Client, outputs: Mapping[str, Any], start_step: Callable[[Any], Callable[[str], None]]
    ) -> list[ApplyResult]:
        """Apply everything, and delete what the environment no longer contains."""
        from sliceworks.infra.cluster import inventory as inventories
        from sliceworks.infra.cluster.applier import Applier

        inventory = await inventories.read(client, self.environment.metadata.name)
        steps = await self.steps(client, inventory, outputs)
        return await Applier(client, self.environment.metadata.name, self.timeout).apply(steps, inventory, start_step)

    async def remove(self, client: Client, start_step: Callable[[Any], Callable[[str], None]]) -> tuple[int, list[str]]:
        """Delete everything; returns the number of deleted objects and what remains in Google Cloud."""
        from sliceworks.infra.cluster import inventory as inventories
        from sliceworks.infra.cluster.destroyer import Destroyer

        inventory = await inventories.read(client, self.environment.metadata.name)
        destroyer = Destroyer(client, inventory, self.timeout)
        return await destroyer.remove(start_step), destroyer.remaining

    async def steps(self, client: Client, inventory: Inventory, outputs: Mapping[str, Any]) -> tuple[Step, ...]:
        """The steps for this cluster, given what it contains already."""
        from sliceworks.infra.cluster import addon, applier, composition
        from sliceworks.kube.resources import CONFIG_MAP

        environment, releases = self.environment, dict[str, list[Object]]()
        for release in addon.required_releases(environment.spec):
            is_served = await applier.find_resource(client, *release.sign) is not None
            if not is_served or inventory.installed(release.name):
                releases[release.name], checksum = await asyncio.to_thread(self.releases.objects, release, inventory.checksums)
                if checksum:
                    inventory.record_checksum(release.title, checksum)
        owns_config = ("v1", "ConfigMap", *addon.KUEUE_CONFIG) in inventory.entries
        if not owns_config:
            namespace, name = addon.KUEUE_CONFIG
            try:
                await client.get(CONFIG_MAP, name, namespace)
                if environment.spec.queues.ready_within and "kueue" not in releases:
                    progress.say(
                        f"queues.readyWithin: Kueue's settings ({namespace}/{name}) are managed by another client; keeping them"
                    )
            except NotFound:
                owns_config = True
        inputs = composition.ClusterInputs(
            emails=outputs.get("identities") or {},
            queues=self._queues(),
            releases=releases,
            graphs=self.graphs,
            secrets=self._secrets(),
            configures_kueue=owns_config,
        )
        return composition.compose_steps(environment, inputs)

    def initial_steps(self) -> tuple[Step, ...]:
        """The steps for a cluster that does not exist yet; releases are not fetched, so they appear by name only."""
        from sliceworks.infra.cluster import composition

        inputs = composition.ClusterInputs(queues=self._queues(), graphs=self.graphs, secrets=self._secrets())
        return composition.compose_steps(self.environment, inputs)

    def pending_releases(self) -> list[ApplyResult]:
        """Third-party releases that a new cluster would get; a twin has them built in."""
        from sliceworks.infra.cluster.addon import required_releases
        from sliceworks.infra.cluster.inventory import ApplyResult, ObjectReference

        if self.twin:
            return []
        releases = required_releases(self.environment.spec)
        return [ApplyResult(item.name, ObjectReference("", "Release", "", item.version), "create") for item in releases]

    def _queues(self) -> list[Object]:
        from sliceworks.training.queues import build_manifests

        spec = self.environment.spec
        return build_manifests(self.environment) if spec.addons.kueue or spec.teams else []

    def _secrets(self) -> dict[str, dict[str, str]]:
        """Secret data read from files; a twin needs no real credentials, so missing files give empty Secrets there."""
        from sliceworks.infra.cluster import composition

        service = self.environment.spec.self_service
        result = composition.read_secrets(self.environment, self.folder)
        if self.twin and service:
            result = {registry.secret: result.get(registry.secret, {}) for registry in service.model_registries}
        return result
