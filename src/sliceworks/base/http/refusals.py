"""What a server says no with. Each application writes it in the shape that its own clients know."""

from __future__ import annotations

from sliceworks.base.errors import SliceworksError


class Refusal(SliceworksError):
    """An answer other than the one that was asked for: a status, a code for programs and a line for people."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.retry_after = status, code, param, retry_after
        self.more: dict[bytes, bytes] = {}
        """Headers that whoever refuses has to add."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that belong to it."""
        found: list[tuple[bytes, bytes]] = []
        if self.retry_after is not None:
            # Whole seconds, and never none: who comes back at once is refused again.
            found.append((b"retry-after", b"%d" % max(1, -int(-self.retry_after // 1))))
        if self.status == 401:
            found.append((b"www-authenticate", b"Bearer"))
        return [*found, *self.more.items()]


UNKNOWN_METHOD, FAILED = "unknown_method", "internal_error"


def malformed(message: str, *, param: str | None = None) -> Refusal:
    """The request cannot be read."""
    return Refusal(400, "invalid_request", message, param=param)


def unknown_method() -> Refusal:
    """It does not begin with a method that there is: mostly it is no HTTP at all."""
    return Refusal(400, UNKNOWN_METHOD, "this is not HTTP")


def unknown_coding(coding: str) -> Refusal:
    """Its body is wrapped in a way that nobody here undoes."""
    return Refusal(501, "unknown_coding", f"Transfer-Encoding is chunked or not at all here, not {coding[:100]!r}")


def unknown_version(version: str) -> Refusal:
    """It is in an HTTP that is not spoken here."""
    return Refusal(505, "unknown_version", f"this server speaks HTTP/1.1, not HTTP/{version}")


def too_large(limit: int) -> Refusal:
    """The request is longer than allowed."""
    return Refusal(413, "request_too_large", f"the request is larger than {limit} bytes")


def head_too_large(limit: int) -> Refusal:
    """Its head alone is longer than allowed."""
    return Refusal(431, "head_too_large", f"the head of the request is larger than {limit} bytes")


def late() -> Refusal:
    """It began, and did not end."""
    return Refusal(408, "request_timeout", "the request did not come to its end in time")


def failed() -> Refusal:
    """It is our fault."""
    return Refusal(500, FAILED, "the server failed: its log says why")
