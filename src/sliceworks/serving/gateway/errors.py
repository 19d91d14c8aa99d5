"""Error responses of the gateway, encoded in the format of each API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from sliceworks.base.http.messages import JSON_CONTENT, HttpError

if TYPE_CHECKING:
    from sliceworks.base.http.response_writer import ResponseWriter


def invalid_api_key() -> HttpError:
    """The API key is missing or unknown."""
    return HttpError(401, "invalid_api_key", "missing or invalid API key; send it as Authorization: Bearer KEY")


def model_not_found(name: str) -> HttpError:
    """Unknown model, or one that this key may not use (indistinguishable on purpose)."""
    return HttpError(404, "model_not_found", f"model {name[:200]!r} not found", param="model")


def route_not_found(method: str, path: str) -> HttpError:
    """The path has no route."""
    return HttpError(404, "not_found", f"route not found: {method} {path[:200]}")


def method_not_allowed(method: str, path: str, allowed: str) -> HttpError:
    """The path has a route, but not for this method."""
    error = HttpError(405, "method_not_allowed", f"{path[:200]} does not allow {method}")
    error.extra_headers[b"allow"] = ", ".join(allowed.split()).encode()
    return error


def rate_limit_exceeded(subject: str, limit: str, retry_after: float) -> HttpError:
    """A key or a model is over one of its limits."""
    return HttpError(429, "rate_limit_exceeded", f"rate limit exceeded for {subject}: {limit}", retry_after=retry_after)


def draining() -> HttpError:
    """The gateway is about to exit."""
    return HttpError(503, "draining", "the gateway is shutting down", retry_after=1)


def no_healthy_backend(model: str) -> HttpError:
    """No upstream of the model can take the request."""
    return HttpError(503, "no_backend", f"no healthy backend for model {model}", retry_after=5)


def backend_failed(reason: str) -> HttpError:
    """The upstream failed before it responded."""
    return HttpError(502, "backend_failed", f"the backend failed: {reason}")


def backend_timeout(reason: str) -> HttpError:
    """The upstream exceeded a timeout."""
    return HttpError(504, "backend_timeout", f"the backend timed out: {reason}")


_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
DETAIL_PATHS = frozenset({"/v1/generate", "/generate", "/score", "/listcell", "/publish", "/update", "/unpublish"})


def openai_error(error: HttpError) -> bytes:
    """The error in OpenAI's format."""
    kind = _OPENAI_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return orjson.dumps({"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}})


def open_inference_error(error: HttpError) -> bytes:
    """The error in the format of the Open Inference Protocol."""
    return orjson.dumps({"error": error.message})


def detail_error(error: HttpError) -> bytes:
    """The error in the format of JetStream's HTTP server and of the Sax proxy."""
    return orjson.dumps({"detail": error.message})


def encode(path: str, error: HttpError) -> bytes:
    """The error in the format of the API that a path belongs to."""
    if path.startswith("/v2"):
        return open_inference_error(error)
    return detail_error(error) if path in DETAIL_PATHS else openai_error(error)


def send(path: str, error: HttpError, response: ResponseWriter) -> None:
    """Respond with an error in the format of the path's API."""
    response.send(error.status, [JSON_CONTENT, *error.headers], encode(path, error))
