"""Google's credentials, by google-auth: Workload Identity and the metadata server, a person's own login, a service account's key,
workload identity federation, and any of them acting as another service account.

google-auth is an extra (`pip install sliceworks[google]`), loaded by the first request. It blocks, so it runs in a thread.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, extras
from sliceworks.base.errors import SliceworksError, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_EARLY = timedelta(minutes=4)  # a token is renewed so long before it ends
_HINT = "log in with gcloud auth application-default login, or give the pod a service account by Workload Identity"


class GoogleCredentials:
    """The credentials that the environment names, as Google's own tools find them; with `impersonate`, acting as that account."""

    def __init__(self, impersonate: str = "", *, load: Callable[[], Any] | None = None) -> None:
        self._impersonate = impersonate
        self._load = load or self._default
        self._found: Any = None
        self._fresh = False
        self._lock: asyncio.Lock | None = None

    async def headers(self) -> Mapping[str, str]:
        """The bearer token, renewed a little before it ends."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._good():
                await asyncio.to_thread(self._renew)
                self._fresh = True
        return {"authorization": f"Bearer {self._found.token}"}

    def refused(self) -> None:
        """Renew before the next request."""
        self._fresh = False

    def _good(self) -> bool:
        if self._found is None or not self._fresh or not self._found.token:
            return False
        expiry = self._found.expiry
        return expiry is None or expiry.replace(tzinfo=UTC) - clock.now() > _EARLY

    def _renew(self) -> None:
        try:
            from google.auth import exceptions
            from google.auth.transport.requests import Request
        except ImportError as error:
            raise SliceworksError("google-auth is not installed", hint=extras.remedy("google")) from error
        try:
            if self._found is None:
                self._found = self._load()
            self._found.refresh(Request())
        except exceptions.GoogleAuthError as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Unauthenticated(f"no credentials for Google: {first}", hint=_HINT) from error

    def _default(self) -> Any:
        import google.auth
        from google.auth import impersonated_credentials

        found, _ = google.auth.default(scopes=_SCOPES)
        if not self._impersonate:
            return found
        acting_as: Callable[..., Any] = impersonated_credentials.Credentials
        return acting_as(source_credentials=found, target_principal=self._impersonate, target_scopes=list(_SCOPES))
