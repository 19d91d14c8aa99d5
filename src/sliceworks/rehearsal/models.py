"""What ModelServices become in a rehearsal: the objects that `models deploy` would apply, with the gateways that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.yamls import Document
from sliceworks.serving.checks import checked
from sliceworks.serving.compile import manifests
from sliceworks.serving.record import Reference, reference
from sliceworks.serving.sharing import OPTIONAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
_DEFAULT = "default"


def compiled(written: Iterable[Document]) -> list[Document]:
    """The objects of all services of a rehearsal, in their order. A gateway that several share is written once, for all of them."""
    found: dict[tuple[str, Reference], Document] = {}
    before: list[ModelService] = []
    for document in written:
        service = _read(document)
        for each in _objects(service, before):
            place = each["metadata"].get("namespace", "")
            found[place, reference(each)] = Document(each, document.file, document.line, {})
        before.append(service)
    return list(found.values())


def _read(document: Document) -> ModelService:
    service = checked(document)
    metadata = service.metadata.model_copy(update={"namespace": service.metadata.namespace or _DEFAULT})
    return service.model_copy(update={"metadata": metadata})


def _objects(service: ModelService, before: list[ModelService]) -> Iterator[Object]:
    front, place = service.spec.gateway, service.metadata.namespace
    sharing = [
        each
        for each in before
        if front and each.spec.gateway and (each.metadata.namespace, each.spec.gateway.name) == (place, front.name)
    ]
    if place != _DEFAULT:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
    for name in sorted({"default", *([service.spec.identity.service_account] if service.spec.identity else [])}):
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": place}}
    yield from (each for each in manifests(service, sharing) if each["kind"] not in OPTIONAL)
