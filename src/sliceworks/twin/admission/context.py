"""What a plugin is told about the request it looks at, and how it refuses one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.base.errors import Forbidden
    from sliceworks.twin.auth.identity import User

Obj = dict[str, Any]
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
_SUFFIX = 5


class Charge(NamedTuple):
    """What a ResourceQuota's `status.used` must become together with the write that is admitted."""

    namespace: str
    name: str
    used: dict[str, str]


@dataclass(slots=True)
class Admission:
    """One write on its way in. `resource` is `group/plural`; `get` and `find_all` give other objects, not to be changed."""

    user: User
    operation: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    get: Callable[[str, str, str], Mapping[str, Any] | None]
    find_all: Callable[[str, str], Iterable[Mapping[str, Any]]]
    warn: Callable[[str], None]
    charges: list[Charge] = field(default_factory=list)
    named: bool = False
    """Whether a generated name is settled: it is once the object has been validated."""

    def forbidden(self, obj: Mapping[str, Any] | None, why: str) -> Forbidden:
        """`pods "x" is forbidden: why`."""
        from sliceworks.twin.auth.rbac import refused

        group, _, plural = self.resource.rpartition("/")
        metadata = (obj or {}).get("metadata") or {}
        name = self.name or (metadata.get("name", "") if self.named else shown_name(metadata))
        return refused(group, plural, name, why)


def shown_name(metadata: Mapping[str, Any]) -> str:
    """The name in a refusal: a name that was only just generated is not known yet, its prefix is."""
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if prefix and (not name or (name.startswith(prefix) and len(name) == len(prefix) + _SUFFIX)):
        return str(prefix)
    return str(name or "Unknown")
