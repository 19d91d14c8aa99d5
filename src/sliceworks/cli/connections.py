"""Opens the cluster and the cloud that a command targets: a kubeconfig's and Google's, or a twin's."""

from __future__ import annotations

import os
import shlex
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.controllers.slices import settings as slice_settings
from sliceworks.platform import twin_home

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
    from contextlib import AsyncExitStack

    from sliceworks.cloud import Container
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.kube import Client
    from sliceworks.platform.twin_home import State

T = TypeVar("T")


def open_cluster(kubeconfig: str | None, context: str | None, twin: bool, namespace: str = "") -> Client:
    """Return a client for the target cluster. It connects at its first request."""
    from sliceworks.kube import open_client

    _check(kubeconfig, context, twin)
    if not twin:
        return open_client(kubeconfig, context, namespace=namespace)
    return open_client(twin_home.running_twin().kubeconfig, namespace=namespace)


def describe_selection(*, kubeconfig: str | None, context: str | None, twin: bool) -> str:
    """The shell command that makes kubectl and Helm use the cluster that these options select; empty if they use it already."""
    file = str(twin_home.running_twin().kubeconfig) if twin else kubeconfig
    path = str(Path(file).absolute()) if file else ""
    commands = [f"export KUBECONFIG={shlex.quote(path)}"] if path not in ("", os.environ.get("KUBECONFIG")) else []
    commands += [f"kubectl config use-context {shlex.quote(context)}"] if context else []
    return "; ".join(commands)


def find_twin(kubeconfig: str | None, twin: bool) -> State | None:
    """Return the running twin that `--twin` or the kubeconfig selects, or None."""
    if twin:
        return twin_home.running_twin()
    file = Path(kubeconfig or os.environ.get("KUBECONFIG", "")).absolute()
    home = twin_home.Home(file.parent.name, file.parent)
    state = home.state() if file == home.kubeconfig else None
    return state if state and state.state == "running" else None


def twin_cloud() -> tuple[str, str]:
    """Return the address of the running twin's cloud, and a token for it."""
    state = twin_home.running_twin()
    if not state.cloud:
        raise SliceworksError("the twin serves no cloud API", hint="sliceworks twin start")
    return state.cloud, state.token


def run(main: Callable[[], Coroutine[Any, Any, T]], *, kubeconfig: str | None, context: str | None, twin: bool) -> T:
    """Run a coroutine. On a twin with its own clock it runs on that clock, so it must compute times and ages before it returns."""
    from sliceworks.base import clock

    _check(kubeconfig, context, twin)
    state = find_twin(kubeconfig, twin)
    if state is None or not state.settings.has_own_clock:
        return clock.run(main())
    from sliceworks.platform import twin_clock

    return twin_clock.run_on_twin_clock(main, Path(state.kubeconfig))


def run_on_cluster(work: Callable[[Client], Awaitable[T]], where: Mapping[str, Any], namespace: str = "") -> T:
    """Run `work` on the cluster that the options in `where` select; other keys are ignored."""
    at = {name: where[name] for name in ("kubeconfig", "context", "twin")}

    async def main() -> T:
        async with open_cluster(**at, namespace=namespace) as client:
            return await work(client)

    return run(main, **at)


def _check(kubeconfig: str | None, context: str | None, twin: bool) -> None:
    if twin and (kubeconfig or context):
        raise UsageError("--twin cannot be combined with --kubeconfig or --context", hint="pass only one of them")


_GCLOUD = "gke_"
_TWIN_PREFIX = "/container"
TWIN_CLUSTER = {"project": "twin", "location": "us-central1", "cluster": "twin"}
"""Default project, location and name of a twin's cluster in its cloud."""


def resolve_settings(
    flags: Mapping[str, Any], *, twin: bool, kubeconfig: str | None = None, context: str | None = None, file: str | None = None
) -> Settings:
    """Merge settings from a file, the environment and flags; defaults come from the twin or from a context that gcloud created."""
    result = slice_settings.read(os.environ, _read_settings(file), flags, place=file or "")
    if twin:
        state = twin_home.running_twin()
        own = _with_defaults(replace(result, endpoint=state.cloud + _TWIN_PREFIX, token=state.token), **TWIN_CLUSTER)
        return own if own.zones else replace(own, zones=_first_zone(own.location))
    if result.project and result.location and result.cluster:
        return result
    parts = _current_context(kubeconfig, context).split("_")
    if len(parts) != 4 or f"{parts[0]}_" != _GCLOUD:
        return result
    return _with_defaults(result, project=parts[1], location=parts[2], cluster=parts[3])


@asynccontextmanager
async def open_container(settings: Settings) -> AsyncIterator[Container]:
    """Return a client of the container API for a cluster; UsageError if project, location or name is unknown."""
    from sliceworks.cloud import container as connecting

    names = (settings.project, settings.location, settings.cluster)
    options = {"endpoint": settings.endpoint, "token": settings.token, "impersonate": settings.impersonate}
    container = connecting.open_container(*names, **options)
    async with container.session:
        yield container


async def try_open_container(stack: AsyncExitStack, client: Client, where: Mapping[str, Any]) -> Container | None:
    """Return the container API of the target cluster, or None if it is unknown; the stack closes it."""
    try:
        settings = resolve_settings({}, twin=where["twin"], kubeconfig=where["kubeconfig"], context=where["context"])
        if where["twin"]:
            settings = await find_twin_cluster(client, settings)
            if _names(settings) not in await _twin_clusters(client):
                return None
        return await stack.enter_async_context(open_container(settings))
    except SliceworksError:
        return None


async def choose_twin_cluster(client: Client, settings: Settings) -> Settings:
    """Return the settings for a cluster of the twin's cloud: the one that they name, else its only one, else a new default one."""
    settings = await find_twin_cluster(client, settings)
    names, existing = _names(settings), await _twin_clusters(client)
    if names in existing:
        return settings
    if existing or settings.cluster != TWIN_CLUSTER["cluster"]:
        hint = f"clusters: {', '.join(map(_cluster_path, existing))}" if existing else "leave out GCP_CLUSTER and --cluster"
        raise SliceworksError(f"cluster {_cluster_path(names)} not found in the twin's cloud", hint=hint)
    cluster = dict(zip(("project", "location", "name"), names, strict=True))
    await _control_cloud(client, {"set": {"container": {"clusters": [cluster]}}})
    return settings


async def find_twin_cluster(client: Client, settings: Settings) -> Settings:
    """Return the settings; defaults in them are those of the only cluster of the twin's cloud, if it has one."""
    existing = await _twin_clusters(client)
    if len(existing) != 1 or settings.cluster != TWIN_CLUSTER["cluster"]:
        return settings
    if any(name not in pair for name, *pair in zip(_names(settings), TWIN_CLUSTER.values(), existing[0], strict=True)):
        return settings
    project, location, cluster = existing[0]
    zones = settings.zones if settings.zones != _first_zone(settings.location) else _first_zone(location)
    return replace(settings, project=project, location=location, cluster=cluster, zones=zones)


async def _twin_clusters(client: Client) -> list[tuple[str, str, str]]:
    return [(item["project"], item["location"], item["name"]) for item in (await _control_cloud(client, {}))["clusters"]]


def _names(settings: Settings) -> tuple[str, str, str]:
    return settings.project, settings.location, settings.cluster


async def require_only_cluster(client: Client, project: str, location: str, name: str) -> None:
    """Raise if the twin's cloud has another cluster: all clusters of one twin would share its nodes and objects."""
    for existing in await _twin_clusters(client):
        if existing != (project, location, name):
            raise SliceworksError(
                f"the twin already has the cluster {_cluster_path(existing)}, and a twin has one cluster",
                hint="use another twin: sliceworks twin start --name NAME, then --twin=NAME",
            )


def _cluster_path(names: tuple[str, str, str]) -> str:
    return "projects/{}/locations/{}/clusters/{}".format(*names)


def _first_zone(location: str) -> tuple[str, ...]:
    from sliceworks.twin.cloud.google.container.resource_names import zones_of

    return tuple(zones_of(location)[:1])


async def _control_cloud(client: Client, change: dict[str, Any]) -> dict[str, Any]:
    from sliceworks.base.transport import Request

    return await client.send(Request.json("POST", "/debug/twin/cloud", change))


def _with_defaults(settings: Settings, *, project: str, location: str, cluster: str) -> Settings:
    """Fill in project, location and cluster where unset."""
    return replace(
        settings,
        project=settings.project or project,
        location=settings.location or location,
        cluster=settings.cluster or cluster,
    )


def _read_settings(file: str | None) -> dict[str, Any]:
    """Read settings from a YAML file."""
    if file is None:
        return {}
    from sliceworks.base import yaml_documents

    return dict(yaml_documents.load_one(Path(file), "document").data)


def _current_context(kubeconfig: str | None, context: str | None) -> str:
    from sliceworks.base.errors import SliceworksError
    from sliceworks.kube import kubeconfig as files

    try:
        return context or files.load(kubeconfig).current_context
    except SliceworksError:
        return ""  # no kubeconfig in a pod
