"""The cloud that a command means: Google's, or a twin's; and the cluster in it."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.slices import settings as slice_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AsyncExitStack

    from sliceworks.cloud import Container
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.kube import Client

_GCLOUD = "gke_"
_TWIN_PREFIX = "/container"
TWIN = {"project": "twin", "location": "us-central1", "cluster": "twin"}
"""The names of a twin's cluster in its cloud, where nobody gives others."""


def settings_for(
    flags: Mapping[str, Any], *, twin: bool, kubeconfig: str | None = None, context: str | None = None, file: str | None = None
) -> Settings:
    """Settings from a file, the environment, flags, and the names of the twin or of a context that gcloud made."""
    found = slice_settings.read(os.environ, _read(file), flags, place=file or "")
    if twin:
        from sliceworks.cli.connections import running_twin

        state = running_twin()
        own = _filled(replace(found, endpoint=state.cloud + _TWIN_PREFIX, token=_token(state.directory)), **TWIN)
        return own if own.zones else replace(own, zones=(f"{own.location}-a",))
    if found.project and found.location and found.cluster:
        return found
    parts = _current_context(kubeconfig, context).split("_")
    if len(parts) != 4 or f"{parts[0]}_" != _GCLOUD:
        return found
    return _filled(found, project=parts[1], location=parts[2], cluster=parts[3])


@asynccontextmanager
async def open_container(settings: Settings) -> AsyncIterator[Container]:
    """The container API of a cluster. UsageError where it is not known which one is meant."""
    from sliceworks.cloud import connecting

    names = (settings.project, settings.location, settings.cluster)
    given = {"endpoint": settings.endpoint, "token": settings.token, "impersonate": settings.impersonate}
    container = connecting.open_container(*names, **given)
    async with container.session:
        yield container


async def container_of(stack: AsyncExitStack, where: Mapping[str, Any]) -> Container | None:
    """The cloud behind the cluster that a command means, where it is known which one that is; open as long as the stack is."""
    try:
        settings = settings_for({}, twin=where["twin"], kubeconfig=where["kubeconfig"], context=where["context"])
        return await stack.enter_async_context(open_container(settings))
    except SliceworksError:
        return None


async def adopt(client: Client, settings: Settings) -> None:
    """Have a twin's cloud know the twin's cluster by its names, as if it had been made there."""
    import orjson

    from sliceworks.kube.transport import Request

    cluster = {"project": settings.project, "location": settings.location, "name": settings.cluster}
    body = orjson.dumps({"set": {"container": {"clusters": [cluster]}}})
    await client.send(Request("POST", "/debug/twin/cloud", (), {"content-type": "application/json"}, body))


def _filled(settings: Settings, *, project: str, location: str, cluster: str) -> Settings:
    """Names that are not set yet."""
    return replace(
        settings,
        project=settings.project or project,
        location=settings.location or location,
        cluster=settings.cluster or cluster,
    )


def _read(file: str | None) -> dict[str, Any]:
    """The settings in a YAML file."""
    if file is None:
        return {}
    from pathlib import Path

    from sliceworks.base import yamls

    return dict(yamls.load_one(Path(file), "document").data)


def _current_context(kubeconfig: str | None, context: str | None) -> str:
    from sliceworks.base.errors import SliceworksError
    from sliceworks.kube import kubeconfig as files

    try:
        return context or files.load(kubeconfig).current_context
    except SliceworksError:
        return ""  # in a pod there is none


def _token(directory: str) -> str:
    from pathlib import Path

    return (Path(directory) / "token").read_text().strip()
