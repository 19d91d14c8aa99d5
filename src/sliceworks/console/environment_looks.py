"""Environments of the user's folder: their documents at once, and what Terraform says of them when somebody asks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base import clock, yamls
from sliceworks.base.errors import SliceworksError
from sliceworks.console.views import environments
from sliceworks.infra import stages
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from sliceworks.console.here import Console
    from sliceworks.console.views.environments import StageView
    from sliceworks.infra.cluster.outcomes import Outcome
    from sliceworks.infra.environments import Site

_CLUSTER = "2-cluster"
_INSIDE = {"update": "changed", "create": "gone", "refused": "changed"}


class Made(Protocol):
    """An environment where it was made: in Google Cloud or on a twin."""

    @property
    def site(self) -> Site: ...

    def listed(self, outputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What was put into its cluster: the step and the object."""
        ...

    def compare(self, outputs: Mapping[str, Any]) -> list[Outcome]:
        """What applying would do there."""
        ...


@dataclass(slots=True)
class Known:
    """One document, and what was found of it last. `said` is what is being done, or what went wrong."""

    environment: Environment
    file: Path
    stages: list[StageView] = field(default_factory=list)
    read_at: datetime | None = None
    drift: bool = False
    busy: bool = False
    said: str = ""

    @property
    def name(self) -> str:
        return self.environment.metadata.name


@lru_cache(maxsize=8)
def environments_of(console: Console) -> Environments:
    """Those of one console, shared by its pages."""
    return Environments(console.folder, console.made)


class Environments:
    """The Environment documents of a folder."""

    def __init__(self, folder: Path, made: Callable[[Environment, Path], Made] | None) -> None:
        self._folder, self._made = folder, made
        self._seen: tuple[tuple[str, int], ...] | None = None
        self.known: dict[str, Known] | None = None
        self.broken: list[str] = []

    @property
    def can_look(self) -> bool:
        return self._made is not None

    async def look(self) -> None:
        """Read documents that are new or changed."""
        files = await asyncio.to_thread(lambda: [(file, file.stat().st_mtime_ns) for file in _files(self._folder)])
        seen = tuple((str(file), changed) for file, changed in files)
        if seen != self._seen:
            self._seen = seen
            self.known, self.broken = await asyncio.to_thread(_read, [file for file, _ in files])

    async def ask(self, name: str, *, drift: bool) -> None:
        """Ask Terraform what there is, and with `drift` the cloud and the cluster, too. It takes its time, and changes nothing."""
        known = (self.known or {}).get(name)
        if known is None or known.busy or self._made is None:
            return
        known.busy, known.said = True, "Asking the cloud what somebody changed …" if drift else "Reading what there is …"
        try:
            made = self._made(known.environment, known.file)
            known.stages = await asyncio.to_thread(lambda: list(_stages(made, drift=drift)))
            known.read_at, known.drift, known.said = clock.now(), drift, ""
        except SliceworksError as error:
            known.said = f"{error.message}{f' ({error.hint})' if error.hint else ''}"
        finally:
            known.busy = False


def planned(environment: Environment) -> list[StageView]:
    """The stages of a document, before anything is known of them."""
    return [environments.stage(each.name, {}, {}) for each in stages.stages(environment)]


def _files(folder: Path) -> list[Path]:
    return sorted(file for pattern in ("*.yaml", "*.yml", "*/environment.yaml") for file in folder.glob(pattern) if file.is_file())


def _read(files: Iterable[Path]) -> tuple[dict[str, Known], list[str]]:
    found: dict[str, Known] = {}
    broken: list[str] = []
    for file in files:
        try:
            written = [each for each in yamls.load_path(file) if each.data.get("kind") == "Environment" and documents.is_ours(each)]
            for each in written:
                environment = documents.read(each)
                assert isinstance(environment, Environment)
                found[environment.metadata.name] = Known(environment, file)
        except SliceworksError as error:
            if "Environment" in file.read_text(errors="replace"):
                broken.append(str(error))
    return found, broken


def _stages(made: Made, *, drift: bool) -> Iterator[StageView]:
    for stage, outputs, resources in made.site.outputs(drift=drift):
        yield environments.stage(stage.name, outputs, resources)
        if stage.name == _CLUSTER:
            listed = made.listed(outputs)
            compared = made.compare(outputs) if drift and listed else []
            drifted = {str(each.who): _INSIDE[each.action] for each in compared if each.action in _INSIDE}
            if listed:
                yield environments.inside(listed, drifted)
