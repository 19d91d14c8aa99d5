"""Authentication: which user a request's bearer token or client certificate stands for."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.base.errors import Unauthorized
from sliceworks.twin.auth.identity import ANONYMOUS, AUTHENTICATED, User, service_account
from sliceworks.twin.auth.rules import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.twin.auth.jwt import Issuer

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

_LEEWAY = 60.0
_REMEMBERED = 4096


class Refused(Exception):
    """A token that is not good: why, for a TokenReview. Nobody else is told."""


class Verified(NamedTuple):
    """A good token: its user, and those of the audiences asked for that it is meant for."""

    user: User
    audiences: tuple[str, ...]


class Authenticator:
    """Knows the fixed tokens and verifies service-account tokens.

    `get(resource, namespace, name)` reads an object of a `group/plural`: a token ends with the account, pod or secret it is bound
    to.
    """

    def __init__(self, tokens: Mapping[str, User], issuer: Issuer, get: Get) -> None:
        # Looked up by digest: how long a look-up takes says nothing about the token.
        self._fixed = {_digest(token): user for token, user in tokens.items()}
        self._issuer = issuer
        self._get = get
        self._claims: dict[bytes, dict[str, Any]] = {}

    @property
    def audiences(self) -> tuple[str, ...]:
        """What a token must be meant for to be good here."""
        return (self._issuer.name,)

    def authenticate(self, headers: Mapping[str, str], certificate: User | None = None) -> User:
        """The user of a request: by its client certificate, else by its bearer token, else nobody in particular."""
        if certificate is not None:
            return certificate
        scheme, _, token = headers.get("authorization", "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        user = self._fixed.get(_digest(token))
        if user is not None:
            return user
        try:
            return self.verify(token).user
        except Refused as error:
            raise Unauthorized("Unauthorized") from error

    def verify(self, token: str, audiences: Sequence[str] = ()) -> Verified:
        """Check a token for these audiences (the server's own when none are given); raises Refused."""
        digest = _digest(token)
        wanted = tuple(audiences) or self.audiences
        fixed = self._fixed.get(digest)
        if fixed is not None:
            meant = tuple(audience for audience in self.audiences if audience in wanted)
            if not meant:
                raise Refused("invalid bearer token")
            return Verified(fixed, meant)
        claims = self._read(token, digest)
        aimed = tuple(claims.get("aud") or ())
        meant = tuple(audience for audience in aimed if audience in wanted)
        if not meant:
            raise _refused(f"token audiences {listed(aimed)} is invalid for the target audiences {listed(wanted)}")
        self._check_times(claims)
        return Verified(self._bound_user(claims), meant)

    def _read(self, token: str, digest: bytes) -> dict[str, Any]:
        claims = self._claims.get(digest)
        if claims is None:
            claims = self._issuer.read(token)
            if claims is None:
                raise Refused("invalid bearer token")
            if len(self._claims) >= _REMEMBERED:
                self._claims.clear()
            self._claims[digest] = claims
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = clock.now().timestamp()
        if now - _LEEWAY > claims.get("exp", 0):
            raise _refused("service account token has expired")
        if now + _LEEWAY < claims.get("nbf", 0):
            raise _refused("service account token is not valid yet")

    def _bound_user(self, claims: Mapping[str, Any]) -> User:
        private = claims.get("kubernetes.io") or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        name, uid = account.get("name", ""), account.get("uid", "")
        found = self._get("/serviceaccounts", namespace, name)
        if found is None:
            raise _refused(f'serviceaccounts "{name}" not found')
        if found["metadata"].get("uid", "") != uid:
            raise _refused(f"service account UID ({found['metadata'].get('uid', '')}) does not match claim ({uid})")
        if _deleted(found):
            raise _refused(f"service account {namespace}/{name} has been deleted")
        self._check_bound(private, namespace)
        return service_account(namespace, name, uid, _extra(claims, private))

    def _check_bound(self, private: Mapping[str, Any], namespace: str) -> None:
        for kind, resource, home in (
            ("secret", "/secrets", namespace),
            ("pod", "/pods", namespace),
            ("node", "/nodes", ""),
        ):
            claim = private.get(kind)
            # A pod's token names the node it runs on, but is not bound to it.
            if claim is None or (kind == "node" and "pod" in private):
                continue
            found = self._get(resource, home, claim.get("name", ""))
            if found is None or _deleted(found):
                raise _refused("service account token has been invalidated")
            if found["metadata"].get("uid", "") != claim.get("uid", ""):
                seen = found["metadata"].get("uid", "")
                raise _refused(f"{kind} UID ({seen}) does not match service account {kind} ref claim ({claim.get('uid', '')})")


def new_token() -> str:
    """A random token, for a static user."""
    return token_urlsafe(32)


def administrator() -> User:
    """Who the twin's own kubeconfig logs in as."""
    return User("kubernetes-admin", groups=("system:masters", AUTHENTICATED))


def _extra(claims: Mapping[str, Any], private: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    if claims.get("jti"):
        extra["authentication.kubernetes.io/credential-id"] = (f"JTI={claims['jti']}",)
    for kind in ("pod", "node"):
        for key in ("name", "uid"):
            if value := (private.get(kind) or {}).get(key):
                extra[f"authentication.kubernetes.io/{kind}-{key}"] = (value,)
    return extra


def _deleted(obj: Mapping[str, Any]) -> bool:
    since = obj["metadata"].get("deletionTimestamp")
    return bool(since) and datetime.fromisoformat(since).timestamp() < clock.now().timestamp() - _LEEWAY


def _refused(why: str) -> Refused:
    return Refused(f"[invalid bearer token, {why}]")


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
