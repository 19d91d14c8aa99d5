"""One request: what its path addresses, its options, and the errors that all verbs share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sliceworks.base.errors import AlreadyExists, BadRequest, Conflict, Forbidden, MethodNotAllowed, NotFound
from sliceworks.base.names import path_segment_errors
from sliceworks.kube.field_selectors import parse_fields
from sliceworks.schemas.field_errors import FieldError, forbidden, new_invalid, not_supported
from sliceworks.twin.apiserver.codec import PLAIN, MediaTypeOptions
from sliceworks.twin.apiserver.fieldmanager.managed_fields import manager_errors, manager_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.transport import Request
    from sliceworks.twin.apiserver.admission.chain import Admission
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.apiserver.registry.resources import Resource, Version

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SELECTING = ("list", "watch")
_NAMESPACE_SUBRESOURCES = {"status", "finalize"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False", ""}
OBJECT_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a request addresses. Non-resource requests have only `verb` and `path`, which is decoded."""

    verb: str
    path: str
    resource: str = ""
    group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    deeper: bool = False
    """Whether the path continues after the subresource, as for a proxy."""


def parse_request_info(method: str, path: str, *, watch: bool = False) -> RequestInfo:
    """Parse a path as kube-apiserver does: an encoded slash separates segments too, since a backend may read it as one."""
    verb = _VERBS.get(method, method.lower())
    path = unquote(path) if "%" in path else path
    parts = path.strip("/").split("/")
    if path.startswith("//"):
        return RequestInfo(verb, path)
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path)
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    if legacy_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    if verb == "get" and (legacy_watch or not name):
        verb = "watch" if watch or legacy_watch else "list"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return RequestInfo(verb, path, resource, group, version, subresource, namespace, name, len(rest) > 3)


def selected_name(target: RequestInfo, params: Mapping[str, list[str]]) -> str:
    """The name for which a list or watch needs permission: that of its field selector, if it selects one name."""
    if target.verb not in _SELECTING or "fieldSelector" not in params:
        return target.name
    try:
        terms = parse_fields(params["fieldSelector"][0]).terms
    except BadRequest:
        return target.name
    selected = next((term.value for term in terms if term.equal and term.field == "metadata.name"), "")
    return target.name or ("" if path_segment_errors(selected) else selected)


@dataclass(slots=True)
class Call:
    """An authorized request to a served resource."""

    request: Request
    target: RequestInfo
    user: User
    resource: Resource
    version: Version
    params: dict[str, list[str]]
    form: MediaTypeOptions = PLAIN
    warnings: list[str] = field(default_factory=list)
    admission: Admission | None = None
    delete_options: Mapping[str, object] | None = None
    """The body of a deletion."""
    body_admitted: bool = False
    """Whether webhooks have already been called, with a body of another kind than the resource."""
    reset_managed_fields: bool = False
    """Whether the object came with an empty `managedFields`, which resets it."""
    namespace: str = field(init=False)
    name: str = field(init=False)
    api_version: str = field(init=False)

    def __post_init__(self) -> None:
        self.namespace = self.target.namespace if self.resource.namespaced else ""
        self.name = self.target.name
        self.api_version = self.resource.api_version(self.version.name)

    def param(self, name: str) -> str:
        values = self.params.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """A boolean option: every value is true that Go does not parse as false."""
        return self.param(name) not in _FALSE

    def number(self, name: str) -> int | None:
        """An integer option; None if it is not set."""
        value = self.param(name)
        if not value:
            return None
        try:
            number = int(value)
        except ValueError:
            raise BadRequest(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None
        if not -(1 << 63) <= number < 1 << 63:
            raise BadRequest(f'strconv.ParseInt: parsing "{value}": value out of range')
        return number

    @property
    def dry_run(self) -> bool:
        return bool(self.params.get("dryRun"))

    @property
    def manager(self) -> str:
        """The field manager of the change: the fieldManager option, or the name of the client."""
        return manager_name(self.param("fieldManager"), self.request.headers.get("user-agent", ""))


class ObjectModified(Conflict):
    """The stored object changed while webhooks were called: the write starts again."""


def object_modified(call: Call) -> ObjectModified:
    error = conflict(call, call.name, OBJECT_MODIFIED)
    return ObjectModified(error.message, details=error.details)


def check_write_options(call: Call, kind: str, *, force_allowed: bool = True) -> None:
    """Raise Invalid for bad options of a create, update or patch."""
    errors: list[FieldError] = []
    dry_run = call.params.get("dryRun", [])
    if dry_run and set(dry_run) != {"All"}:
        errors.append(not_supported("dryRun", dry_run, ["All"]))
    validation = call.param("fieldValidation")
    if validation not in {"", "Ignore", "Strict", "Warn"}:
        errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    errors += manager_errors(call.param("fieldManager"))
    if not force_allowed and call.params.get("force"):
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise new_invalid("meta.k8s.io", kind, "", errors)


def check_list_options(call: Call, *, watch: bool) -> None:
    """Raise Invalid for a bad combination of resourceVersion, resourceVersionMatch, continue and sendInitialEvents."""
    version, match, token = call.param("resourceVersion"), call.param("resourceVersionMatch"), call.param("continue")
    initial = call.params.get("sendInitialEvents")
    errors: list[FieldError] = []
    if initial and not watch:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match:
        if watch and not initial:
            errors.append(
                forbidden(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        elif not watch and not version:
            errors.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if token:
            errors.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
        allowed = ["NotOlderThan"] if watch else ["Exact", "NotOlderThan"]
        if match not in allowed:
            errors.append(not_supported("resourceVersionMatch", match, [*allowed, *([] if watch else [""])]))
        if match == "Exact" and version == "0":
            errors.append(forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    elif watch and initial:
        errors.append(forbidden("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if errors:
        raise new_invalid("meta.k8s.io", "ListOptions", "", errors)


def revision_param(call: Call) -> int:
    """The resourceVersion option as a number; 0 if it is not set."""
    value = call.param("resourceVersion")
    if not value:
        return 0
    if not value.isascii() or not value.isdigit():
        problem = f'strconv.ParseUint: parsing "{value}": invalid syntax'
        prefix = "invalid resource version: " if call.target.verb == "list" else ""
        raise BadRequest(f'{prefix}resourceVersion: Invalid value: "{value}": {problem}')
    if int(value) >= 1 << 64:
        problem = f'strconv.ParseUint: parsing "{value}": value out of range'
        raise BadRequest(f'invalid resource version: resourceVersion: Invalid value: "{value}": {problem}')
    return int(value)


def container_name(call: Call, pod: dict[str, Any]) -> str:
    """The requested container, the annotated default, or the only one; raises BadRequest."""
    spec = pod["spec"]
    fields = ("containers", "initContainers", "ephemeralContainers")
    all_names = [container["name"] for field in fields for container in spec.get(field) or ()]
    requested = call.param("container")
    if not requested:
        names = [container["name"] for container in spec.get("containers") or ()]
        if len(all_names) == 1:
            return str(names[0])
        default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
        if default in all_names:
            return str(default)
        inits = [container["name"] for container in spec.get("initContainers") or ()]
        message = f"a container name must be specified for pod {call.name}, choose one of: [{' '.join(names)}]"
        raise BadRequest(message + (f" or one of the init containers: [{' '.join(inits)}]" if inits else ""))
    if requested not in all_names:
        raise BadRequest(f"container {requested} is not valid for pod {call.name}")
    return requested


def unknown_path() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def method_not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def not_found(call: Call, name: str = "") -> NotFound:
    name = name or call.name
    return NotFound(f'{call.resource.qualified} "{name}" not found', details=_details(call, name))


def conflict(call: Call, name: str, reason: str) -> Conflict:
    message = f'Operation cannot be fulfilled on {call.resource.qualified} "{name}": {reason}'
    return Conflict(message, details=_details(call, name))


def kind_is_terminating(call: Call, name: str) -> Forbidden:
    """A custom resource whose definition is being deleted."""
    reason = "create not allowed while custom resource definition is terminating"
    return Forbidden(f'{call.resource.qualified} "{name}" is forbidden: {reason}', details=_details(call, name))


def already_exists(call: Call, name: str) -> AlreadyExists:
    return AlreadyExists(f'{call.resource.qualified} "{name}" already exists', details=_details(call, name))


def uid_differs(precondition: str, actual: str) -> str:
    return f"Precondition failed: UID in precondition: {precondition}, UID in object meta: {actual}"


def _details(call: Call, name: str) -> dict[str, str]:
    details = {"name": name, "group": call.resource.group, "kind": call.resource.plural}
    return {key: value for key, value in details.items() if value}
