"""Reads a LoadTest document, resolves its target, and reads finished runs."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import yaml_documents
from sliceworks.base.errors import ApiError, InvalidDocument, SliceworksError, UsageError
from sliceworks.loadtest import check_installed, load_target
from sliceworks.specs import documents
from sliceworks.specs.load_test import LoadTest, LoadTestSpec, check_request

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record
    from sliceworks.serving.service_endpoint import Endpoint
    from sliceworks.specs.load_test import ServiceTarget
    from sliceworks.specs.model_service import ModelService

KEY_VARIABLE = "SLICEWORKS_GATEWAY_KEY"
"""Environment variable with the gateway key, shared by all commands."""

_MODEL = "spec.model"
_GIVE_KEY = f"export {KEY_VARIABLE}=…, or set target.key"


@dataclass(frozen=True, slots=True)
class ServiceEndpoint:
    """A test with a resolved target and its namespace. `key` is None if the document sets target.key."""

    spec: LoadTestSpec
    url: str
    namespace: str
    key: str | None = field(default=None, repr=False)


def merge_service_document(spec: LoadTestSpec, files: Path) -> LoadTestSpec:
    """Return a test with a given URL, completed from the ModelService document."""
    target = spec.target.model_service
    if target is None:
        return spec
    if not target.file:
        return _with_model(spec, spec.api, spec.model)
    service = _read_service(files / target.file)
    protocol = load_target.GATEWAY_PROTOCOL if service.spec.gateway else service.spec.engine
    return _with_model(spec, load_target.default_api(spec, protocol), load_target.default_model(spec, service, _MODEL))


async def find_service(client: Client, spec: LoadTestSpec, files: Path, namespace: str, *, inside: bool) -> ServiceEndpoint:
    """Find the model service in the cluster; `inside` resolves an address for pods."""
    from sliceworks.serving import cluster, publication, service_endpoint

    target = spec.target.model_service
    assert target is not None
    name, place = _service_name(target, files)
    record = await cluster.get_record(client, name, place or namespace or client.namespace)
    at = service_endpoint.find_endpoint(record)
    if spec.model and not spec.model.startswith("/"):  # a path is a model of a Sax cell
        publication.require_model(record, spec.model)
    decided = _with_model(spec, load_target.default_api(spec, at.protocol), load_target.default_model(spec, record.service, _MODEL))
    url = await _url(client, record, at, inside=inside)
    return ServiceEndpoint(decided, url, record.namespace, None if spec.target.key else await _key(client, record, decided.model))


def _service_name(target: ServiceTarget, files: Path) -> tuple[str, str]:
    if not target.file:
        return target.name or "", target.namespace or ""
    service = _read_service(files / target.file)
    return service.metadata.name, target.namespace or service.metadata.namespace or ""


def _read_service(file: Path) -> ModelService:
    from sliceworks.base import yaml_documents
    from sliceworks.specs import documents
    from sliceworks.specs.model_service import ModelService

    services = [item for item in yaml_documents.load_path(file) if item.data.get("kind") == "ModelService"]
    if len(services) != 1:
        raise InvalidDocument(f"must contain one ModelService, got {len(services)}", place=str(file))
    return documents.read_as(services[0], ModelService)


def _with_model(spec: LoadTestSpec, api: str, model: str) -> LoadTestSpec:
    """Return the test with its API and model set, validated."""
    fields: dict[str, Any] = {**spec.model_dump(by_alias=True), "api": api, "model": model}
    updated = spec.model_copy(update={"api": api, "model": model})
    for problem in check_request(updated):
        raise InvalidDocument(problem, place="spec")
    return LoadTestSpec.model_validate(fields)


async def _url(client: Client, record: Record, at: Endpoint, *, inside: bool) -> str:
    """Return the URL: on loopback if servers are local processes, else the internal or external address."""
    from sliceworks.serving import service_endpoint

    connection = await service_endpoint.connect(client, at)
    if isinstance(connection, service_endpoint.DirectConnection):
        return connection.name
    if inside:
        return at.cluster_url
    if url := service_endpoint.external_url(record):
        return url
    name = record.service.metadata.name
    raise SliceworksError(
        f"{name} has no address outside the cluster",
        hint=f"pass --on cluster, or run: kubectl port-forward -n {at.namespace} service/{at.service} 8080:{at.port}, "
        "and pass --url http://127.0.0.1:8080",
    )


async def _key(client: Client, record: Record, model: str) -> str:
    """Return the key of the environment, or the first key in a Secret that is valid for the model."""
    front = record.service.spec.gateway
    if given := os.environ.get(KEY_VARIABLE):
        return given
    if front is None or not front.keys:
        return ""
    for key in front.keys:
        if key.secret and any(_covers(pattern, model) for pattern in key.models):
            return await _secret(client, record.namespace, key.secret.secret, key.secret.key)
    raise SliceworksError(f"gateway {front.name} requires a key", hint=_GIVE_KEY)


def _covers(pattern: str, model: str) -> bool:
    return model.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == model


async def _secret(client: Client, namespace: str, name: str, key: str) -> str:
    from sliceworks.kube.resources import SECRET

    try:
        secret = await client.get(SECRET, name, namespace)
        return base64.b64decode(secret["data"][key]).decode().strip()
    except (ApiError, KeyError, ValueError) as error:
        why = error.message if isinstance(error, ApiError) else f"no key {key!r} in it"
        raise SliceworksError(
            f"reading the gateway key from secret/{name} in {namespace} failed: {why}",
            hint=f"export {KEY_VARIABLE}=…, or set target.key",
        ) from error


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster and the namespace of a command."""

    namespace: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    twin: bool = False

    @property
    def at(self) -> dict[str, Any]:
        return {"kubeconfig": self.kubeconfig, "context": self.context, "twin": self.twin}

    def open(self) -> Client:
        from sliceworks.cli import connections

        return connections.open_cluster(**self.at, namespace=self.namespace)

    def cloud(self) -> dict[str, str]:
        """Return the address and token of the twin's cloud; None for Google's."""
        from sliceworks.cli import connections

        return dict(zip(("endpoint", "token"), connections.twin_cloud(), strict=True)) if self.twin else {}


@dataclass(frozen=True, slots=True)
class ResolvedTest:
    """A LoadTest document, its folder, and its cluster options."""

    name: str
    spec: LoadTestSpec
    files: Path
    url: str
    where: ClusterOptions = ClusterOptions()
    key: str | None = field(default=None, repr=False)
    """The gateway key; None if the document sets target.key or no key is needed."""


def read(file: Path, where: ClusterOptions, *, url: str = "", workers: int | None = None, on: str | None = None) -> ResolvedTest:
    """Read the only LoadTest of a file; options of the command override the document."""
    document = documents.read_as(yaml_documents.load_one(file, "LoadTest"), LoadTest)
    spec = document.spec
    senders = spec.workers.model_copy(update={"count": workers or spec.workers.count, "where": on or spec.workers.where})
    if senders.where == "cluster" and senders.image is None:
        raise InvalidDocument(
            "workers on a cluster need an image",
            place=str(file),
            hint="set workers.image to the load-worker image of the environment's registry",
        )
    return ResolvedTest(document.metadata.name, spec.model_copy(update={"workers": senders}), file.resolve().parent, url, where)


def resolve_target(test: ResolvedTest) -> ResolvedTest:
    """Return the test with its target resolved, if the document names a model service."""
    from sliceworks.cli import connections

    if test.url or test.spec.target.model_service is None:
        _require_reachable(test)
        return replace(test, spec=merge_service_document(test.spec, test.files))

    async def look() -> ServiceEndpoint:
        async with test.where.open() as client:
            inside = test.spec.workers.where == "cluster"
            return await find_service(client, test.spec, test.files, test.where.namespace, inside=inside)

    resolved = connections.run(look, **test.where.at)
    return replace(
        test, spec=resolved.spec, url=resolved.url, key=resolved.key, where=replace(test.where, namespace=resolved.namespace)
    )


def _require_reachable(test: ResolvedTest) -> None:
    """Raise if pods cannot reach the target: a loopback address works only for pods of a twin."""
    from urllib.parse import urlsplit

    host = urlsplit(test.url or test.spec.target.url).hostname or ""
    if test.spec.workers.where == "cluster" and not test.where.twin and (host == "localhost" or host.startswith("127.")):
        raise UsageError(
            f"pods cannot reach this machine at {host}", hint="target the model service, or an address that pods can reach"
        )


def load_run(folder: Path) -> dict[str, Any]:
    """Read a completed run."""
    check_installed()
    from sliceworks.loadtest import results, run_folder

    if (folder / run_folder.MANIFEST_FILE).exists() and not (folder / results.RUN_FILE).exists():
        raise InvalidDocument(f"run in {folder} is incomplete", hint=f"sliceworks load recover {folder}")
    return results.load(folder)


def render_report(folder: Path, form: str) -> str:
    """Render the report of a run."""
    run = load_run(folder)
    from sliceworks.loadtest.report import renderer

    return renderer.render(run, folder, form)


def measured_window(folder: Path) -> tuple[float, float]:
    """Return the measured window of a run, in seconds from its start."""
    run = load_run(folder)
    from sliceworks.loadtest.report import renderer

    return renderer.measured_window(run)
