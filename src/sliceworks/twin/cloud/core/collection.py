"""A collection of resources of one type: the standard methods, IAM policies, pagination and preconditions."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.names import to_camel_case
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.exceptions import (
    GoogleError,
    already_exists,
    condition_not_met,
    invalid_argument,
    not_found,
    refuse,
)
from sliceworks.twin.cloud.core.iam_policy import IamPolicies
from sliceworks.twin.cloud.core.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.twin.cloud.core.operations import ResponseStyle
    from sliceworks.twin.store.store import Store
Obj = dict[str, Any]
_PAGE_SIZE_FIELDS = ("maxResults", "pageSize")
_DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE = 500, 1000
_ABSENT_GENERATION = "0"


def paginate(call: Call, documents: Iterable[Document], *, default_size: int = _DEFAULT_PAGE_SIZE) -> tuple[list[Document], Obj]:
    """Return the requested page of documents, which are sorted by name, and `nextPageToken` if more follow.

    The token holds the last name of the page, so creations and deletions between two pages skip or repeat nothing.
    """
    after = _parse_page_token(call.query.get("pageToken", ""))
    size = page_size(call, default_size)
    remaining = (document for document in documents if not after or document.name > after)
    page = list(islice(remaining, size + 1))
    has_more = len(page) > size
    return page[:size], {"nextPageToken": _page_token(page[size - 1].name)} if has_more else {}


def page_size(call: Call, default_size: int = _DEFAULT_PAGE_SIZE) -> int:
    """The maximum number of items of a page."""
    value = next((call.query[key] for key in _PAGE_SIZE_FIELDS if call.query.get(key)), "")
    if not value:
        return default_size
    if not value.isdigit():
        raise invalid_argument(f"Invalid page size: '{value}'. It must be a whole number.")
    return min(int(value), _MAX_PAGE_SIZE) or default_size


def _page_token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _parse_page_token(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode() if token else ""
    except (binascii.Error, UnicodeError) as error:
        raise invalid_argument(f"Invalid value for field 'pageToken': '{token}'.") from error


def check_preconditions(call: Call, generation: str | None, metageneration: str) -> None:
    """Raise 412 unless `ifGenerationMatch` and its siblings hold; a missing resource has generation 0."""
    for name, current in (("Generation", generation), ("Metageneration", metageneration)):
        if current is None:
            continue
        match, not_match = _parse_number(call, f"if{name}Match"), _parse_number(call, f"if{name}NotMatch")
        if match not in (None, current) or (not_match is not None and not_match == current):
            raise condition_not_met()


def check_etag(call: Call, etag: str) -> None:
    """Raise 412 unless the `If-Match` header holds."""
    expected = call.headers.get("if-match", "").strip()
    if expected and expected not in ("*", etag, f'"{etag}"'):
        raise condition_not_met("Precondition check failed.")


def check_absent(call: Call) -> None:
    """Raise 412 if a precondition expects the resource to exist."""
    check_preconditions(call, _ABSENT_GENERATION, _ABSENT_GENERATION)


def _parse_number(call: Call, field: str) -> str | None:
    value = call.query.get(field)
    if value is None:
        return None
    if not value.isdigit():
        raise invalid_argument(f"Invalid value for field '{field}': '{value}'. It must be a whole number.")
    return str(int(value))


def name_from_body(call: Call) -> str:
    """The last segment of the body's `name`."""
    return str(call.body.get("name") or "").rpartition("/")[2]


def name_from_query(*keys: str) -> Callable[[Call], str]:
    """The name in the first query parameter that is set."""
    return lambda call: next((call.query[key] for key in keys if call.query.get(key)), "")


def name_from_path(key: str) -> Callable[[Call], str]:
    """The name in the path, for resources that are created with PUT."""
    return lambda call: call.params.get(key, "")


def with_name_and_times(defaults: Callable[[Call, str], Obj] = lambda call, path: {}, *, has_update_time: bool = True) -> Any:
    """Return a `fill` that sets `name`, `createTime` and `updateTime`; the body overrides `defaults(call, path)`."""

    def fill(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
        created = (before or {}).get("createTime") or clock.timestamp()
        updated = {"updateTime": clock.timestamp()} if has_update_time else {}
        return {**defaults(call, path), **body, "name": path, "createTime": created, **updated}

    return fill


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A type of resource as a row of data: its paths, messages and permissions, and the hooks that make it differ."""

    plural: str
    parent: str
    """The path above the collection, such as `projects/{project}/global`."""
    message: str
    permissions: str
    """The prefix of permissions, such as `compute.networks`."""
    list_key: str = ""
    """The field of a list response that holds the items; the plural by default."""
    get_name: Callable[[Call], str] = name_from_body
    fill: Callable[[Call, str, Obj, Obj | None], Obj] = lambda call, path, body, before: body
    """Takes the call, resource path, body and previous body; returns the stored resource or raises GoogleError."""
    exists: str = ""
    """The rule that a second resource of the same name breaks, if it has its own words."""
    create: str = "POST"
    update: str = "PATCH"
    update_request: str = ""
    """The message of an update request that wraps the resource and its update mask, such as `UpdateTopicRequest`."""
    update_field: str = ""
    """The field of `update_request` that holds the resource."""
    check_delete: Callable[[str], GoogleError | None] = lambda path: None
    """Takes a resource path; returns the error that prevents its deletion."""
    on_delete: Callable[[str], None] = lambda path: None
    has_update_mask: bool = False
    """Whether an update names the fields to change in `updateMask`."""
    update_is_direct: bool = False
    """Whether an update returns the resource although create and delete return operations."""
    has_policy: bool = False
    """Whether resources have getIamPolicy and setIamPolicy."""
    get_policy_method: str = "GET"


class Collection:
    """The resources of one type in the twin's store."""

    def __init__(self, store: Store, service: str, resource: ResourceType, style: ResponseStyle) -> None:
        self.resource = resource
        self._style = style
        self._table = Table(store, f"{service}/{resource.plural}", resource.message)
        self._policies = IamPolicies(store, service)

    def routes(self) -> Iterator[Route]:
        """The standard methods, and those of IAM policies."""
        resource, plural, permissions = self.resource, self.resource.plural, self.resource.permissions
        collection = f"{resource.parent}/{plural}".lstrip("/")
        item = f"{collection}/{{{plural}}}"
        created = collection if resource.create == "POST" else item
        yield Route("GET", collection, f"{plural}.list", self.find_all, f"{permissions}.list")
        yield Route(resource.create, created, f"{plural}.create", self.create, f"{permissions}.create", resource.message)
        yield Route("GET", item, f"{plural}.get", self.get, f"{permissions}.get")
        yield Route("DELETE", item, f"{plural}.delete", self.delete, f"{permissions}.delete")
        if resource.update:
            request = resource.update_request or resource.message
            yield Route(resource.update, item, f"{plural}.update", self.update, f"{permissions}.update", request)
        if resource.has_policy:
            get, put = f"{plural}.getIamPolicy", f"{plural}.setIamPolicy"
            yield Route(resource.get_policy_method, f"{item}:getIamPolicy", get, self._get_policy, f"{permissions}.getIamPolicy")
            yield Route("POST", f"{item}:setIamPolicy", put, self._set_policy, f"{permissions}.setIamPolicy", "SetIamPolicyRequest")

    def parent(self, call: Call) -> str:
        """The path above the collection of a call."""
        return self.resource.parent.format_map(call.params)

    def path(self, call: Call) -> str:
        """The path of the resource that a call names."""
        return self._path(self.parent(call), call.params[self.resource.plural])

    def _path(self, parent: str, name: str) -> str:
        return f"{parent}/{self.resource.plural}/{name}".lstrip("/")

    def create(self, call: Call) -> Obj:
        """Create a resource."""
        name, parent = self.resource.get_name(call), self.parent(call)
        if not name:
            raise GoogleError("INVALID_ARGUMENT", f"Invalid value for field '{self.resource.message}.name': ''. Must be set.")
        path = self._path(parent, name)
        if self._table.get(parent, name) is not None:
            raise refuse(self.resource.exists) if self.resource.exists else already_exists(path)
        body = self.resource.fill(call, path, dict(call.body), None)
        self._table.put(Document(parent, name, body))
        return self._style.respond(call, path, body, "insert")

    def get(self, call: Call) -> Obj:
        """Return a resource."""
        return self.get_document(call).body

    def find_all(self, call: Call) -> Obj:
        """List the resources of a parent."""
        page, token = paginate(call, self._table.all(self.parent(call)))
        items = {self.resource.list_key or self.resource.plural: [document.body for document in page]} if page else {}
        return {**self._style.list_fields(self.resource.plural), **items, **token}

    def update(self, call: Call) -> Obj:
        """Change some fields of a resource, or replace it where the method is PUT."""
        document = self.get_document(call)
        before, change, mask = document.body, dict(call.body), call.query.get("updateMask", "")
        if self.resource.update_request:
            change, mask = call.body.get(self.resource.update_field) or {}, str(call.body.get("updateMask") or mask)
            if not mask:
                raise invalid_argument("The update_mask in the request must be set, and must contain a valid field.")
        if self.resource.has_update_mask and mask:
            change = _apply_mask(change, mask)
        if self.resource.update != "PUT":
            change = {key: value for key, value in {**before, **change}.items() if value is not None}
        document.body = self.resource.fill(call, self.path(call), change, before)
        self._table.put(document)
        if self.resource.update_is_direct:
            return document.body
        return self._style.respond(call, self.path(call), document.body, "patch")

    def delete(self, call: Call) -> Obj:
        """Delete a resource that no other resource uses, and its IAM policy."""
        document, path = self.get_document(call), self.path(call)
        problem = self.resource.check_delete(path)
        if problem is not None:
            raise problem
        self._table.delete(document)
        self._policies.delete(path)
        self.resource.on_delete(path)
        return self._style.respond_deleted(call, path, document.body)

    def _get_policy(self, call: Call) -> Obj:
        self.get_document(call)
        return self._policies.get(self.path(call))

    def _set_policy(self, call: Call) -> Obj:
        self.get_document(call)
        return self._policies.set(self.path(call), call.body.get("policy") or {})

    def get_document(self, call: Call) -> Document:
        """Return the document that a call names; raises NOT_FOUND."""
        return require(self._table.get(self.parent(call), call.params[self.resource.plural]), not_found(self.path(call)))

    def find(self, parent: str, name: str) -> Document | None:
        """Return a document by parent and name, or None."""
        return self._table.get(parent, name)

    def all(self) -> Iterator[Document]:
        """All documents of all parents."""
        return self._table.all()

    def put(self, document: Document) -> None:
        """Write a document."""
        self._table.put(document)


def _apply_mask(change: Obj, mask: str) -> Obj:
    """Keep the top-level fields of the mask; a field that the body omits becomes None, which clears it."""
    fields = {to_camel_case(field.split(".")[0]) for field in mask.split(",") if field}
    return {field: change.get(field) for field in fields}
