"""The slices controller as a part of a program: finds out where it is, connects to the cloud, and works until it is cancelled."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sliceworks.base.errors import UsageError
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.controllers.slices.metrics import Metrics

if TYPE_CHECKING:
    from sliceworks.base.metrics import Registry
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.kube.client import Client

log = logging.getLogger(__name__)


class SlicesProgram:
    """Runs the controller with one cluster's settings. What they leave open is asked of Google's metadata server."""

    def __init__(self, client: Client, settings: Settings, registry: Registry) -> None:
        self._client, self._settings, self._metrics = client, settings, Metrics(registry)
        self._controller: SlicesController | None = None

    @property
    def ready(self) -> bool:
        """Whether its caches are filled."""
        return self._controller is not None and self._controller.ready

    async def run(self) -> None:
        """Work until cancelled."""
        from sliceworks.cloud.connecting import open_container

        settings = await complete(self._settings)
        log.info("node pools of projects/%s/locations/%s/clusters/%s", settings.project, settings.location, settings.cluster)
        container = open_container(
            settings.project,
            settings.location,
            settings.cluster,
            endpoint=settings.endpoint,
            token=settings.token,
            impersonate=settings.impersonate,
        )
        try:
            self._controller = SlicesController(self._client, container, settings, self._metrics)
            await self._controller.run()
        finally:
            await container.session.close()
            self._controller = None


async def complete(settings: Settings) -> Settings:
    """Settings whose cluster is known; UsageError where nobody says which one is meant. Pods may name zones themselves."""
    missing = not (settings.project and settings.location and settings.cluster)
    if (missing or not settings.zones) and not settings.endpoint:
        from sliceworks.cloud.metadata import whereabouts

        here = await whereabouts()
        settings = replace(
            settings,
            project=settings.project or here.project,
            location=settings.location or here.location,
            cluster=settings.cluster or here.cluster,
            zones=settings.zones or ((here.zone,) if here.zone else ()),
        )
    needed = {"GCP_PROJECT_ID": settings.project, "GCP_CLUSTER_LOCATION": settings.location, "GCP_CLUSTER": settings.cluster}
    unknown = [name for name, value in needed.items() if not value]
    if unknown:
        raise UsageError(
            f"it is not known which cluster is meant: {', '.join(unknown)} not set",
            hint="set them, use --twin, or run other controllers alone",
        )
    return settings
