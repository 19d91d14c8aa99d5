"""The resolved Gateway document: models with their upstreams, callers by API key, rate limits and the retry budget.

A reload keeps whatever did not change.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.serving.gateway.errors import invalid_api_key, rate_limit_exceeded
from sliceworks.serving.gateway.load_balancer import LoadBalancer, Upstream
from sliceworks.specs.gateway import Gateway, RateLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.serving.gateway.load_balancer import UpstreamIdentity
    from sliceworks.specs.gateway import Backend, GatewaySpec, Key, Model, Secret, Timeouts

_MINUTE = 60.0


class TokenBucket:
    """Refills steadily up to one minute's allowance. Its level becomes negative where a request used more than was left."""

    __slots__ = ("_level", "_refilled_at", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._level = float(capacity)
        self._refilled_at = asyncio.get_running_loop().time()

    def time_until(self, amount: float) -> float:
        """Seconds until the bucket holds an amount; 0 if it does now."""
        now = asyncio.get_running_loop().time()
        self._level = min(self.capacity, self._level + (now - self._refilled_at) * self.capacity / _MINUTE)
        self._refilled_at = now
        missing = min(amount, self.capacity) - self._level
        return max(0.0, missing * _MINUTE / self.capacity)

    def take(self, amount: float) -> None:
        """Remove an amount, or return it if negative."""
        self._level = min(self.capacity, self._level - amount)

    @property
    def level(self) -> float:
        self.time_until(0)
        return self._level

    @property
    def time_until_full(self) -> float:
        return (self.capacity - self.level) * _MINUTE / self.capacity


class RateLimit:
    """Enforces the limits of a key or a model: `acquire` before a request and `release` after it."""

    def __init__(self, limits: RateLimits, subject: str) -> None:
        self.limits, self._subject = limits, subject
        self._requests = TokenBucket(limits.requests_per_minute) if limits.requests_per_minute else None
        self._tokens = TokenBucket(limits.tokens_per_minute) if limits.tokens_per_minute else None
        self.in_flight = 0

    @property
    def counts_tokens(self) -> bool:
        """Whether it has a limit of tokens."""
        return self._tokens is not None

    def check(self, tokens: int) -> None:
        """Raises `rate_limit_exceeded` if a request with so many tokens is over a limit."""
        if self.limits.max_parallel_requests is not None and self.in_flight >= self.limits.max_parallel_requests:
            raise rate_limit_exceeded(self._subject, f"{self.limits.max_parallel_requests} parallel requests", 1)
        self.check_rates(tokens)

    def check_rates(self, tokens: int) -> None:
        """Like `check`, for a further request of a stream: it runs in place of the stream."""
        if self._requests is not None and (wait := self._requests.time_until(1)) > 0:
            raise rate_limit_exceeded(self._subject, f"{self._requests.capacity} requests per minute", wait)
        if self._tokens is not None and (wait := self._tokens.time_until(tokens)) > 0:
            raise rate_limit_exceeded(self._subject, f"{self._tokens.capacity} tokens per minute", wait)

    def acquire(self, tokens: int) -> None:
        """Count a request that starts, with the tokens that it may use."""
        self.in_flight += 1
        self.take(tokens)

    def take(self, tokens: int) -> None:
        """Count a further request of a stream."""
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(tokens)

    def release(self, tokens: int, used: int | None) -> None:
        """Count a request that has finished; replaces the reserved tokens by those that it used, if known."""
        self.in_flight -= 1
        if self._tokens is not None and used is not None:
            self._tokens.take(used - tokens)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """OpenAI's `x-ratelimit-*` headers."""
        headers: list[tuple[bytes, bytes]] = []
        for name, bucket in ((b"requests", self._requests), (b"tokens", self._tokens)):
            if bucket is not None:
                headers.append((b"x-ratelimit-limit-%b" % name, b"%d" % bucket.capacity))
                headers.append((b"x-ratelimit-remaining-%b" % name, b"%d" % max(0, int(bucket.level))))
                headers.append((b"x-ratelimit-reset-%b" % name, b"%gs" % round(bucket.time_until_full, 3)))
        return headers


class RetryBudget:
    """Limits retries to a ratio of all requests, plus a few per second."""

    def __init__(self, ratio: float, min_per_second: int) -> None:
        self._ratio, self._min_per_second = ratio, min_per_second
        self._capacity = max(10.0, float(min_per_second) * 10)
        self._level = self._capacity
        self._refilled_at = asyncio.get_running_loop().time()

    def record_request(self) -> None:
        self._level = min(self._capacity, self._level + self._ratio)

    def take(self) -> bool:
        """Take one retry; False if the budget is exhausted."""
        now = asyncio.get_running_loop().time()
        self._level = min(self._capacity, self._level + (now - self._refilled_at) * self._min_per_second)
        self._refilled_at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


_KEY_PREFIX = "sw-"
_MAX_KEY_LENGTH = 512
_BUCKET_BYTES = 2


class Caller:
    """The holder of an API key."""

    def __init__(self, name: str, models: Iterable[str], rate_limit: RateLimit) -> None:
        self.name, self.models, self.rate_limit = name, tuple(models), rate_limit
        self._names = frozenset(model for model in models if not model.endswith("*"))
        self._prefixes = tuple(model[:-1] for model in models if model.endswith("*"))

    def may_use(self, model: str) -> bool:
        return model in self._names or model.startswith(self._prefixes)


class KeyAuthenticator:
    """Finds callers by the digests of their keys."""

    def __init__(self, callers: Mapping[bytes, Caller], anonymous: Caller | None) -> None:
        self._anonymous = anonymous
        self._by_name = {caller.name: caller for caller in callers.values()}
        self._buckets: dict[bytes, list[tuple[bytes, Caller]]] = {}
        for digest, caller in callers.items():
            self._buckets.setdefault(digest[:_BUCKET_BYTES], []).append((digest, caller))

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """The caller with the key in these headers. Where keys exist, a wrong one is rejected even if none is required."""
        key = read_key(headers)
        if self._anonymous is not None and (not key or not self._buckets):
            return self._anonymous
        digest = hash_key(key)
        # The time of this lookup can only reveal the first bytes of a digest, which a client cannot choose.
        for known, caller in self._buckets.get(digest[:_BUCKET_BYTES], ()):
            if hmac.compare_digest(known, digest):
                return caller
        raise invalid_api_key()

    def get(self, name: str) -> Caller | None:
        return self._by_name.get(name)


def read_key(headers: Mapping[str, str]) -> str:
    """The API key of a request: a bearer token, or one of the headers that some clients send instead."""
    authorization = headers.get("authorization", "")
    if authorization[:7].lower() == "bearer ":
        return authorization[7:].strip()[:_MAX_KEY_LENGTH]
    return (headers.get("x-api-key") or headers.get("api-key") or "").strip()[:_MAX_KEY_LENGTH]


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def generate_key() -> tuple[str, str]:
    """A new key, and its digest for the document."""
    key = _KEY_PREFIX + secrets.token_urlsafe(32)
    return key, hash_key(key).hex()


def resolve_caller(key: Key, previous: KeyAuthenticator | None = None) -> Caller:
    """The caller of a key. It keeps the rate limit of its predecessor if the limits did not change."""
    before = previous.get(key.name) if previous is not None else None
    if before is not None and before.rate_limit.limits == key.rate_limit:
        return Caller(key.name, key.models, before.rate_limit)
    return Caller(key.name, key.models, RateLimit(key.rate_limit, f"key {key.name}"))


@dataclass(slots=True)
class ServedModel:
    """A model with its upstreams, limits and timeouts."""

    model: Model
    balancer: LoadBalancer
    rate_limit: RateLimit
    timeouts: Timeouts
    max_tokens: int | None

    @property
    def name(self) -> str:
        return self.model.name


class State:
    """One resolved document. `previous` is the state that it replaces."""

    def __init__(self, spec: GatewaySpec, previous: State | None = None) -> None:
        self.spec = spec
        self.anonymous: Caller | None = None
        if spec.anonymous:
            known = previous.anonymous if previous is not None else None
            self.anonymous = known or Caller("anonymous", ["*"], RateLimit(RateLimits(), "anonymous"))
        self.keys = KeyAuthenticator(dict(_resolve_callers(spec, previous)), self.anonymous)
        self.admin_key = hash_key(read_secret(spec.admin.key)) if spec.admin is not None and spec.admin.key else None
        self.models = {model.name: _resolve_model(model, spec, previous) for model in spec.models}
        self._by_name = {alias: served for served in self.models.values() for alias in (served.name, *served.model.aliases)}
        self.retry_budget = RetryBudget(spec.retries.retry_ratio, spec.retries.min_retries_per_second)
        if previous is not None and previous.spec.retries == spec.retries:
            self.retry_budget = previous.retry_budget

    def find(self, name: str) -> ServedModel | None:
        """The model with this name or alias."""
        return self._by_name.get(name)

    @property
    def upstreams(self) -> list[Upstream]:
        """The upstreams of all models."""
        return [upstream for served in self.models.values() for upstream in served.balancer.upstreams]

    def models_for(self, caller: Caller) -> list[ServedModel]:
        """The models that a caller may use."""
        return [served for served in self.models.values() if caller.may_use(served.name)]


def _resolve_callers(spec: GatewaySpec, previous: State | None) -> Iterator[tuple[bytes, Caller]]:
    for key in spec.keys:
        digest = bytes.fromhex(key.sha256) if key.sha256 is not None else hash_key(read_secret(key.secret))
        yield digest, resolve_caller(key, previous.keys if previous is not None else None)


def _resolve_model(model: Model, spec: GatewaySpec, previous: State | None) -> ServedModel:
    old = previous.models.get(model.name) if previous is not None else None
    # Models that share a server have separate upstreams, each with its own counts: reuse only those of the same model.
    known = {upstream.identity: upstream for upstream in old.balancer.upstreams} if old is not None else {}
    upstreams = [create_upstream(backend, spec, known) for backend in model.backends]
    if old is not None and model.discovery is not None and old.model.discovery == model.discovery:
        listed = {*(upstream.backend for upstream in upstreams), *old.model.backends}
        discovered = [upstream.backend for upstream in old.balancer.upstreams if upstream.backend not in listed]
        upstreams += [create_upstream(backend, spec, known) for backend in discovered]
    if old is not None and old.rate_limit.limits == model.rate_limit:
        rate_limit = old.rate_limit
    else:
        rate_limit = RateLimit(model.rate_limit, f"model {model.name}")
    balancer = LoadBalancer(model.name, upstreams, spec.load_balancing)
    return ServedModel(model, balancer, rate_limit, model.timeouts or spec.timeouts, model.max_tokens or spec.limits.max_tokens)


def create_upstream(backend: Backend, spec: GatewaySpec, known: Mapping[UpstreamIdentity, Upstream] | None = None) -> Upstream:
    """The upstream of a backend; the known one if nothing about it changed."""
    credential = read_secret(backend.credential) if backend.credential is not None else ""
    upstream = Upstream(backend, spec.health_check, spec.load_balancing.slow_start, credential, _read_ca_bundle(backend))
    return (known or {}).get(upstream.identity) or upstream


def _read_ca_bundle(backend: Backend) -> bytes | None:
    if not backend.ca_file or not backend.uses_tls:
        return None
    try:
        return Path(backend.ca_file).read_bytes()
    except OSError as error:
        raise InvalidDocument(f"cannot read the CA file: {error.strerror}", place=backend.ca_file) from error


def read_secret(secret: Secret | None) -> str:
    """The current value of a secret; raises InvalidDocument if it is missing or empty."""
    assert secret is not None
    if secret.env:
        value = os.environ.get(secret.env, "")
        place = f"environment variable {secret.env}"
    else:
        place = secret.file
        try:
            value = Path(secret.file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidDocument(f"cannot read the secret: {getattr(error, 'strerror', None) or error}", place=place) from error
    if not value:
        is_unset = secret.env and secret.env not in os.environ
        raise InvalidDocument("the secret is not set" if is_unset else "the secret is empty", place=place)
    return value


def referenced_files(spec: GatewaySpec) -> list[Path]:
    """Files that the document refers to; a change of one reloads it."""
    secrets = [key.secret for key in spec.keys]
    secrets += [backend.credential for model in spec.models for backend in model.backends]
    secrets.append(spec.admin.key if spec.admin is not None else None)
    files = [Path(secret.file) for secret in secrets if secret is not None and secret.file]
    files += [Path(backend.ca_file) for model in spec.models for backend in model.backends if backend.ca_file]
    if (tls := spec.listen.tls) is not None:
        files += [Path(file) for file in (tls.cert_file, tls.key_file, tls.client_ca_file) if file]
    return files


def read_document(path: Path) -> Gateway:
    """The only Gateway document of a file."""
    from sliceworks.base import yaml_documents
    from sliceworks.specs import documents

    gateways = [document for document in yaml_documents.load_path(path) if document.data.get("kind") == "Gateway"]
    if len(gateways) != 1:
        raise UsageError(f"{path}: expected one document of kind Gateway, found {len(gateways)}")
    return documents.read_as(gateways[0], Gateway)
