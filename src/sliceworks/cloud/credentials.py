"""Who asks: a header for each request. Google's own kinds of credentials are in `google_credentials`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Credentials(Protocol):
    """Gives the headers that say who asks. Raises Unauthenticated when there is nobody to be."""

    async def headers(self) -> Mapping[str, str]:
        """Headers for one request, with a token that is still good."""
        ...

    def refused(self) -> None:
        """A server did not accept the last headers: get fresh ones before the next request."""
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """One token for ever: what a twin hands out, or one that somebody else renews."""

    value: str

    async def headers(self) -> Mapping[str, str]:
        """The bearer token."""
        return {"authorization": f"Bearer {self.value}"}

    def refused(self) -> None:
        """There is no other token to be had."""


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Nobody: for endpoints that ask for no name."""

    async def headers(self) -> Mapping[str, str]:
        """Nothing."""
        return {}

    def refused(self) -> None:
        """There is no token to be had."""
