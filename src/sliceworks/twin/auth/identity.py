"""Who a request comes from, once its credentials have been checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """A user, as authorization and admission see one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        """Members of system:masters may do anything, whatever the roles say."""
        return MASTERS in self.groups

    def info(self) -> dict[str, Any]:
        """The `UserInfo` of the authentication API: empty fields are left out."""
        found: dict[str, Any] = {"username": self.name} if self.name else {}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return found


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))


def service_account(namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None) -> User:
    """The user a service account is."""
    return User(f"{_SERVICE_ACCOUNT}{namespace}:{name}", uid, (*service_account_groups(namespace), AUTHENTICATED), extra or {})


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account this user name stands for, if it stands for one."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, colon, name = user[len(_SERVICE_ACCOUNT) :].partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None
