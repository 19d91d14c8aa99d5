"""Loads Environment documents of the user's folder, and their Terraform state on request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import SliceworksError
from sliceworks.console.views import environment_view
from sliceworks.infra import stages
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from sliceworks.console.page import Console
    from sliceworks.console.views.environment_view import StageView
    from sliceworks.infra.cluster.inventory import ApplyResult
    from sliceworks.infra.stack import Stack

_CLUSTER = "2-cluster"
_CLUSTER_DRIFT = {"update": "changed", "create": "deleted", "refused": "changed"}


class DeployedEnvironment(Protocol):
    """An environment deployed to Google Cloud or to a twin."""

    @property
    def site(self) -> Stack: ...

    def listed(self, outputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        """The objects installed in the cluster, as (step, object)."""
        ...

    def compare(self, outputs: Mapping[str, Any]) -> list[ApplyResult]:
        """What an apply would change in the cluster."""
        ...


@dataclass(slots=True)
class EnvironmentState:
    """An Environment document and its last read state. `message` is the progress or error message."""

    environment: Environment
    file: Path
    stages: list[StageView] = field(default_factory=list)
    read_at: datetime | None = None
    drift: bool = False
    busy: bool = False
    message: str = ""

    @property
    def name(self) -> str:
        return self.environment.metadata.name


@lru_cache(maxsize=8)
def get_environment_loader(console: Console) -> EnvironmentLoader:
    """The loader that all pages of a console share."""
    return EnvironmentLoader(console.folder, console.find_deployment)


class EnvironmentLoader:
    """Loads the Environment documents of a folder and their deployed state."""

    def __init__(self, folder: Path, find_deployment: Callable[[Environment, Path], DeployedEnvironment] | None) -> None:
        self._folder, self._find_deployment = folder, find_deployment
        self._seen: tuple[tuple[str, int], ...] | None = None
        self.known: dict[str, EnvironmentState] | None = None
        self.broken: list[str] = []

    @property
    def can_read_state(self) -> bool:
        return self._find_deployment is not None

    async def refresh(self) -> None:
        """Read the documents again if any file has changed."""
        files = await asyncio.to_thread(lambda: [(file, file.stat().st_mtime_ns) for file in _files(self._folder)])
        seen = tuple((str(file), changed) for file, changed in files)
        if seen != self._seen:
            self._seen = seen
            self.known, self.broken = await asyncio.to_thread(_read, [file for file, _ in files])

    async def read_state(self, name: str, *, drift: bool) -> None:
        """Read the Terraform state; with `drift`, compare it with the cloud and the cluster. This is slow and changes nothing."""
        known = (self.known or {}).get(name)
        if known is None or known.busy or self._find_deployment is None:
            return
        known.busy, known.message = True, "Detecting drift …" if drift else "Reading the Terraform state …"
        try:
            deployed = self._find_deployment(known.environment, known.file)
            known.stages = await asyncio.to_thread(lambda: list(_stages(deployed, drift=drift)))
            known.read_at, known.drift, known.message = clock.now(), drift, ""
        except SliceworksError as error:
            known.message = f"{error.message}{f' ({error.hint})' if error.hint else ''}"
        finally:
            known.busy = False


def planned_stages(environment: Environment) -> list[StageView]:
    """The stages of a document without their state."""
    return [environment_view.stage(stage.name, {}, {}) for stage in stages.compile_stages(environment)]


def _files(folder: Path) -> list[Path]:
    return sorted(file for pattern in ("*.yaml", "*.yml", "*/environment.yaml") for file in folder.glob(pattern) if file.is_file())


def _read(files: Iterable[Path]) -> tuple[dict[str, EnvironmentState], list[str]]:
    states: dict[str, EnvironmentState] = {}
    broken: list[str] = []
    for file in files:
        try:
            environments = [
                document
                for document in yaml_documents.load_path(file)
                if document.data.get("kind") == "Environment" and documents.is_sliceworks_document(document)
            ]
            for item in environments:
                environment = documents.read(item)
                assert isinstance(environment, Environment)
                states[environment.metadata.name] = EnvironmentState(environment, file)
        except SliceworksError as error:
            if "Environment" in file.read_text(errors="replace"):
                broken.append(str(error))
    return states, broken


def _stages(deployed: DeployedEnvironment, *, drift: bool) -> Iterator[StageView]:
    for stage, outputs, resources in deployed.site.outputs(drift=drift):
        yield environment_view.stage(stage.name, outputs, resources)
        if stage.name == _CLUSTER:
            listed = deployed.listed(outputs)
            compared = deployed.compare(outputs) if drift and listed else []
            drifted = {str(item.reference): _CLUSTER_DRIFT[item.action] for item in compared if item.action in _CLUSTER_DRIFT}
            if listed:
                yield environment_view.cluster_stage(listed, drifted)
