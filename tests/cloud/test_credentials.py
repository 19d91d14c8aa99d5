"""Google's credentials: renewed before they end, once for many requests, and said in words when there are none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.auth import exceptions

from sliceworks.base.errors import Unauthenticated
from sliceworks.cloud.connecting import credentials
from sliceworks.cloud.credentials import Anonymous, Token
from sliceworks.cloud.google_credentials import GoogleCredentials


class Fake:
    """What google-auth hands out."""

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
        found = await asyncio.gather(*(made.headers() for _ in range(times)))
        return [each["authorization"] for each in found]

    return asyncio.run(main())


def test_one_token_serves_many_requests() -> None:
    fake = Fake()
    assert _headers(GoogleCredentials(load=lambda: fake), 5) == ["Bearer token-1"] * 5
    assert fake.renewals == 1


def test_a_token_that_ends_soon_is_renewed() -> None:
    fake = Fake(lasts=timedelta(minutes=2))
    made = GoogleCredentials(load=lambda: fake)

    async def main() -> None:
        await made.headers()
        assert (await made.headers())["authorization"] == "Bearer token-2"

    asyncio.run(main())


def test_a_token_that_was_refused_is_renewed() -> None:
    fake = Fake()
    made = GoogleCredentials(load=lambda: fake)

    async def main() -> None:
        await made.headers()
        made.refused()
        assert (await made.headers())["authorization"] == "Bearer token-2"

    asyncio.run(main())


def test_no_credentials_are_said_in_one_line() -> None:
    error = exceptions.DefaultCredentialsError("Your default credentials were not found.\nMore.")  # type: ignore[no-untyped-call]

    def load() -> Any:
        raise error

    with pytest.raises(Unauthenticated) as caught:
        _headers(GoogleCredentials(load=load))
    assert str(caught.value) == "no credentials for Google: Your default credentials were not found."
    assert "gcloud auth application-default login" in caught.value.hint


def test_credentials_that_cannot_be_renewed() -> None:
    error = exceptions.RefreshError("invalid_grant: Token has been expired or revoked.")  # type: ignore[no-untyped-call]
    with pytest.raises(Unauthenticated, match="Token has been expired or revoked"):
        _headers(GoogleCredentials(load=lambda: Fake(error=error)))


def test_acting_as_another_account(monkeypatch: pytest.MonkeyPatch) -> None:
    import google.auth
    from google.auth import impersonated_credentials

    asked: dict[str, Any] = {}

    def acting_as(**given: Any) -> Fake:
        asked.update(given)
        return Fake()

    monkeypatch.setattr(google.auth, "default", lambda scopes: ("me", "project"))
    monkeypatch.setattr(impersonated_credentials, "Credentials", acting_as)
    assert _headers(GoogleCredentials("robot@p.iam.gserviceaccount.com")) == ["Bearer token-1"]
    assert asked["source_credentials"] == "me"
    assert asked["target_principal"] == "robot@p.iam.gserviceaccount.com"


def test_a_given_token_needs_no_google() -> None:
    assert credentials("abc") == Token("abc")
    assert isinstance(credentials(impersonate="x"), GoogleCredentials)
    assert asyncio.run(Anonymous().headers()) == {}
