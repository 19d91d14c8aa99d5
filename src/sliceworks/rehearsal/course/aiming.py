"""Whom load tests of a rehearsal ask: the gateway of the folder, or one for the models that they name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest import targets
from sliceworks.specs import documents
from sliceworks.specs.load_test import LoadTest, asked_wrongly
from sliceworks.specs.model import API_VERSION
from sliceworks.specs.serving import ModelService

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.base.yamls import Document
    from sliceworks.specs.load_test import LoadTestSpec

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Aimed:
    """A load test of which API and model are known."""

    name: str
    spec: LoadTestSpec


def aim(tests: Iterable[Document], services: Sequence[Document]) -> tuple[Aimed, ...]:
    """Tests whose target is a service have what they leave out from its document, which is beside them."""
    return tuple(_aimed(document, services) for document in tests)


def gateway(written: Sequence[Document], tests: Iterable[Aimed]) -> Object:
    """The gateway that is run for tests: the folder's own, which must know what they ask for, else one made for them."""
    asked = list(dict.fromkeys(test.spec.model for test in tests if test.spec.model))
    if len(written) > 1:
        raise InvalidDocument("is the second gateway; one is rehearsed", place=written[1].place(), hint=f"see {written[0].place()}")
    if not written:
        models = [{"name": name, "backends": []} for name in asked]
        return {"apiVersion": API_VERSION, "kind": "Gateway", "metadata": {"name": "rehearsal"}, "spec": {"models": models}}
    models = written[0].data["spec"]["models"]
    known = {name for model in models for name in (model["name"], *model.get("aliases", ()))}
    for name in asked:
        if name not in known:
            raise InvalidDocument(f"has no model {name}, which a load test asks for", place=written[0].place("spec", "models"))
    return written[0].data


def _aimed(document: Document, services: Sequence[Document]) -> Aimed:
    test = documents.read_as(document, LoadTest)
    spec, target = test.spec, test.spec.target.model_service
    if target is not None:
        service = _service(document, target.name or "", target.file, services)
        model = targets.model(spec, service, document.place("spec", "target"))
        spec = spec.model_copy(update={"api": targets.api(spec, targets.GATEWAY), "model": model})
    for problem in asked_wrongly(spec):
        raise InvalidDocument(problem, place=document.place("spec"))
    return Aimed(test.metadata.name, spec)


def _service(test: Document, name: str, file: str, services: Sequence[Document]) -> ModelService:
    beside = yamls.load_path(Path(test.file).parent / file) if file else services
    for document in beside:
        if document.data.get("kind") == "ModelService" and (file or document.data["metadata"]["name"] == name):
            return documents.read_as(document, ModelService)
    place = test.place("spec", "target", "modelService")
    raise InvalidDocument(f"there is no ModelService {name or f'in {file}'}{'' if file else ' in this folder'}", place=place)
