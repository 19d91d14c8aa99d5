"""Acting as somebody else: the Impersonate headers, checked against the `impersonate` verb.

A header that came several times has its values joined by a line feed, which no header value can hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from sliceworks.base.errors import BadRequest
from sliceworks.twin.auth.identity import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    service_account_groups,
    split_service_account,
)
from sliceworks.twin.auth.rules import Attributes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.auth.rbac import Rbac

_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"


def impersonated(rbac: Rbac, user: User, headers: Mapping[str, str]) -> User:
    """The user that a request acts as: its own, unless headers name another and it may. Raises BadRequest or Forbidden."""
    name = headers.get("impersonate-user", "")
    groups = _values(headers.get("impersonate-group"))
    extra = {unquote(key[len(_EXTRA) :].lower()): _values(value) for key, value in headers.items() if key.startswith(_EXTRA)}
    uid = headers.get("impersonate-uid", "")
    if not name:
        if groups or extra or uid:
            raise BadRequest(f"requested [{_shown(groups, extra, uid)}] without impersonating a user")
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
    own = groups or (service_account_groups(account[0]) if account else ())
    return User(name, uid, _completed(name, own), extra)


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups with the one that says whether the user was authenticated."""
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups or UNAUTHENTICATED in groups else (*groups, AUTHENTICATED)


def _values(header: str | None) -> tuple[str, ...]:
    return tuple(header.split("\n")) if header else ()


def _shown(groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]], uid: str) -> str:
    """What was asked for, as kube-apiserver prints its references."""
    parts = [f"{{Group  {group}    }}" for group in groups]
    parts += [f"{{UserExtra  {value}  {_GROUP}/v1  {key}}}" for key, values in extra.items() for value in values]
    parts += [f"{{UID  {uid}  {_GROUP}/v1  }}"] if uid else []
    return " ".join(parts)
