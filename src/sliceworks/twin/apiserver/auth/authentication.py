"""The user of a request: client certificate, bearer token, impersonation headers."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, Unauthorized
from sliceworks.twin.apiserver.auth.rbac import Attributes, format_go_list
from sliceworks.twin.apiserver.auth.service_account_token import LEGACY_ISSUER, LEGACY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.twin.apiserver.auth.rbac import Rbac
    from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_LEEWAY = 60.0
_MAX_CACHED_TOKENS = 4096
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        """Whether the user is in system:masters, which RBAC always allows."""
        return MASTERS in self.groups

    @property
    def flow_priority(self) -> int:
        """How many requests of the user are handled per round: most for the system, then controllers, then other users."""
        if self.is_master or self.name.startswith("system:node:") or self.name in {"system:kube-scheduler", "system:apiserver"}:
            return 4
        return 2 if self.name.startswith((_SERVICE_ACCOUNT, "system:kube-controller-manager")) else 1

    def info(self) -> dict[str, Any]:
        """The `UserInfo` of the authentication API, without empty fields."""
        info: dict[str, Any] = {"username": self.name} if self.name else {}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return info


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))


def service_account(namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None) -> User:
    """The user of a service account."""
    return User(f"{_SERVICE_ACCOUNT}{namespace}:{name}", uid, (*service_account_groups(namespace), AUTHENTICATED), extra or {})


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account with this user name; None for other users."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, colon, name = user[len(_SERVICE_ACCOUNT) :].partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None


class InvalidToken(Exception):
    """An invalid token. Only a TokenReview returns the reason."""


class Verified(NamedTuple):
    """A valid token: its user, and the requested audiences that it has."""

    user: User
    audiences: tuple[str, ...]


class Authenticator:
    """Authenticates static tokens and service account tokens.

    `get(resource, namespace, name)` reads an object of a `group/plural`: a token is invalid once the account, pod or secret that
    it is bound to is deleted.
    """

    def __init__(self, tokens: Mapping[str, User], issuer: TokenIssuer, get: Get) -> None:
        # Keys are digests: the time of a lookup reveals nothing about a token.
        self._static = {_digest(token): user for token, user in tokens.items()}
        self._issuer = issuer
        self._get = get
        self._claims: dict[bytes, dict[str, Any]] = {}

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of this API server."""
        return (self._issuer.name,)

    def authenticate(self, headers: Mapping[str, str], certificate: User | None = None) -> User:
        """The user of a request: by its client certificate, else by its bearer token, else the anonymous user."""
        if certificate is not None:
            return certificate
        scheme, _, token = headers.get("authorization", "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        user = self._static.get(_digest(token))
        if user is not None:
            return user
        try:
            return self.verify(token).user
        except InvalidToken as error:
            raise Unauthorized("Unauthorized") from error

    def verify(self, token: str, audiences: Sequence[str] = ()) -> Verified:
        """Verify a token for these audiences, by default the server's own; raises InvalidToken."""
        digest = _digest(token)
        targets = tuple(audiences) or self.audiences
        static_user = self._static.get(digest)
        if static_user is not None:
            matching = tuple(audience for audience in self.audiences if audience in targets)
            if not matching:
                raise InvalidToken("invalid bearer token")
            return Verified(static_user, matching)
        claims = self._read(token, digest)
        is_legacy = claims["iss"] == LEGACY_ISSUER
        own = self.audiences if is_legacy else tuple(claims.get("aud") or ())
        matching = tuple(audience for audience in own if audience in targets)
        if not matching:
            raise _invalid(f"token audiences {format_go_list(own)} is invalid for the target audiences {format_go_list(targets)}")
        if is_legacy:
            return Verified(self._legacy_user(claims, token), matching)
        self._check_times(claims)
        return Verified(self._bound_user(claims), matching)

    def _read(self, token: str, digest: bytes) -> dict[str, Any]:
        claims = self._claims.get(digest)
        if claims is None:
            claims = self._issuer.read(token)
            if claims is None:
                raise InvalidToken("invalid bearer token")
            if len(self._claims) >= _MAX_CACHED_TOKENS:
                self._claims.clear()
            self._claims[digest] = claims
        return claims

    def _legacy_user(self, claims: Mapping[str, Any], token: str) -> User:
        """The user of a token in a Secret, which is valid as long as the Secret contains it."""
        keys = ("namespace", "secret.name", "service-account.name", "service-account.uid")
        namespace, secret_name, name, uid = (str(claims.get(LEGACY_PREFIX + key) or "") for key in keys)
        secret = self._get("/secrets", namespace, secret_name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            raise _invalid("Token has been invalidated")
        if (secret.get("data") or {}).get("token") != b64encode(token.encode()).decode():
            raise _invalid("Token does not match server's copy")
        account = self._get("/serviceaccounts", namespace, name)
        if account is None:
            raise _invalid(f'serviceaccounts "{name}" not found')
        if account["metadata"].get("deletionTimestamp"):
            raise _invalid(f"ServiceAccount {namespace}/{name} has been deleted")
        if account["metadata"].get("uid", "") != uid:
            raise _invalid(f"ServiceAccount UID ({account['metadata'].get('uid', '')}) does not match claim ({uid})")
        return service_account(namespace, name, uid, {})

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = clock.now().timestamp()
        if now - _LEEWAY > claims.get("exp", 0):
            raise _invalid("service account token has expired")
        if now + _LEEWAY < claims.get("nbf", 0):
            raise _invalid("service account token is not valid yet")

    def _bound_user(self, claims: Mapping[str, Any]) -> User:
        private = claims.get("kubernetes.io") or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        name, uid = account.get("name", ""), account.get("uid", "")
        obj = self._get("/serviceaccounts", namespace, name)
        if obj is None:
            raise _invalid(f'serviceaccounts "{name}" not found')
        if obj["metadata"].get("uid", "") != uid:
            raise _invalid(f"service account UID ({obj['metadata'].get('uid', '')}) does not match claim ({uid})")
        if _is_deleted(obj):
            raise _invalid(f"service account {namespace}/{name} has been deleted")
        self._check_bound(private, namespace)
        return service_account(namespace, name, uid, _extra(claims, private))

    def _check_bound(self, private: Mapping[str, Any], namespace: str) -> None:
        for kind, resource, scope in (
            ("secret", "/secrets", namespace),
            ("pod", "/pods", namespace),
            ("node", "/nodes", ""),
        ):
            claim = private.get(kind)
            # The token of a pod names its node, but is not bound to it.
            if claim is None or (kind == "node" and "pod" in private):
                continue
            obj = self._get(resource, scope, claim.get("name", ""))
            if obj is None or _is_deleted(obj):
                raise _invalid("service account token has been invalidated")
            if obj["metadata"].get("uid", "") != claim.get("uid", ""):
                uid = obj["metadata"].get("uid", "")
                raise _invalid(f"{kind} UID ({uid}) does not match service account {kind} ref claim ({claim.get('uid', '')})")


def new_token() -> str:
    """A random static token."""
    return token_urlsafe(32)


def administrator() -> User:
    """The user of the twin's kubeconfig."""
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


def _is_deleted(obj: Mapping[str, Any]) -> bool:
    since = obj["metadata"].get("deletionTimestamp")
    return bool(since) and datetime.fromisoformat(since).timestamp() < clock.now().timestamp() - _LEEWAY


def _invalid(reason: str) -> InvalidToken:
    return InvalidToken(f"[invalid bearer token, {reason}]")


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def impersonate(rbac: Rbac, user: User, headers: Mapping[str, str]) -> User:
    """The user that a request impersonates, or its own. Raises BadRequest or Forbidden."""
    name = headers.get("impersonate-user", "")
    groups = _values(headers.get("impersonate-group"))
    extra = {unquote(key[len(_EXTRA) :].lower()): _values(value) for key, value in headers.items() if key.startswith(_EXTRA)}
    uid = headers.get("impersonate-uid", "")
    if not name:
        if groups or extra or uid:
            raise BadRequest(f"requested [{_references(groups, extra, uid)}] without impersonating a user")
        return user
    account = split_service_account(name)
    if account:
        rbac.require(Attributes(user, "impersonate", "", "v1", "serviceaccounts", "", account[0], account[1]))
    else:
        rbac.require(Attributes(user, "impersonate", "", "v1", "users", "", "", name))
    for group in groups:
        rbac.require(Attributes(user, "impersonate", "", "v1", "groups", "", "", group))
    for key, values in extra.items():
        for value in values:
            rbac.require(Attributes(user, "impersonate", _GROUP, "v1", "userextras", key, "", value))
    if uid:
        rbac.require(Attributes(user, "impersonate", _GROUP, "v1", "uids", "", "", uid))
    all_groups = groups or (service_account_groups(account[0]) if account else ())
    return User(name, uid, _add_authenticated(name, all_groups), extra)


def _add_authenticated(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups with system:authenticated or system:unauthenticated."""
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups or UNAUTHENTICATED in groups else (*groups, AUTHENTICATED)


def _values(header: str | None) -> tuple[str, ...]:
    return tuple(header.split("\n")) if header else ()


def _references(groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]], uid: str) -> str:
    """The impersonated attributes, as kube-apiserver prints object references."""
    parts = [f"{{Group  {group}    }}" for group in groups]
    parts += [f"{{UserExtra  {value}  {_GROUP}/v1  {key}}}" for key, values in extra.items() for value in values]
    parts += [f"{{UID  {uid}  {_GROUP}/v1  }}"] if uid else []
    return " ".join(parts)
