"""Google credentials: refreshed before they expire, once for many requests."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.auth import exceptions

from sliceworks.base.errors import Unauthenticated
from sliceworks.cloud.credentials import Anonymous, GoogleCredentials, Token, find_credentials


class Fake:
    """Credentials as google-auth returns them."""

    def __init__(self, lasts: timedelta = timedelta(hours=1), error: Exception | None = None) -> None:
        self.token, self.expiry = "", None
        self.renewals = 0
        self._lasts, self._error = lasts, error

    def refresh(self, _request: Any) -> None:
        if self._error is not None:
            raise self._error
        self.renewals += 1
        self.token = f"token-{self.renewals}"
        # google-auth keeps times without a zone.
        self.expiry = (datetime.now(UTC) + self._lasts).replace(tzinfo=None)  # type: ignore[assignment]


def _headers(made: GoogleCredentials, times: int = 1) -> list[str]:
    async def main() -> list[str]:
        result = await asyncio.gather(*(made.headers() for _ in range(times)))
        return [item["authorization"] for item in result]

    return asyncio.run(main())


def test_token_is_shared_by_requests() -> None:
    fake = Fake()
    assert _headers(GoogleCredentials(load=lambda: fake), 5) == ["Bearer token-1"] * 5
    assert fake.renewals == 1


def test_token_is_refreshed_before_it_expires() -> None:
    fake = Fake(lasts=timedelta(minutes=2))
    created = GoogleCredentials(load=lambda: fake)

    async def main() -> None:
        await created.headers()
        assert (await created.headers())["authorization"] == "Bearer token-2"

    asyncio.run(main())


def test_rejected_token_is_refreshed() -> None:
    fake = Fake()
    created = GoogleCredentials(load=lambda: fake)

    async def main() -> None:
        await created.headers()
        created.invalidate()
        assert (await created.headers())["authorization"] == "Bearer token-2"

    asyncio.run(main())


def test_missing_credentials_have_a_hint() -> None:
    error = exceptions.DefaultCredentialsError("Your default credentials were not found.\nMore.")  # type: ignore[no-untyped-call]

    def load() -> Any:
        raise error

    with pytest.raises(Unauthenticated) as caught:
        _headers(GoogleCredentials(load=load))
    assert str(caught.value) == "no Google Cloud credentials found: Your default credentials were not found."
    assert "gcloud auth application-default login" in caught.value.hint


def test_failed_refresh_is_unauthenticated() -> None:
    error = exceptions.RefreshError("invalid_grant: Token has been expired or revoked.")  # type: ignore[no-untyped-call]
    with pytest.raises(Unauthenticated, match="Token has been expired or revoked"):
        _headers(GoogleCredentials(load=lambda: Fake(error=error)))


def test_impersonation(monkeypatch: pytest.MonkeyPatch) -> None:
    import google.auth
    from google.auth import impersonated_credentials

    requests: dict[str, Any] = {}

    def acting_as(**given: Any) -> Fake:
        requests.update(given)
        return Fake()

    monkeypatch.setattr(google.auth, "default", lambda scopes: ("me", "project"))
    monkeypatch.setattr(impersonated_credentials, "Credentials", acting_as)
    assert _headers(GoogleCredentials("robot@p.iam.gserviceaccount.com")) == ["Bearer token-1"]
    assert requests["source_credentials"] == "me"
    assert requests["target_principal"] == "robot@p.iam.gserviceaccount.com"


def test_given_token_needs_no_google_auth() -> None:
    assert find_credentials("abc") == Token("abc")
    assert isinstance(find_credentials(impersonate="x"), GoogleCredentials)
    assert asyncio.run(Anonymous().headers()) == {}
