"""Deploys the environment with Terraform and the model services, and removes them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.catalog.labels import READS, WRITES
from sliceworks.infra.stages import contents_stage
from sliceworks.kube.resources import key_of
from sliceworks.platform.cluster_contents import ClusterContents, add_graph_roles, load_published_graphs
from sliceworks.platform.controller_host import list_restartables
from sliceworks.rehearsal.simulation.real_time import run_in_thread, serve_cloud
from sliceworks.serving.ownership import delete_service
from sliceworks.serving.rollout import Rollout
from sliceworks.serving.validation import parse_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sliceworks.base.yaml_documents import Document
    from sliceworks.infra.stack import Stack
    from sliceworks.kube.client import Client
    from sliceworks.platform.document_set import DocumentSet
    from sliceworks.specs.environment import Environment
    from sliceworks.twin.cloud.pod_storage import PodStorage
    from sliceworks.twin.cluster import Cluster

Object = dict[str, Any]
_STAGE_SECONDS = {"0-bootstrap": 120.0, "1-base": 180.0, "2-cluster": 900.0}
_DEFAULT_STAGE_SECONDS = 120.0
CLUSTER_STAGE = "2-cluster"


@dataclass(slots=True)
class DeploymentResult:
    """Counts of a deployment."""

    stages: int = 0
    resources: int = 0
    objects: int = 0

    def __str__(self) -> str:
        return f"{self.resources} resources in {self.stages} stages, {self.objects} objects in the cluster"


@dataclass(slots=True)
class EnvironmentDeployer:
    """Deploys an environment to a twin. `work` is an empty folder for Terraform, `folder` that of the document."""

    environment: Environment
    folder: Path
    work: Path
    cluster: Cluster
    client: Client
    report: Callable[[str], None]

    async def apply(self) -> DeploymentResult:
        """Apply all stages, then the contents of the cluster."""
        result = DeploymentResult()
        stage_outputs: dict[str, dict[str, Any]] = {}
        async with serve_cloud(self.cluster) as address:
            stages = self._stack(address).apply(self._begin_step)
            while (applied := await run_in_thread(lambda: next(stages, None))) is not None:
                stage, changes, outputs = applied
                await self._restart_controllers()
                result.stages += 1
                result.resources += sum(change.action == "create" for change in changes)
                self.report(f"{stage.name} at Google")
                await clock.sleep(_STAGE_SECONDS.get(stage.name, _DEFAULT_STAGE_SECONDS))
                stage_outputs[stage.name] = outputs
                if stage.name == contents_stage(self.environment):
                    result.objects = len(await self._contents.apply(self.client, stage_outputs[CLUSTER_STAGE], self._begin_step))
        return result

    async def destroy(self) -> DeploymentResult:
        """Remove the contents of the cluster, then destroy all stages in reverse order."""
        result = DeploymentResult()
        result.objects, _ = await self._contents.remove(self.client, self._begin_step)
        async with serve_cloud(self.cluster) as address:
            stages = self._stack(address).destroy(self._begin_step)
            while (removed := await run_in_thread(lambda: next(stages, None))) is not None:
                stage, changes = removed
                result.stages += 1
                result.resources += sum(change.action == "delete" for change in changes)
                self.report(f"{stage.name} at Google")
                await clock.sleep(_STAGE_SECONDS.get(stage.name, _DEFAULT_STAGE_SECONDS))
        return result

    async def _restart_controllers(self) -> None:
        """Restart all controllers: their caches depend on the order of Terraform's requests, which is not deterministic."""
        for restartable in list_restartables(self.cluster):
            await restartable.kill()
            await restartable.restart()

    @property
    def _graphs(self) -> tuple[Object, ...]:
        return tuple(document.data for document in load_published_graphs(self.environment, self.folder))

    def _stack(self, address: str) -> Stack:
        from sliceworks.infra import stack
        from sliceworks.infra.stack import Stack, Workspace
        from sliceworks.infra.target import TwinTarget

        target = TwinTarget(address=address, token=self.cluster.token)
        return Stack(add_graph_roles(self.environment, self._graphs), target, Workspace(self.work), stack.find_terraform())

    @property
    def _contents(self) -> ClusterContents:
        from sliceworks.infra.cluster.addon import TwinReleases

        return ClusterContents(
            add_graph_roles(self.environment, self._graphs), self.folder, self._graphs, twin=True, releases=TwinReleases()
        )

    def _begin_step(self, step: Any) -> Callable[[str], None]:
        self.report(str(step.name))
        return lambda message: self.report(f"{step.name}: {message}")


_TIMEOUT = 3600.0
_DEFAULT_NAMESPACE = "default"


async def deploy_models(cluster: Cluster, client: Client, documents: Iterable[Document], report: Callable[[str], None]) -> None:
    """Deploy services in order, waiting until each is ready. What they read from buckets and do not write is assumed to exist."""
    for document in documents:
        service = parse_valid(document)
        rollout = Rollout(client, service, document.data, service.metadata.namespace or _DEFAULT_NAMESPACE)
        assume_sources(cluster.pod_storage, await rollout.prepare(), report)
        record = await rollout.apply(report, _TIMEOUT)
        await rollout.follow(record, report, _TIMEOUT)


def assume_sources(storage: PodStorage, objects: Iterable[Object], report: Callable[[str], None]) -> None:
    """Treat what the pods of a service read from Cloud Storage as existing, except what its own pods write."""
    templates = [obj["spec"]["template"] for obj in objects if "template" in obj.get("spec", {})]
    written = [url for template in templates for url in _urls(template, WRITES)]
    for url in dict.fromkeys(url for template in templates for url in _urls(template, READS)):
        if not any(other.startswith(f"{url}/") for other in written) and storage.assume(url):
            report(f"assuming that {url} exists")


def _urls(template: Object, name: str) -> list[str]:
    return [url for url in (template["metadata"].get("annotations") or {}).get(name, "").split(",") if url]


async def remove_documents(client: Client, program: DocumentSet, report: Callable[[str], None]) -> None:
    """Delete the objects of the documents in reverse order; ignores those that do not exist."""
    from sliceworks.serving import cluster

    for document in reversed(program.services):
        service = parse_valid(document)
        name, namespace = service.metadata.name, service.metadata.namespace or _DEFAULT_NAMESPACE
        report(f"deleting {name}")
        record = next((item for item in await cluster.list_records(client, namespace) if item.service.metadata.name == name), None)
        if record is not None:
            await delete_service(client, record, namespace, _TIMEOUT)
    for document in reversed(program.objects):
        try:
            key = key_of(document.data)
            await client.delete(await client.resource_of(document.data), key.name, key.namespace or None)
        except NotFound:
            continue
    await clock.sleep(60)
