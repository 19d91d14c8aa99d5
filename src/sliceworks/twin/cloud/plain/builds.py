"""Cloud Build: builds that take their time and then have pushed their images. Nothing is run: steps are taken to go well.

What can be known beforehand is decided when a build comes: whether its sources, its account and its registry are there. How far it
is follows from the time that has passed, so that a twin which was stopped meanwhile goes on with it.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.twin.cloud.errors import GoogleError, invalid, not_found
from sliceworks.twin.cloud.plain.images import reference
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.plain.images import Images
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_LOCAL = "projects/{project}/locations/{location}"
_SECONDS = 90.0
_PACKAGE = "type.googleapis.com/google.devtools.cloudbuild.v1"
_WORD = re.compile(r"(?<!\$)\$(?:\{(?P<braced>_[A-Z0-9_]+)\}|(?P<bare>_[A-Z0-9_]+))")
_TAGGED = re.compile(r'tags\s*=\s*"(?P<tag>[^"]*)"')
_ENDED = frozenset(("SUCCESS", "FAILURE", "CANCELLED"))


class There(NamedTuple):
    """What a build stands on: whether a bucket has an object, a project an account, and whether there is such a repository."""

    has_object: Callable[[str, str], bool]
    has_account: Callable[[str, str], bool]
    has_repository: Callable[[str], bool]


class Builds:
    """Builds of all projects."""

    def __init__(self, store: Store, images: Images, there: There) -> None:
        self._table = Table(store, "cloudbuild/builds", "Build")
        self._images, self._there = images, there
        self.seconds = _SECONDS

    def service(self) -> PlainService:
        """The API."""
        return _CloudBuild(self)

    def routes(self) -> Iterator[Route]:
        """Make, look at and end builds; the operation of a build has its name."""
        at, may = f"{_LOCAL}/builds", "cloudbuild.builds"
        yield Route("POST", at, "builds.create", self.create, f"{may}.create", "Build")
        yield Route("GET", at, "builds.list", self.find_all, f"{may}.list")
        yield Route("GET", f"{at}/{{build}}", "builds.get", lambda call: self._shown(self._found(call)), f"{may}.get")
        yield Route("POST", f"{at}/{{build}}:cancel", "builds.cancel", self.cancel, f"{may}.update", "CancelBuildRequest")
        yield Route("GET", f"{_LOCAL}/operations/{{build}}", "operations.get", self.operation, f"{may}.get")

    def create(self, call: Call) -> Obj:
        """Begin a build."""
        project, location = call.params["project"], call.params["location"]
        body = _substituted(call.body, project, location)
        _check(body)
        account = str(body.get("serviceAccount") or "").rpartition("/")[2]
        if account and not self._there.has_account(project, account):
            raise GoogleError("PERMISSION_DENIED", f'Required "iam.serviceAccounts.actAs" permission(s) for "{account}".')
        name, parent = clock.uid(), _LOCAL.format_map(call.params)
        due = clock.rfc3339_micro(clock.now() + timedelta(seconds=self.seconds))
        known = {"id": name, "name": f"{parent}/builds/{name}", "projectId": project, "createTime": clock.timestamp()}
        failure = self._failure(body)
        document = Document(parent, name, {**body, **known}, {"due": due, "failure": failure})
        self._table.put(document)
        for image in () if failure else filter(None, map(reference, body.get("images") or ())):
            self._images.push(image, name, due)
        return self._operation(document)

    def _failure(self, body: Obj) -> Obj:
        """Why it will not go well; nothing where it will."""
        source = (body.get("source") or {}).get("storageSource")
        if source and not self._there.has_object(str(source.get("bucket")), str(source.get("object"))):
            return {"type": "FETCH_SOURCE_FAILED", "detail": f"gs://{source.get('bucket')}/{source.get('object')} is not there"}
        for name in body.get("images") or ():
            image = reference(name)
            if image is not None and not self._there.has_repository(image.path):
                return {"type": "PUSH_FAILED", "detail": f'Repository "{image.repository}" not found'}
        return {}

    def find_all(self, call: Call) -> Obj:
        """Builds of a location, all or those with a tag; other filters are not understood, and refused."""
        asked = call.query.get("filter", "")
        tagged = _TAGGED.fullmatch(asked.strip())
        if asked and tagged is None:
            raise invalid(f'the twin\'s cloud does not understand the filter {asked!r}; it knows tags="…"')
        every = self._table.all(_LOCAL.format_map(call.params))
        found, more = page(call, (each for each in every if tagged is None or tagged["tag"] in (each.body.get("tags") or ())))
        return {**({"builds": [self._shown(each) for each in found]} if found else {}), **more}

    def cancel(self, call: Call) -> Obj:
        """End a build that goes on."""
        document = self._found(call)
        if self._status(document) in _ENDED:
            raise GoogleError("FAILED_PRECONDITION", f"build {document.name} is already done")
        document.inner |= {"cancelled": clock.timestamp()}
        self._table.put(document)
        self._images.withdraw(document.name)
        return self._shown(document)

    def operation(self, call: Call) -> Obj:
        """The operation of a build."""
        return self._operation(self._found(call))

    def _found(self, call: Call) -> Document:
        document = self._table.get(_LOCAL.format_map(call.params), call.params["build"])
        if document is None:
            raise not_found(f"{_LOCAL.format_map(call.params)}/builds/{call.params['build']}")
        return document

    def _status(self, document: Document) -> str:
        if document.inner.get("cancelled"):
            return "CANCELLED"
        if datetime.fromisoformat(document.inner["due"]) > clock.now():
            return "WORKING"
        return "FAILURE" if document.inner["failure"] else "SUCCESS"

    def _shown(self, document: Document) -> Obj:
        """A build as it is now."""
        status, body = self._status(document), document.body
        shown = {**body, "status": status, "startTime": body["createTime"]}
        shown["logUrl"] = f"https://console.cloud.google.com/cloud-build/builds/{document.name}?project={body['projectId']}"
        if status in _ENDED:
            shown["finishTime"] = document.inner.get("cancelled") or document.inner["due"]
        if status == "FAILURE":
            shown |= {"failureInfo": document.inner["failure"], "statusDetail": document.inner["failure"]["detail"]}
        if status == "SUCCESS":
            pushed = [(name, image) for name in body.get("images") or () if (image := reference(name)) is not None]
            shown["results"] = {"images": [{"name": name, "digest": image.digest} for name, image in pushed]}
        return shown

    def _operation(self, document: Document) -> Obj:
        shown = self._shown(document)
        head = {"name": f"{document.parent}/operations/{document.name}"}
        metadata = {"metadata": {"@type": f"{_PACKAGE}.BuildOperationMetadata", "build": shown}}
        if shown["status"] not in _ENDED:
            return {**head, **metadata}
        if shown["status"] == "SUCCESS":
            return {**head, **metadata, "done": True, "response": {"@type": f"{_PACKAGE}.Build", **shown}}
        said = shown.get("statusDetail") or "the build was cancelled"
        return {**head, **metadata, "done": True, "error": {"code": 1 if shown["status"] == "CANCELLED" else 9, "message": said}}


class _CloudBuild(PlainService):
    """The service: how long its builds take can be set."""

    def __init__(self, builds: Builds) -> None:
        super().__init__("cloudbuild", "v1", builds.routes())
        self._builds = builds

    def configure(self, settings: Obj) -> None:
        """`{"seconds": 30}`."""
        for key, value in settings.items():
            if key != "seconds" or not isinstance(value, int | float) or value < 0:
                raise InvalidDocument(f"cloudbuild has the setting seconds, a number, and no {key}: {value!r}")
            self._builds.seconds = float(value)


def _check(body: Obj) -> None:
    """What Cloud Build refuses at once."""
    if not body.get("steps"):
        raise invalid("invalid build: no build steps specified")
    options = body.get("options") or {}
    if body.get("serviceAccount") and options.get("logging") not in ("CLOUD_LOGGING_ONLY", "NONE") and not body.get("logsBucket"):
        raise invalid(
            "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket', (b) use the "
            "REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or (c) use either CLOUD_LOGGING_ONLY / "
            "NONE logging options"
        )


def _substituted(body: Obj, project: str, location: str) -> Obj:
    """A build with its substitutions made. All that are given must be used, and all that are used must be given."""
    given = {str(key): str(value) for key, value in (body.get("substitutions") or {}).items()}
    for key in given:
        if not key.startswith("_"):
            raise invalid(f'invalid build: substitution key "{key}" must begin with an underscore')
    text = orjson.dumps({key: value for key, value in body.items() if key != "substitutions"}).decode()
    used = {_key(found) for found in _WORD.finditer(text)}
    for key in sorted(used - set(given)):
        raise invalid(f'invalid build: key in the template "{key}" is not a valid built-in substitution')
    if (body.get("options") or {}).get("substitutionOption") != "ALLOW_LOOSE":
        for key in sorted(set(given) - used):
            raise invalid(f'invalid build: key "{key}" in the substitution data is not matched in the template')
    text = _WORD.sub(lambda found: orjson.dumps(given[_key(found)]).decode()[1:-1], text)
    for key, value in {"PROJECT_ID": project, "LOCATION": location}.items():
        text = text.replace(f"${{{key}}}", value).replace(f"${key}", value)
    read: Obj = orjson.loads(text)
    return {**read, **({"substitutions": given} if given else {})}


def _key(found: re.Match[str]) -> str:
    return str(found["braced"] or found["bare"])
