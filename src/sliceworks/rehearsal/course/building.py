"""An environment in a rehearsal: made by Terraform in the twin's cloud, filled as `env apply` fills a cluster, and removed again.

Terraform runs in real time, and the twin's time stands still meanwhile; then as much of it passes as such a stage takes at Google.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.rehearsal.contents import Contents, published, with_roles
from sliceworks.rehearsal.course.aside import aside, open_cloud
from sliceworks.rehearsal.drill import mortals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.infra.environments import Site
    from sliceworks.kube.client import Client
    from sliceworks.specs.environment import Environment
    from sliceworks.twin.cluster import Cluster

Object = dict[str, Any]
_TAKES = {"0-bootstrap": 120.0, "1-base": 180.0, "2-cluster": 900.0}
_USUALLY = 120.0
CLUSTER_STAGE = "2-cluster"


@dataclass(slots=True)
class Built:
    """What came of it."""

    stages: int = 0
    resources: int = 0
    objects: int = 0


@dataclass(slots=True)
class Builder:
    """One environment on one twin. `work` is an empty folder for Terraform, `folder` that of the document."""

    environment: Environment
    folder: Path
    work: Path
    cluster: Cluster
    client: Client
    report: Callable[[str], None]

    async def apply(self) -> Built:
        """Make all stages, and put into the cluster what belongs there."""
        built = Built()
        async with open_cloud(self.cluster) as address:
            running = self._site(address).apply(self._begun)
            while (made := await aside(lambda: next(running, None))) is not None:
                stage, changes, outputs = made
                await self._start_anew()
                built.stages += 1
                built.resources += sum(change.action == "create" for change in changes)
                self.report(f"{stage.name} at Google")
                await clock.sleep(_TAKES.get(stage.name, _USUALLY))
                if stage.name == CLUSTER_STAGE:
                    built.objects = len(await self._contents.apply(self.client, outputs, self._begun))
        return built

    async def destroy(self) -> Built:
        """Take everything out of the cluster, and remove all stages, the last first."""
        built = Built()
        built.objects, _ = await self._contents.remove(self.client, self._begun)
        async with open_cloud(self.cluster) as address:
            running = self._site(address).destroy(self._begun)
            while (removed := await aside(lambda: next(running, None))) is not None:
                stage, changes = removed
                built.stages += 1
                built.resources += sum(change.action == "delete" for change in changes)
                self.report(f"{stage.name} at Google")
                await clock.sleep(_TAKES.get(stage.name, _USUALLY))
        return built

    async def _start_anew(self) -> None:
        """Have everybody in the cluster look at it anew: who saw it grow remembers in which order, and Terraform has none."""
        for each in mortals(self.cluster):
            await each.kill()
            await each.revive()

    @property
    def _graphs(self) -> tuple[Object, ...]:
        return tuple(document.data for document in published(self.environment, self.folder))

    def _site(self, address: str) -> Site:
        from sliceworks.infra import programs
        from sliceworks.infra.environments import Site
        from sliceworks.infra.targets import TwinTarget
        from sliceworks.infra.workspaces import Workspace

        target = TwinTarget(address=address, token=self.cluster.token)
        return Site(with_roles(self.environment, self._graphs), target, Workspace(self.work), programs.find())

    @property
    def _contents(self) -> Contents:
        from sliceworks.infra.cluster.shelves import OfTheTwin

        return Contents(with_roles(self.environment, self._graphs), self.folder, self._graphs, twin=True, shelf=OfTheTwin())

    def _begun(self, step: Any) -> Callable[[str], None]:
        self.report(str(step.name))
        return lambda said: self.report(f"{step.name}: {said}")
