"""From a ResourceGraphDefinition in the cluster to a graph, and which kinds it still waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.controllers.graphs.cluster_kinds import ClusterKinds
from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.model import MOST_DIMENSIONS

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.cluster_kinds import Named
    from sliceworks.controllers.graphs.measures import Measures
    from sliceworks.graph.model import Graph
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object


_TOLD = 5


@dataclass(frozen=True, slots=True)
class NotCompiled:
    """Why there is no graph, and the kinds whose arrival is worth another try."""

    message: str
    missing: frozenset[Named] = frozenset()


class Compiler:
    """Compiles definitions against the kinds that the cluster has now."""

    def __init__(self, client: Client, measures: Measures, dimensions: int = MOST_DIMENSIONS) -> None:
        self._kinds = ClusterKinds(client)
        self._measures, self._dimensions = measures, dimensions

    async def compile(self, name: str, spec: Object) -> Graph | NotCompiled:
        """The graph of a spec."""
        from sliceworks.graph import compile as compiling
        from sliceworks.graph import definitions

        began = clock.loop_time()
        document = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name}, "spec": spec}
        missing: set[Named] = set()
        try:
            definition = definitions.read(document, dimensions=self._dimensions)
            kinds, missing = await self._kinds.for_definition(definition)
            return compiling.compile(definition, kinds)
        except DefinitionError as error:
            self._measures.build_errors.add(name)
            return NotCompiled(_sentences(error, missing), frozenset(missing))
        finally:
            self._measures.builds.add(name)
            self._measures.build_seconds.observe(clock.loop_time() - began, name)


def _sentences(error: DefinitionError, missing: set[Named]) -> str:
    """What is wrong, the first few of it, and what is waited for."""
    told = [str(issue) for issue in error.issues[:_TOLD]]
    if len(error.issues) > _TOLD:
        told.append(f"and {len(error.issues) - _TOLD} more")
    text = "; ".join(told)
    if missing:
        waited = ", ".join(f"{kind} of {api_version}" for api_version, kind in sorted(missing))
        text += f" (this is looked at again when the cluster has {waited})"
    return text
