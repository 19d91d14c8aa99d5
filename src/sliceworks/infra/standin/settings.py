"""How the provider was configured: project and places, who asks, and where each API is. The same names as the real provider's."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from sliceworks.base.errors import UsageError
from sliceworks.cloud import Session, Token

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROJECT = ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
_REGION = ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION")
_ZONE = ("GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE")
_TOKEN = ("GOOGLE_OAUTH_ACCESS_TOKEN",)


@dataclass(slots=True)
class Settings:
    """What `provider "google" { … }` and the environment say together."""

    project: str
    region: str
    zone: str
    labels: dict[str, str]
    endpoints: dict[str, str]
    token: str
    _sessions: dict[str, Session] = field(default_factory=dict, compare=False)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Self:
        """The settings of a provider block; what it leaves out comes from the environment."""

        def of(name: str, variables: tuple[str, ...]) -> str:
            return str(config.get(name) or next((environment[each] for each in variables if environment.get(each)), ""))

        given = {
            name.removesuffix("_custom_endpoint"): value for name, value in config.items() if name.endswith("_custom_endpoint")
        }
        endpoints = {
            name: str(value or environment.get(f"GOOGLE_{name.upper()}_CUSTOM_ENDPOINT", "")) for name, value in given.items()
        }
        defaults = config.get("default_labels") or {}
        return cls(
            of("project", _PROJECT), of("region", _REGION), of("zone", _ZONE), dict(defaults), endpoints, of("access_token", _TOKEN)
        )

    def session(self, api: str) -> Session:
        """The session of an API; its endpoint ends with the version, and paths are relative to it."""
        if api not in self._sessions:
            address = self.endpoints.get(api, "")
            if not address:
                raise UsageError(
                    f"the stand-in provider knows no {api}",
                    hint=f"it serves the twin only: set GOOGLE_{api.upper()}_CUSTOM_ENDPOINT, as `sliceworks env --twin` does",
                )
            self._sessions[api] = Session(address, Token(self.token))
        return self._sessions[api]

    async def upload(self, path: str, content: bytes, query: Mapping[str, str], kind: str) -> dict[str, Any]:
        """Send a content to where storage takes contents: at the root of its host, beside the API."""
        parts = urlsplit(self.endpoints.get("storage", ""))
        host = Session(f"{parts.scheme}://{parts.netloc}", Token(self.token))
        async with host:
            return await host.upload(path, content, query, kind)

    def lock(self, path: str) -> asyncio.Lock:
        """Held while a thing is read, changed and written back: Terraform does much at once."""
        return self._locks.setdefault(path, asyncio.Lock())

    async def close(self) -> None:
        """Let go of all connections."""
        for session in self._sessions.values():
            await session.close()
