"""One request on its way through the API: who asks, for what, with which options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest
from sliceworks.schemas.field_errors import FieldError, forbidden, not_supported, refusal
from sliceworks.schemas.manager_names import manager_errors, manager_name
from sliceworks.twin.api.media import PLAIN, Form

if TYPE_CHECKING:
    from sliceworks.kube.transport import Request
    from sliceworks.twin.admission.context import Admission
    from sliceworks.twin.api.paths import Target
    from sliceworks.twin.api.resources import Resource, Version
    from sliceworks.twin.auth.identity import User

_FALSE = {"0", "f", "F", "FALSE", "false", "False", ""}


@dataclass(slots=True)
class Call:
    """A request to a resource, found and permitted."""

    request: Request
    target: Target
    user: User
    resource: Resource
    version: Version
    params: dict[str, list[str]]
    form: Form = PLAIN
    warnings: list[str] = field(default_factory=list)
    admission: Admission | None = None
    forget_owners: bool = False
    """Whether the object came with an empty list of owners, which asks to start that list anew."""
    namespace: str = field(init=False)
    name: str = field(init=False)
    api_version: str = field(init=False)

    def __post_init__(self) -> None:
        self.namespace = self.target.namespace if self.resource.namespaced else ""
        self.name = self.target.name
        self.api_version = self.resource.api_version(self.version.name)

    def param(self, name: str, default: str = "") -> str:
        values = self.params.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """A boolean option: anything is true that Go does not read as false."""
        return self.param(name) not in _FALSE

    def number(self, name: str) -> int | None:
        """A whole-number option."""
        text = self.param(name, "")
        if not text:
            return None
        try:
            number = int(text)
        except ValueError:
            raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
        if not -(1 << 63) <= number < 1 << 63:
            raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
        return number

    @property
    def dry_run(self) -> bool:
        return bool(self.params.get("dryRun"))

    @property
    def manager(self) -> str:
        """Who will own what this call changes: the fieldManager option, or the client's own name."""
        return manager_name(self.param("fieldManager"), self.request.headers.get("user-agent", ""))


def check_write_options(call: Call, kind: str, *, force_allowed: bool = True) -> None:
    """Refuse options that make no sense, as the real server words it."""
    errors: list[FieldError] = []
    dry = call.params.get("dryRun", [])
    if dry and set(dry) != {"All"}:
        errors.append(not_supported("dryRun", dry, ["All"]))
    validation = call.param("fieldValidation")
    if validation not in {"", "Ignore", "Strict", "Warn"}:
        errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    errors += manager_errors(call.param("fieldManager"))
    if not force_allowed and call.params.get("force"):
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise refusal("meta.k8s.io", kind, "", errors)
