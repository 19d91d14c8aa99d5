"""All documents of a folder, sorted by kind, with the gateway and the model that each LoadTest targets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest import load_target
from sliceworks.platform import loader
from sliceworks.platform.loader import is_of_kind
from sliceworks.serving.validation import parse_valid
from sliceworks.specs import documents as specs
from sliceworks.specs.common import API_VERSION
from sliceworks.specs.load_test import LoadTest, check_request
from sliceworks.specs.model_service import ModelService

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.base.yaml_documents import Document
    from sliceworks.specs.environment import Environment
    from sliceworks.specs.load_test import LoadTestSpec
    from sliceworks.specs.scenario import Scenario

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResolvedLoadTest:
    """A load test with its API and model."""

    name: str
    spec: LoadTestSpec


def resolve_load_tests(tests: Iterable[Document], services: Sequence[Document]) -> tuple[ResolvedLoadTest, ...]:
    """Load tests with defaults from the ModelService that they target."""
    return tuple(_resolve(document, services) for document in tests)


def resolve_gateway(written: Sequence[Document], tests: Iterable[ResolvedLoadTest]) -> Object:
    """The folder's gateway, which must serve the models of all tests; without one, a generated gateway."""
    requested = list(dict.fromkeys(test.spec.model for test in tests if test.spec.model))
    for error in loader.check_single(written):
        raise error
    if not written:
        models = [{"name": name, "backends": []} for name in requested]
        return {"apiVersion": API_VERSION, "kind": "Gateway", "metadata": {"name": "rehearsal"}, "spec": {"models": models}}
    models = written[0].data["spec"]["models"]
    known = {name for model in models for name in (model["name"], *model.get("aliases", ()))}
    for name in requested:
        if name not in known:
            raise InvalidDocument(
                f"spec.models: model {name} not found, which a load test requests", place=written[0].place("spec", "models")
            )
    return written[0].data


def _resolve(document: Document, services: Sequence[Document]) -> ResolvedLoadTest:
    test = specs.read_as(document, LoadTest)
    spec, target = test.spec, test.spec.target.model_service
    if target is not None:
        service = _find_service(document, target.name or "", target.file, services)
        model = load_target.default_model(spec, service, document.place("spec", "target"))
        spec = spec.model_copy(update={"api": load_target.default_api(spec, load_target.GATEWAY_PROTOCOL), "model": model})
    for problem in check_request(spec):
        raise InvalidDocument(problem, place=document.place("spec"))
    return ResolvedLoadTest(test.metadata.name, spec)


def _find_service(test: Document, name: str, file: str, services: Sequence[Document]) -> ModelService:
    for document in yaml_documents.load_path(Path(test.file).parent / file) if file else services:
        if document.data.get("kind") == "ModelService" and (file or document.data["metadata"]["name"] == name):
            return specs.read_as(document, ModelService)
    place = test.place("spec", "target", "modelService")
    raise InvalidDocument(f"no ModelService in {file}" if file else f"ModelService {name} not found in this folder", place=place)


_OWN_STEP = ("ModelService", "Gateway", "LoadTest")
"""Kinds that are applied in their own step of a simulation."""


@dataclass(frozen=True, slots=True)
class DocumentSet:
    """All documents of a folder."""

    folder: Path
    scenario: Scenario | None
    scenario_document: Document | None
    """For places in errors."""
    environment: Environment | None
    """An environment that Terraform creates; others are compiled into `objects`."""
    objects: tuple[Document, ...]
    services: tuple[Document, ...]
    gateways: tuple[Document, ...]
    load_tests: tuple[Document, ...]

    @property
    def needs_simulation(self) -> bool:
        """Whether a rehearsal does more than apply objects and advance time."""
        has_scenario_steps = self.scenario is not None and (
            self.scenario.spec.environment == "terraform" or bool(self.scenario.spec.expect)
        )
        return has_scenario_steps or bool(self.gateways or self.load_tests)

    def place(self, *path: str | int) -> str:
        """File and line of a field of the scenario."""
        return self.scenario_document.place(*path) if self.scenario_document is not None else ""


def load(path: Path) -> DocumentSet:
    """The documents of a folder or file; InvalidDocument if one is invalid."""
    written, folder = yaml_documents.load_path(path), yaml_documents.base_directory(path)
    scenario = loader.load_scenario(path)
    own_step = ["Scenario", *_OWN_STEP]
    environment = None
    if scenario is not None and scenario.spec.environment == "terraform":
        environments = [document for document in written if is_of_kind(document, "Environment")]
        if len(environments) != 1:
            raise InvalidDocument(
                f"spec.environment: terraform requires exactly one Environment, found {len(environments)}", place=str(path)
            )
        environment = _read_environment(environments[0])
        own_step.append("Environment")
    document_set = DocumentSet(
        folder,
        scenario,
        next((document for document in written if loader.is_scenario(document)), None),
        environment,
        tuple(loader.resolve([document for document in written if not is_of_kind(document, *own_step)], folder)),
        *(tuple(document for document in written if is_of_kind(document, kind)) for kind in _OWN_STEP),
    )
    for service in document_set.services:
        parse_valid(service)
    for gateway in document_set.gateways:
        specs.read(gateway)
    resolve_gateway(document_set.gateways, resolve_load_tests(document_set.load_tests, document_set.services))
    return document_set


def _read_environment(document: Document) -> Environment:
    """The Environment; InvalidDocument for the first failed check."""
    from sliceworks.infra import preflight
    from sliceworks.specs.environment import Environment

    environment = specs.read_as(document, Environment)
    for finding in preflight.check(environment):
        raise finding.to_error(document)
    return environment
