"""Who asks: keys are known by their digests alone, and compared in a time that tells nothing."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from sliceworks.serving.gateway.quotas import Quota
from sliceworks.serving.gateway.refusals import no_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.specs.gateway import Key

_PREFIX = "sw-"
_LONGEST = 512
_SHELF = 2


class Caller:
    """Someone with a key."""

    def __init__(self, name: str, models: Iterable[str], quota: Quota) -> None:
        self.name, self.models, self.quota = name, tuple(models), quota
        self._exact = frozenset(each for each in models if not each.endswith("*"))
        self._starts = tuple(each[:-1] for each in models if each.endswith("*"))

    def may(self, model: str) -> bool:
        """Whether it may ask for a model."""
        return model in self._exact or model.startswith(self._starts)


class Keys:
    """All callers, by the digests of their keys."""

    def __init__(self, callers: Mapping[bytes, Caller], anonymous: Caller | None) -> None:
        self._anonymous = anonymous
        self._names = {caller.name: caller for caller in callers.values()}
        self._shelves: dict[bytes, list[tuple[bytes, Caller]]] = {}
        for digest, caller in callers.items():
            self._shelves.setdefault(digest[:_SHELF], []).append((digest, caller))

    def find(self, headers: Mapping[str, str]) -> Caller:
        """Who sent these headers; raises the Refusal. Where there are keys a wrong one is refused although nobody needs one."""
        key = sent_key(headers)
        if self._anonymous is not None and (not key or not self._shelves):
            return self._anonymous
        digest = digest_of(key)
        # Which shelf is looked at tells of a digest at most, and nobody can steer that.
        for known, caller in self._shelves.get(digest[:_SHELF], ()):
            if hmac.compare_digest(known, digest):
                return caller
        raise no_key()

    def named(self, name: str) -> Caller | None:
        """Who has this name."""
        return self._names.get(name)


def sent_key(headers: Mapping[str, str]) -> str:
    """The key of a request: a bearer token, or the headers that some clients have instead."""
    text = headers.get("authorization", "")
    if text[:7].lower() == "bearer ":
        return text[7:].strip()[:_LONGEST]
    return (headers.get("x-api-key") or headers.get("api-key") or "").strip()[:_LONGEST]


def digest_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def new_key() -> tuple[str, str]:
    """A fresh key, and the digest that goes into the document."""
    key = _PREFIX + secrets.token_urlsafe(32)
    return key, digest_of(key).hex()


def caller_of(key: Key, known: Keys | None = None) -> Caller:
    """The caller that a document describes; one that had the same rate before goes on with what it has left."""
    before = known.named(key.name) if known is not None else None
    quota = before.quota if before is not None and before.quota.rate == key.rate else Quota(key.rate, f"the key {key.name}")
    return Caller(key.name, key.models, quota)
