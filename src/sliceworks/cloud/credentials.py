"""Credentials as request headers: a fixed token, none, or those that google-auth finds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base import clock, imports
from sliceworks.base.errors import SliceworksError, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Credentials(Protocol):
    """Provides authentication headers; raises Unauthenticated if no credentials are found."""

    async def headers(self) -> Mapping[str, str]:
        """Headers for one request, with a token that has not expired."""
        ...

    def invalidate(self) -> None:
        """Called after a 401: get a new token before the next request."""
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """A fixed token, such as that of a twin."""

    value: str

    async def headers(self) -> Mapping[str, str]:
        """The Authorization header."""
        return {"authorization": f"Bearer {self.value}"}

    def invalidate(self) -> None:
        """A fixed token cannot be renewed."""


@dataclass(frozen=True, slots=True)
class Anonymous:
    """No credentials, for endpoints without authentication."""

    async def headers(self) -> Mapping[str, str]:
        """No headers."""
        return {}

    def invalidate(self) -> None:
        """There is no token to renew."""


_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_REFRESH_BEFORE_EXPIRY = timedelta(minutes=4)
_HINT = "run gcloud auth application-default login, or give the pod a service account with Workload Identity"


class GoogleCredentials:
    """Application default credentials; with `impersonate`, those of that service account."""

    def __init__(self, impersonate: str = "", *, load: Callable[[], Any] | None = None) -> None:
        self._impersonate = impersonate
        self._load = load or self._load_default
        self._credentials: Any = None
        self._fresh = False
        self._lock: asyncio.Lock | None = None

    async def headers(self) -> Mapping[str, str]:
        """The Authorization header; the token is refreshed a few minutes before it expires."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._is_valid():
                await asyncio.to_thread(self._refresh)
                self._fresh = True
        return {"authorization": f"Bearer {self._credentials.token}"}

    def invalidate(self) -> None:
        """Refresh the token before the next request."""
        self._fresh = False

    def _is_valid(self) -> bool:
        if self._credentials is None or not self._fresh or not self._credentials.token:
            return False
        expiry = self._credentials.expiry
        return expiry is None or expiry.replace(tzinfo=UTC) - clock.now() > _REFRESH_BEFORE_EXPIRY

    def _refresh(self) -> None:
        try:
            from google.auth import exceptions
            from google.auth.transport.requests import Request
        except ImportError as error:
            raise SliceworksError("google-auth is not installed", hint=imports.install_command("google")) from error
        try:
            if self._credentials is None:
                self._credentials = self._load()
            self._credentials.refresh(Request())
        except exceptions.GoogleAuthError as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Unauthenticated(f"no Google Cloud credentials found: {reason}", hint=_HINT) from error

    def _load_default(self) -> Any:
        import google.auth
        from google.auth import impersonated_credentials

        credentials, _ = google.auth.default(scopes=_SCOPES)
        if not self._impersonate:
            return credentials
        impersonated: Callable[..., Any] = impersonated_credentials.Credentials
        return impersonated(source_credentials=credentials, target_principal=self._impersonate, target_scopes=list(_SCOPES))


def find_credentials(token: str = "", impersonate: str = "") -> Credentials:
    """The given token, or Google's application default credentials."""
    return Token(token) if token else GoogleCredentials(impersonate)
