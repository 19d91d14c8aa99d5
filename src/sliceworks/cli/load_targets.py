"""Whom a load test asks, where its document names a model service: address, API, model and key, as the cluster has them."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import ApiError, InvalidDocument, SliceworksError
from sliceworks.loadtest import targets
from sliceworks.specs.load_test import LoadTestSpec, asked_wrongly

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube import Client
    from sliceworks.serving.doors import Door
    from sliceworks.serving.record import Record
    from sliceworks.specs.load_asking import ServiceTarget
    from sliceworks.specs.serving import ModelService

KEY = "SLICEWORKS_GATEWAY_KEY"
"""The variable that other commands take a gateway's key from too."""
_MODEL = "spec.model"
_GIVE_KEY = f"export {KEY}=…, or say in target.key where it is"


@dataclass(frozen=True, slots=True)
class Found:
    """A test whose target is known, and the namespace that it is in. `key` is None where the document says where it is."""

    spec: LoadTestSpec
    url: str
    namespace: str
    key: str | None = field(default=None, repr=False)


def from_file(spec: LoadTestSpec, files: Path) -> LoadTestSpec:
    """A test whose address is given: what the document of the model service says is taken from there."""
    target = spec.target.model_service
    if target is None:
        return spec
    if not target.file:
        return _decided(spec, spec.api, spec.model)
    service = _read(files / target.file)
    protocol = targets.GATEWAY if service.spec.gateway else service.spec.engine
    return _decided(spec, targets.api(spec, protocol), targets.model(spec, service, _MODEL))


async def find(client: Client, spec: LoadTestSpec, files: Path, namespace: str, *, inside: bool) -> Found:
    """Look in the cluster. `inside` is for senders that are pods there."""
    from sliceworks.serving import cluster, doors, editing

    target = spec.target.model_service
    assert target is not None
    name, place = _named(target, files)
    record = await cluster.one_record(client, name, place or namespace or client.namespace)
    at = doors.door(record)
    if spec.model and not spec.model.startswith("/"):  # a path is a model's in a Sax cell
        editing.known(record, spec.model)
    decided = _decided(spec, targets.api(spec, at.protocol), targets.model(spec, record.service, _MODEL))
    url = await _url(client, record, at, inside=inside)
    return Found(decided, url, record.namespace, None if spec.target.key else await _key(client, record, decided.model))


def _named(target: ServiceTarget, files: Path) -> tuple[str, str]:
    if not target.file:
        return target.name or "", target.namespace or ""
    service = _read(files / target.file)
    return service.metadata.name, target.namespace or service.metadata.namespace or ""


def _read(file: Path) -> ModelService:
    from sliceworks.base import yamls
    from sliceworks.specs import documents
    from sliceworks.specs.serving import ModelService

    found = [each for each in yamls.load_path(file) if each.data.get("kind") == "ModelService"]
    if len(found) != 1:
        raise InvalidDocument(f"one ModelService is wanted, found {len(found)}", place=str(file))
    return documents.read_as(found[0], ModelService)


def _decided(spec: LoadTestSpec, api: str, model: str) -> LoadTestSpec:
    """With API and model, checked whole."""
    given: dict[str, Any] = {**spec.model_dump(by_alias=True), "api": api, "model": model}
    found = spec.model_copy(update={"api": api, "model": model})
    for problem in asked_wrongly(found):
        raise InvalidDocument(problem, place="spec")
    return LoadTestSpec.model_validate(given)


async def _url(client: Client, record: Record, at: Door, *, inside: bool) -> str:
    """On loopback where the servers are processes of this machine; else as pods, or as others, know it."""
    from sliceworks.serving import doors, reaching

    way = await reaching.way_to(client, at)
    if isinstance(way, reaching.Direct):
        return way.place
    if inside:
        return at.inside
    if url := doors.outside(record):
        return url
    name = record.service.metadata.name
    raise SliceworksError(
        f"{name} has no address outside its cluster",
        hint=f"send from inside (--on cluster), or: kubectl port-forward -n {at.namespace} service/{at.service} 8080:{at.port}, "
        "and --url http://127.0.0.1:8080",
    )


async def _key(client: Client, record: Record, model: str) -> str:
    """From the environment, or the first of the gateway's keys that is kept in a Secret and good for the model."""
    front = record.service.spec.gateway
    if given := os.environ.get(KEY):
        return given
    if front is None or not front.keys:
        return ""
    for each in front.keys:
        if each.secret and any(_covers(pattern, model) for pattern in each.models):
            return await _secret(client, record.namespace, each.secret.secret, each.secret.key)
    raise SliceworksError(f"the gateway {front.name} asks for a key", hint=_GIVE_KEY)


def _covers(pattern: str, model: str) -> bool:
    return model.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == model


async def _secret(client: Client, namespace: str, name: str, key: str) -> str:
    from sliceworks.kube.well_known import SECRET

    try:
        found = await client.get(SECRET, name, namespace)
        return base64.b64decode(found["data"][key]).decode().strip()
    except (ApiError, KeyError, ValueError) as error:
        why = error.message if isinstance(error, ApiError) else f"it has no {key!r}"
        raise SliceworksError(
            f"the key in secret/{name} of {namespace} cannot be read: {why}",
            hint=f"export {KEY}=…, or say in target.key where it is",
        ) from error
