"""What the `env` commands share: the validated document, its Terraform site, its cluster and its images."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import click

from sliceworks.base import progress
from sliceworks.base.errors import InvalidDocument, Unreachable
from sliceworks.cli import options
from sliceworks.cli.output import Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping

    from sliceworks.base.yaml_documents import Document
    from sliceworks.infra.cluster.addon import ReleaseSource
    from sliceworks.infra.cluster.inventory import ApplyResult, Inventory
    from sliceworks.infra.images import ImageBuilder
    from sliceworks.infra.preflight import Finding
    from sliceworks.infra.stack import Stack
    from sliceworks.infra.terraform import Change
    from sliceworks.kube import Client
    from sliceworks.platform.cluster_contents import ClusterContents
    from sliceworks.specs.environment import Environment

T = TypeVar("T")
Object = dict[str, Any]
_QUEUES = "queues"
CLUSTER_STAGE = "2-cluster"
"""The stage that creates the cluster."""


@dataclass(frozen=True, slots=True)
class EnvironmentCluster:
    """The cluster of an environment. File names in the document are relative to `folder`."""

    site: Stack
    folder: Path
    graphs: tuple[Object, ...]
    twin: bool
    manifests: Path | None = None
    timeout: float = 600.0

    def apply(self, outputs: Mapping[str, Any], start_step: Callable[[Any], Callable[[str], None]]) -> list[ApplyResult]:
        """Apply all objects to the cluster, and delete those that are no longer in the document."""

        async def main() -> list[ApplyResult]:
            async with self._open(outputs) as client:
                return await self._contents.apply(client, outputs, start_step)

        return self._run(main)

    def requeue(self, outputs: Mapping[str, Any]) -> None:
        """Update the quotas of the queues, if they exist."""
        from sliceworks.infra.cluster.applier import Applier

        async def main() -> None:
            async with self._entered(outputs) as (client, inventory):
                if any(entry.step == _QUEUES for entry in inventory.entries.values()):
                    steps = [step for step in await self._contents.steps(client, inventory, outputs) if step.name == _QUEUES]
                    await Applier(client, self._name, self.timeout).apply_only(steps, inventory, lambda _step: lambda _line: None)

        if outputs.get("cluster"):
            self._run(main)

    def compare(self, outputs: Mapping[str, Any]) -> list[ApplyResult]:
        """Return the planned changes: by server-side dry run, or all objects if the cluster does not exist yet."""
        from sliceworks.infra.cluster import applier

        async def main() -> list[ApplyResult]:
            async with self._entered(outputs) as (client, inventory):
                return await applier.compare(client, await self._contents.steps(client, inventory, outputs), inventory)

        contents = self._contents
        return (
            self._run(main)
            if outputs.get("cluster")
            else [*contents.pending_releases(), *applier.compare_new(contents.initial_steps())]
        )

    def listed(self, outputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        """List the applied objects, each with its step."""

        async def main() -> list[tuple[str, str]]:
            async with self._entered(outputs) as (_client, inventory):
                return [(entry.step, str(entry.reference)) for entry in inventory.entries.values()]

        return self._run(main) if outputs.get("cluster") else []

    def running_work(self, outputs: Mapping[str, Any], pools: Collection[str] | None = None) -> list[str] | None:
        """List jobs and models on these node pools, or on any; None if the cluster is unreachable."""
        from sliceworks.infra.cluster.running_work import find_running_work

        async def main() -> list[str]:
            async with self._open(outputs) as client:
                return await find_running_work(client, pools)

        try:
            return self._run(main) if outputs.get("cluster") else []
        except Unreachable:
            return None

    def remove(self, outputs: Mapping[str, Any], start_step: Callable[[Any], Callable[[str], None]]) -> tuple[int, list[str]]:
        """Delete all objects; return how many were deleted, and what remains in Google Cloud."""

        async def main() -> tuple[int, list[str]]:
            async with self._open(outputs) as client:
                return await self._contents.remove(client, start_step)

        try:
            return self._run(main) if outputs.get("cluster") else (0, [])
        except Unreachable as error:
            hint = "pass --abandon if the cluster is deleted or unreachable"
            raise Unreachable(f"deleting the objects in the cluster failed: {error.message}", hint=hint) from error

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
        """Return a client of the twin's cluster, or of the one that Terraform created, with the same credentials."""
        if self.twin:
            from sliceworks.cli.connections import open_cluster

            return open_cluster(None, None, twin=True)
        from sliceworks.cloud.credentials import find_credentials
        from sliceworks.infra.stages import Names
        from sliceworks.infra.target import connect_cluster

        return connect_cluster(outputs["cluster"], find_credentials(impersonate=Names(self.site.environment).automation_account))

    @property
    def _contents(self) -> ClusterContents:
        from sliceworks.platform.cluster_contents import ClusterContents

        return ClusterContents(self.site.environment, self.folder, self.graphs, self.twin, self._release_source(), self.timeout)

    def _release_source(self) -> ReleaseSource:
        from sliceworks.infra.cluster.addon import ReleaseFiles, TwinReleases

        if self.twin and self.manifests is None:
            return TwinReleases()
        return ReleaseFiles(self.site.workspace.folder / "releases", self.manifests)


REGISTRY_STAGE = "1-base"
"""The stage that creates the registry; images can be pushed after it."""

sources_option = click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Sliceworks checkout to build images from.  [default: the checkout that this program runs from]",
)


class ImageStage(NamedTuple):
    """Image builds, reported as a stage."""

    name: str = "images"


def image_builder(site: Stack, folder: Path | None) -> ImageBuilder:
    """Return the builder of an environment's images."""
    from sliceworks.infra import images
    from sliceworks.infra.images import ImageBuilder

    return ImageBuilder(site.environment, site.target, images.checkout_in(folder) if folder else images.own_checkout())


def plan_images(builder: ImageBuilder, *, registry: bool) -> list[Change]:
    """Return the images that `apply` would build: all of them if the registry does not exist yet."""
    from sliceworks.infra import images
    from sliceworks.infra.terraform import Change

    if builder.folder is None:
        return []
    names = builder.missing() if registry else images.required_images(builder.environment)
    return [Change(images.image(builder.environment, name), "create") for name in names]


file_option = click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, path_type=Path),
    default=Path("environment.yaml"),
    show_default=True,
    help="The Environment document.",
)

twin_option = options.twin("Use the twin's cloud: no cost, no network.")
_SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "±", "read": "?", "noop": " ", "refused": "!", "keep": "="}
skip_option = click.option("--skip", "skipped", multiple=True, metavar="CHECK", help="Skip a check; repeatable.")


class NamedStep(Protocol):
    """A Terraform stage, or a step in the cluster."""

    @property
    def name(self) -> str: ...


class StageProgress:
    """Prints one progress line per stage."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._open: Any = None

    def __enter__(self) -> Callable[[NamedStep], Callable[[str], None]]:
        return self._begin

    def within(self, step: NamedStep) -> Callable[[str], None]:
        """Start a step in the cluster."""
        return self._titled(f"cluster/{step.name}")

    def _begin(self, stage: NamedStep) -> Callable[[str], None]:
        return self._titled(stage.name)

    def _titled(self, title: str) -> Callable[[str], None]:
        self._end()
        self._open = progress.task(f"{self._verb} {title}")
        step: Callable[[str], None] = self._open.__enter__()
        return step

    def _end(self, *error: Any) -> None:
        if self._open is not None:
            self._open.__exit__(*(error or (None, None, None)))
            self._open = None

    def __exit__(self, *error: Any) -> None:
        self._end(*error)


def read_environment(file: Path) -> Environment:
    """Read the only Environment of a file."""
    from sliceworks.specs import documents
    from sliceworks.specs.environment import Environment

    return documents.read_as(_only(_loaded(file), str(file)), Environment)


def check_environment(
    file: Path, skipped: tuple[str, ...], *, text: str | None = None
) -> tuple[Environment | None, list[tuple[Finding, str]]]:
    """Return the Environment of a file (or of `text`), None if its fields are invalid, and all findings, each with its place."""
    from sliceworks.infra import preflight
    from sliceworks.specs import documents
    from sliceworks.specs.environment import Environment

    document = _only(_loaded(file, text), str(file))
    environment, problems = documents.check(document)
    if not isinstance(environment, Environment):
        return None, [(preflight.Finding((), item.problem, item.hint, "fields"), item.place) for item in problems]
    return environment, [(item, document.place(*item.path)) for item in preflight.check(environment, skipped)]


def require_valid(file: Path, skipped: tuple[str, ...] | None = None, *, text: str | None = None) -> Environment:
    """The valid Environment; raises the first finding, and counts the others. Without `skipped`, none can be skipped."""
    environment, findings = check_environment(file, skipped or (), text=text)
    for finding, place in findings:
        others = f"; {len(findings) - 1} more: sliceworks env check" if len(findings) > 1 else ""
        if environment is None or skipped is None:
            raise InvalidDocument(finding.message, place=place, hint=f"{finding.hint}{others}".removeprefix("; "))
        raise InvalidDocument(finding.message, place=place, hint=f"{finding.hint}; or pass --skip {finding.check}{others}")
    assert environment is not None
    return environment


def read_graphs(environment: Environment, file: Path, *, sound: bool = True) -> tuple[dict[str, Any], ...]:
    """Return the graphs that an environment publishes. With `require_valid`, each is compiled, and errors are raised."""
    from sliceworks.base.yaml_documents import base_directory
    from sliceworks.platform.cluster_contents import load_published_graphs

    published_graphs = load_published_graphs(environment, base_directory(file))
    if published_graphs and sound:
        _compile(published_graphs)
    return tuple(document.data for document in published_graphs)


def _compile(graphs: list[Document]) -> None:
    from sliceworks.cli.graph_compiler import GraphCompiler, KindSources
    from sliceworks.graph.model import DefinitionError

    for checked in GraphCompiler(KindSources()).check(graphs):
        if checked.issues:
            raise DefinitionError(checked.issues)


def _loaded(file: Path, content: str | None = None) -> list[Document]:
    from sliceworks.base import yaml_documents

    documents = yaml_documents.load_path(file) if content is None else yaml_documents.load_all(content, str(file))
    return [item for item in documents if item.data.get("kind") == "Environment"]


def _only(loaded: list[Document], place: str) -> Document:
    if len(loaded) != 1:
        raise InvalidDocument(
            f"must contain one Environment, got {len(loaded)}", place=place, hint="`sliceworks env init` writes one"
        )
    return loaded[0]


def open_environment(
    environment: Environment,
    file: Path,
    *,
    twin: bool,
    manifests: Path | None = None,
    timeout: float = 600.0,
    graphs: Literal["require_valid", "read", "none"] = "read",
) -> EnvironmentCluster:
    """Return the environment's cluster and site; `graphs` says whether graphs are read and validated (`destroy` needs none)."""
    from sliceworks.base.yaml_documents import base_directory
    from sliceworks.platform.cluster_contents import add_graph_roles, find_stack

    graph_documents = () if graphs == "none" else read_graphs(environment, file, sound=graphs == "require_valid")
    site = find_stack(add_graph_roles(environment, graph_documents), twin=twin)
    return EnvironmentCluster(site, base_directory(file), graph_documents, twin, manifests, timeout)


def change_report(changes: Iterable[tuple[NamedStep, Iterable[Change]]], inside: Iterable[ApplyResult] = ()) -> Report:
    """Return planned changes as rows and data: by stage, then by step in the cluster."""
    entries = [(stage.name, change.action, change.address, "") for stage, stage_changes in changes for change in stage_changes]
    entries += [(f"cluster/{item.step}", item.action, str(item.reference), item.reason) for item in inside if item.action != "noop"]
    rows = [(stage, _SIGNS.get(action, "?"), f"{what}: {why}" if why else what) for stage, action, what, why in entries]
    data = [
        {"stage": stage, "action": action, "address": what} | ({"reason": why} if why else {})
        for stage, action, what, why in entries
    ]
    return Report(("stage", " ", "resource"), rows, data, [what for _stage, _action, what, _why in entries])
