"""What the commands of an environment share: its document, read and checked, and the site where it is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import click

from sliceworks.base import progress
from sliceworks.base.errors import InvalidDocument
from sliceworks.cli.output import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.base.yamls import Document
    from sliceworks.cli.env_cluster import Inside
    from sliceworks.infra.cluster.outcomes import Outcome
    from sliceworks.infra.environments import Site
    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

file_option = click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, path_type=Path),
    default=Path("environment.yaml"),
    show_default=True,
    help="The Environment document.",
)
twin_option = click.option("--twin", is_flag=True, help="In the twin's cloud: nothing is billed, and no network is needed.")
_SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "±", "read": "?", "noop": " ", "refused": "!", "keep": "="}
skip_option = click.option("--skip", "skipped", multiple=True, metavar="CHECK", help="Leave a check out, by its name.")


class Named(Protocol):
    """A stage of Terraform, or a step in the cluster."""

    @property
    def name(self) -> str: ...


class Stages:
    """Progress over stages: one line for each, with what it is at."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._open: Any = None

    def __enter__(self) -> Callable[[Named], Callable[[str], None]]:
        return self._begin

    def within(self, step: Named) -> Callable[[str], None]:
        """Begin a step of what is in the cluster."""
        return self._titled(f"cluster/{step.name}")

    def _begin(self, stage: Named) -> Callable[[str], None]:
        return self._titled(stage.name)

    def _titled(self, title: str) -> Callable[[str], None]:
        self._end()
        self._open = progress.working(f"{self._verb} {title}")
        step: Callable[[str], None] = self._open.__enter__()
        return step

    def _end(self, *error: Any) -> None:
        if self._open is not None:
            self._open.__exit__(*(error or (None, None, None)))
            self._open = None

    def __exit__(self, *error: Any) -> None:
        self._end(*error)


def read_environment(file: Path) -> Environment:
    """The one Environment of a file."""
    return _one(_loaded(file), str(file))[0]


def checked(file: Path, skipped: tuple[str, ...], *, text: str | None = None) -> tuple[Environment, list[tuple[Any, str]]]:
    """The Environment of a file, or of a text that is to be its content, and what is wrong with it, each with its place."""
    from sliceworks.infra import checks

    environment, document = _one(_loaded(file, text), str(file))
    return environment, [(each, document.place(*each.path)) for each in checks.check(environment, skipped)]


def sound(file: Path, skipped: tuple[str, ...], *, text: str | None = None) -> Environment:
    """A document with which nothing is wrong; the first finding is raised."""
    environment, findings = checked(file, skipped, text=text)
    for finding, place in findings:
        raise InvalidDocument(finding.problem, place=place, hint=f"{finding.remedy}; or --skip {finding.check}")
    return environment


def graphs_of(environment: Environment, file: Path, *, sound: bool = True) -> tuple[dict[str, Any], ...]:
    """The graphs that an environment publishes; where they are to be sound, each is compiled, and what is wrong with it raised."""
    from sliceworks.base.yamls import folder_of
    from sliceworks.rehearsal.contents import published

    found = published(environment, folder_of(file))
    if found and sound:
        _compile(found)
    return tuple(document.data for document in found)


def _compile(found: list[Document]) -> None:
    from sliceworks.cli.graph_files import Sources, Workbench
    from sliceworks.graph.errors import DefinitionError

    for checked in Workbench(Sources()).check(found):
        if checked.issues:
            raise DefinitionError(checked.issues)


def _loaded(file: Path, text: str | None = None) -> list[Document]:
    from sliceworks.base import yamls

    found = yamls.load_path(file) if text is None else yamls.load_all(text, str(file))
    return [each for each in found if each.data.get("kind") == "Environment"]


def _one(loaded: list[Document], place: str) -> tuple[Environment, Document]:
    from sliceworks.specs import documents
    from sliceworks.specs.environment import Environment

    if len(loaded) != 1:
        raise InvalidDocument(
            f"has {len(loaded)} Environments, one is wanted", place=place, hint="`sliceworks env init` writes one"
        )
    return documents.read_as(loaded[0], Environment), loaded[0]


def inside_of(
    environment: Environment,
    file: Path,
    *,
    twin: bool,
    manifests: Path | None = None,
    patience: float = 600.0,
    graphs: Literal["sound", "read", "none"] = "read",
) -> Inside:
    """Where it is made, with the inside of its cluster. Who makes something wants sound graphs; who removes all wants none."""
    from sliceworks.base.yamls import folder_of
    from sliceworks.cli.env_cluster import Inside
    from sliceworks.rehearsal.contents import with_roles

    found = () if graphs == "none" else graphs_of(environment, file, sound=graphs == "sound")
    site = site_of(with_roles(environment, found), twin=twin)
    return Inside(site, folder_of(file), found, twin, manifests, patience)


def site_of(environment: Environment, *, twin: bool) -> Site:
    """Where it is made: in Google Cloud, or in the cloud of this machine's twin."""
    from sliceworks.infra import programs
    from sliceworks.infra.environments import Site
    from sliceworks.infra.targets import Target, TwinTarget
    from sliceworks.infra.workspaces import Workspace
    from sliceworks.rehearsal import homes

    name = environment.metadata.name
    if not twin:
        return Site(environment, Target(), Workspace(homes.root() / "environments" / name), programs.find())
    from sliceworks.cli.connections import running_twin

    state = running_twin()
    token = (Path(state.directory) / "token").read_text().strip()
    folder = Path(state.directory) / "environments" / name
    return Site(environment, TwinTarget(address=state.cloud, token=token), Workspace(folder), programs.find())


def table_of(changes: Iterable[tuple[Named, Iterable[Change]]], inside: Iterable[Outcome] = ()) -> Report:
    """What would be made, changed and removed, stage by stage, and then in the cluster, step by step."""
    found = [(stage.name, change.action, change.address, "") for stage, each in changes for change in each]
    found += [(f"cluster/{each.step}", each.action, str(each.who), each.reason) for each in inside if each.action != "noop"]
    rows = [(stage, _SIGNS.get(action, "?"), f"{what}: {why}" if why else what) for stage, action, what, why in found]
    data = [
        {"stage": stage, "action": action, "address": what} | ({"reason": why} if why else {}) for stage, action, what, why in found
    ]
    return Report(("stage", " ", "resource"), rows, data, [what for _stage, _action, what, _why in found])
