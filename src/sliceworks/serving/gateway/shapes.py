"""Errors in the words of each protocol, so that every client shows them as its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from sliceworks.base.http.messages import JSON

if TYPE_CHECKING:
    from sliceworks.base.http.refusals import Refusal
    from sliceworks.base.http.reply import Reply

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def openai(refusal: Refusal) -> bytes:
    """OpenAI's."""
    kind = _TYPES.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
    return orjson.dumps({"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}})


def inference(refusal: Refusal) -> bytes:
    """The Open Inference Protocol's."""
    return orjson.dumps({"error": refusal.message})


def detail(refusal: Refusal) -> bytes:
    """That of JetStream's HTTP server and of the Sax proxy."""
    return orjson.dumps({"detail": refusal.message})


def of(path: str, refusal: Refusal) -> bytes:
    """The one that belongs to a path."""
    if path.startswith("/v2"):
        return inference(refusal)
    if path.startswith("/v1/") and path != "/v1/generate":
        return openai(refusal)
    return detail(refusal) if path in DETAILED else openai(refusal)


def send(path: str, refusal: Refusal, reply: Reply) -> None:
    """Say no in the words of a path."""
    reply.send(refusal.status, [JSON, *refusal.headers], of(path, refusal))


DETAILED = frozenset({"/v1/generate", "/generate", "/score", "/listcell", "/publish", "/update", "/unpublish"})
