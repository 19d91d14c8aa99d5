"""Cloud Build: builds that take time and then push their images; build steps are not executed.

The result is determined when a build is created, from its source object, service account and repositories. The status follows from
the elapsed time, so a build continues while the twin is stopped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.twin.cloud.core.collection import paginate
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument, not_found
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.artifactregistry import DockerImages, parse_reference
from sliceworks.twin.cloud.google.iam import ServiceAccounts
from sliceworks.twin.cloud.google.storage.blob import Objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_LOCATION = "projects/{project}/locations/{location}"
_DEFAULT_SECONDS = 90.0
_PACKAGE = "type.googleapis.com/google.devtools.cloudbuild.v1"
_SUBSTITUTION = re.compile(r"(?<!\$)\$(?:\{(?P<braced>_[A-Z0-9_]+)\}|(?P<bare>_[A-Z0-9_]+))")
_TAG_FILTER = re.compile(r'tags\s*=\s*"(?P<tag>[^"]*)"')
_ENDED = frozenset(("SUCCESS", "FAILURE", "CANCELLED"))


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    builds = Builds(context.store)
    return [RestService("cloudbuild", "v1", builds.routes(), settings={"seconds": builds.set_seconds})]


class Builds:
    """Builds of all projects."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "cloudbuild/builds", "Build")
        self._images, self._objects, self._accounts = DockerImages(store), Objects(store), ServiceAccounts(store)
        self._seconds = _DEFAULT_SECONDS

    def set_seconds(self, seconds: Any) -> None:
        """Set the duration of builds."""
        if not isinstance(seconds, int | float) or seconds < 0:
            raise InvalidDocument(f"cloudbuild.seconds: must be a number of at least 0, got {seconds!r}")
        self._seconds = float(seconds)

    def routes(self) -> Iterator[Route]:
        """The methods of builds; the operation of a build has the same name."""
        collection, permissions = f"{_LOCATION}/builds", "cloudbuild.builds"
        yield Route("POST", collection, "builds.create", self.create, f"{permissions}.create", "Build")
        yield Route("GET", collection, "builds.list", self.find_all, f"{permissions}.list")
        yield Route("GET", f"{collection}/{{build}}", "builds.get", self.get, f"{permissions}.get")
        yield Route(
            "POST", f"{collection}/{{build}}:cancel", "builds.cancel", self.cancel, f"{permissions}.update", "CancelBuildRequest"
        )
        yield Route("GET", f"{_LOCATION}/operations/{{build}}", "operations.get", self.get_operation, f"{permissions}.get")

    def create(self, call: Call) -> Obj:
        """Start a build."""
        project, location = call.params["project"], call.params["location"]
        body = _substitute(call.body, project, location)
        _check(body)
        account = str(body.get("serviceAccount") or "").rpartition("/")[2]
        if account and not self._accounts.has(project, account):
            raise GoogleError("PERMISSION_DENIED", f'Required "iam.serviceAccounts.actAs" permission(s) for "{account}".')
        name, parent = clock.uid(), _LOCATION.format_map(call.params)
        due = clock.timestamp_after(self._seconds)
        output = {"id": name, "name": f"{parent}/builds/{name}", "projectId": project, "createTime": clock.timestamp()}
        failure = self._find_failure(body)
        document = Document(parent, name, {**body, **output}, {"due": due, "failure": failure})
        self._table.put(document)
        for image in () if failure else filter(None, map(parse_reference, body.get("images") or ())):
            self._images.push(image, name, due)
        return self._operation(document)

    def _find_failure(self, body: Obj) -> Obj:
        """The `failureInfo` of a build that will fail; empty for one that will succeed."""
        source = (body.get("source") or {}).get("storageSource")
        if source and not self._objects.has(str(source.get("bucket")), str(source.get("object"))):
            return {"type": "FETCH_SOURCE_FAILED", "detail": f"gs://{source.get('bucket')}/{source.get('object')} not found"}
        for name in body.get("images") or ():
            image = parse_reference(name)
            if image is not None and not self._images.has_repository(image.path):
                return {"type": "PUSH_FAILED", "detail": f'Repository "{image.repository}" not found'}
        return {}

    def get(self, call: Call) -> Obj:
        """Return a build."""
        return self._render(self._get_document(call))

    def find_all(self, call: Call) -> Obj:
        """List the builds of a location, optionally by tag; other filters are not supported."""
        expression = call.query.get("filter", "")
        match = _TAG_FILTER.fullmatch(expression.strip())
        if expression and match is None:
            raise invalid_argument(f'filter {expression!r}: the twin supports only tags="…"')
        builds = self._table.all(_LOCATION.format_map(call.params))
        page, token = paginate(call, (build for build in builds if not match or match["tag"] in (build.body.get("tags") or ())))
        return {**({"builds": [self._render(build) for build in page]} if page else {}), **token}

    def cancel(self, call: Call) -> Obj:
        """Cancel a running build."""
        document = self._get_document(call)
        if self._status(document) in _ENDED:
            raise GoogleError("FAILED_PRECONDITION", f"build {document.name} is already done")
        document.inner |= {"cancelled": clock.timestamp()}
        self._table.put(document)
        self._images.cancel_push(document.name)
        return self._render(document)

    def get_operation(self, call: Call) -> Obj:
        """Return the operation of a build."""
        return self._operation(self._get_document(call))

    def _get_document(self, call: Call) -> Document:
        parent, name = _LOCATION.format_map(call.params), call.params["build"]
        return require(self._table.get(parent, name), not_found(f"{parent}/builds/{name}"))

    def _status(self, document: Document) -> str:
        if document.inner.get("cancelled"):
            return "CANCELLED"
        if clock.seconds_until(document.inner["due"]) > 0:
            return "WORKING"
        return "FAILURE" if document.inner["failure"] else "SUCCESS"

    def _render(self, document: Document) -> Obj:
        """A build with its current status."""
        status, body = self._status(document), document.body
        build = {**body, "status": status, "startTime": body["createTime"]}
        build["logUrl"] = f"https://console.cloud.google.com/cloud-build/builds/{document.name}?project={body['projectId']}"
        if status in _ENDED:
            build["finishTime"] = document.inner.get("cancelled") or document.inner["due"]
        if status == "FAILURE":
            build |= {"failureInfo": document.inner["failure"], "statusDetail": document.inner["failure"]["detail"]}
        if status == "SUCCESS":
            pushed = [(name, image) for name in body.get("images") or () if (image := parse_reference(name)) is not None]
            build["results"] = {"images": [{"name": name, "digest": image.digest} for name, image in pushed]}
        return build

    def _operation(self, document: Document) -> Obj:
        build = self._render(document)
        head = {"name": f"{document.parent}/operations/{document.name}"}
        metadata = {"metadata": {"@type": f"{_PACKAGE}.BuildOperationMetadata", "build": build}}
        if build["status"] not in _ENDED:
            return {**head, **metadata}
        if build["status"] == "SUCCESS":
            return {**head, **metadata, "done": True, "response": {"@type": f"{_PACKAGE}.Build", **build}}
        message = build.get("statusDetail") or "the build was cancelled"
        return {**head, **metadata, "done": True, "error": {"code": 1 if build["status"] == "CANCELLED" else 9, "message": message}}


def _check(body: Obj) -> None:
    """Raise INVALID_ARGUMENT for a build that Cloud Build rejects on create."""
    if not body.get("steps"):
        raise invalid_argument("invalid build: no build steps specified")
    options = body.get("options") or {}
    if body.get("serviceAccount") and options.get("logging") not in ("CLOUD_LOGGING_ONLY", "NONE") and not body.get("logsBucket"):
        raise invalid_argument(
            "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket', (b) use the "
            "REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or (c) use either CLOUD_LOGGING_ONLY / "
            "NONE logging options"
        )


def _substitute(body: Obj, project: str, location: str) -> Obj:
    """Apply substitutions. Every key must be used (unless ALLOW_LOOSE), and every used key must be defined."""
    values = {str(key): str(value) for key, value in (body.get("substitutions") or {}).items()}
    for key in values:
        if not key.startswith("_"):
            raise invalid_argument(f'invalid build: substitution key "{key}" must begin with an underscore')
    template = orjson.dumps({key: value for key, value in body.items() if key != "substitutions"}).decode()
    used = {_key(match) for match in _SUBSTITUTION.finditer(template)}
    for key in sorted(used - set(values)):
        raise invalid_argument(f'invalid build: key in the template "{key}" is not a valid built-in substitution')
    if (body.get("options") or {}).get("substitutionOption") != "ALLOW_LOOSE":
        for key in sorted(set(values) - used):
            raise invalid_argument(f'invalid build: key "{key}" in the substitution data is not matched in the template')
    template = _SUBSTITUTION.sub(lambda match: orjson.dumps(values[_key(match)]).decode()[1:-1], template)
    for key, value in {"PROJECT_ID": project, "LOCATION": location}.items():
        template = template.replace(f"${{{key}}}", value).replace(f"${key}", value)
    build: Obj = orjson.loads(template)
    return {**build, **({"substitutions": values} if values else {})}


def _key(match: re.Match[str]) -> str:
    return str(match["braced"] or match["bare"])
