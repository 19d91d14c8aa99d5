"""What a folder asks to be rehearsed: its documents, checked, and sorted by what is done with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal import documents
from sliceworks.rehearsal.course.aiming import aim, gateway
from sliceworks.serving.checks import checked
from sliceworks.specs import documents as specs
from sliceworks.specs.documents import is_ours

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.specs.environment import Environment
    from sliceworks.specs.scenario import Scenario

_APART = ("ModelService", "Gateway", "LoadTest")
"""What has a step of its own in a day."""


@dataclass(frozen=True, slots=True)
class Program:
    """All documents of a folder."""

    folder: Path
    scenario: Scenario | None
    told: Document | None
    """The scenario as it is written: for places."""
    environment: Environment | None
    """Made by Terraform. One whose machines are given is among the objects."""
    objects: tuple[Document, ...]
    services: tuple[Document, ...]
    gateways: tuple[Document, ...]
    load_tests: tuple[Document, ...]

    @property
    def is_day(self) -> bool:
        """Whether it takes more than to apply objects and to let time pass."""
        asks = self.scenario is not None and (self.scenario.spec.environment == "terraform" or bool(self.scenario.spec.expect))
        return asks or bool(self.gateways or self.load_tests)

    def place(self, *path: str | int) -> str:
        """Where the scenario says something."""
        return self.told.place(*path) if self.told is not None else ""


def read(path: Path) -> Program:
    """The documents of a folder or a file. InvalidDocument where one cannot be used, before anything is begun."""
    written, folder = yamls.load_path(path), yamls.folder_of(path)
    scenario = documents.scenario(path)
    with_terraform = scenario is not None and scenario.spec.environment == "terraform"
    environments = [each for each in written if is_ours(each) and each.data.get("kind") == "Environment"] if with_terraform else []
    if with_terraform and len(environments) != 1:
        raise InvalidDocument(f"the scenario has Terraform make an environment, and there are {len(environments)}", place=str(path))
    apart = {kind: [each for each in written if is_ours(each) and each.data.get("kind") == kind] for kind in _APART}
    rest = [each for each in written if not documents.is_scenario(each) and not any(each is one for one in environments)]
    found = Program(
        folder,
        scenario,
        next((each for each in written if documents.is_scenario(each)), None),
        _environment(environments[0]) if environments else None,
        tuple(documents.arranged([each for each in rest if not _is_apart(each)], folder)),
        *(tuple(apart[kind]) for kind in _APART),
    )
    for each in found.services:
        checked(each)
    for each in found.gateways:
        specs.read(each)
    gateway(found.gateways, aim(found.load_tests, found.services))
    return found


def _is_apart(document: Document) -> bool:
    return is_ours(document) and document.data.get("kind") in _APART


def _environment(document: Document) -> Environment:
    """One with which nothing is wrong."""
    from sliceworks.infra import checks
    from sliceworks.specs.environment import Environment

    environment = specs.read_as(document, Environment)
    for finding in checks.check(environment, ()):
        raise InvalidDocument(finding.problem, place=document.place(*finding.path), hint=finding.remedy)
    return environment
