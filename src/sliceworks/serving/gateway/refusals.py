"""What the gateway says no with. Each route writes it in the shape that its own clients know."""

from __future__ import annotations

from sliceworks.base.http.refusals import Refusal


def no_key() -> Refusal:
    """No key was sent, or one that nobody has."""
    return Refusal(401, "invalid_api_key", "a valid key is needed: send it as Authorization: Bearer KEY")


def unknown_model(name: str) -> Refusal:
    """Nothing serves it; or this key may not ask for it, which looks the same."""
    return Refusal(404, "model_not_found", f"there is no model {name[:200]!r} here", param="model")


def no_route(method: str, path: str) -> Refusal:
    """Nothing is served under this path."""
    return Refusal(404, "not_found", f"{method} {path[:200]} is not served here")


def wrong_method(method: str, path: str, allowed: str) -> Refusal:
    """The path is served, by another method."""
    refusal = Refusal(405, "method_not_allowed", f"{path[:200]} does not take {method}")
    refusal.more[b"allow"] = ", ".join(allowed.split()).encode()
    return refusal


def over_rate(what: str, wait: float) -> Refusal:
    """A limit is used up."""
    return Refusal(429, "rate_limit_exceeded", f"the limit of {what} is reached: wait a little", retry_after=wait)


def too_many_tokens(asked: int, most: int) -> Refusal:
    """More tokens are asked for than the cap allows."""
    return Refusal(400, "too_many_tokens", f"max_tokens is at most {most} here, asked for {asked}", param="max_tokens")


def draining() -> Refusal:
    """The gateway is about to end."""
    return Refusal(503, "draining", "this gateway is ending", retry_after=1)


def no_backend(model: str) -> Refusal:
    """No server of this model is well."""
    return Refusal(503, "no_backend", f"no server of the model {model!r} is well just now", retry_after=5)


def broken_backend(reason: str) -> Refusal:
    """The server failed before it answered."""
    return Refusal(502, "backend_failed", f"the model's server failed: {reason}")


def slow_backend(what: str) -> Refusal:
    """The server took too long."""
    return Refusal(504, "backend_timeout", f"the model's server took too long: {what}")
