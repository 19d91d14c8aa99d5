"""One remote API: whether its server is available, and the documents that clients find its resources by."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.schemas.field_errors import quoted
from sliceworks.twin.apiserver.admission.chain import EXPOSED
from sliceworks.twin.apiserver.aggregation import forwarder
from sliceworks.twin.apiserver.aggregation.backend import AGGREGATOR, Backend, InvalidBundle, Unavailable
from sliceworks.twin.apiserver.aggregation.backend_documents import Documents, download_openapi, download_resources
from sliceworks.twin.apiserver.registry.api_service_strategy import KEY, condition, desired_condition
from sliceworks.twin.apiserver.service_endpoints import NoEndpoint, endpoint_slices

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.transport import Request, Response
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.request_info import RequestInfo

Obj = dict[str, Any]
_CHECK_SECONDS = 5.0
_RESYNC_SECONDS = 30.0
_FIRST_RETRY_SECONDS = 0.2
_SETTLE_SECONDS = 0.05


class RemoteApi:
    """A group version that the server behind a Service serves. `run` checks it until cancelled."""

    def __init__(self, server: ApiServer, obj: Obj, changed: Callable[[], None]) -> None:
        self._server, self._changed = server, changed
        self._spec: Obj = obj["spec"]
        self._backend = Backend(server, self._spec)
        self._replaced: list[Backend] = []
        self._openapi: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self.name: str = obj["metadata"]["name"]
        self.group, self.version = str(self._spec.get("group") or ""), str(self._spec["version"])
        self._available = is_condition_true(obj, "Available")
        self._metadata, self._condition = _user_metadata(obj), find_condition(obj, "Available")
        self.documents = Documents()

    @property
    def namespace(self) -> str:
        """The namespace of the Service."""
        return str(self._spec["service"]["namespace"])

    @property
    def service(self) -> str:
        """The name of the Service."""
        return str(self._spec["service"]["name"])

    def update(self, obj: Obj) -> None:
        """Follow a change of the APIService, and check soon unless it is the condition that was just written."""
        self._available = is_condition_true(obj, "Available")
        metadata, current = _user_metadata(obj), find_condition(obj, "Available")
        is_own = obj["spec"] == self._spec and metadata == self._metadata and current == self._condition
        if obj["spec"] != self._spec:
            self._replaced.append(self._backend)
            self._spec, self._backend = obj["spec"], Backend(self._server, obj["spec"])
        self._metadata, self._condition = metadata, current
        if not is_own:
            self.recheck()

    def recheck(self) -> None:
        """Check soon: something that availability depends on has changed."""
        self._wake.set()

    async def proxy(self, request: Request, target: RequestInfo, user: User) -> Response:
        """The response of the backend to a request of an authorized user."""
        if not self._available:
            return forwarder.unavailable()
        return await forwarder.forward(self._backend, request, target, user)

    async def run(self) -> None:
        """Keep the Available condition and the documents up to date."""
        retry = _FIRST_RETRY_SECONDS
        try:
            while True:
                self._wake.clear()
                if self._replaced:
                    await self._stop_openapi()
                while self._replaced:
                    await self._replaced.pop().close()
                passed = await self._check()
                await self._refresh(passed)
                if passed and (self._openapi is None or self._openapi.done()):
                    # Not awaited: a backend that hangs must not delay the next check.
                    self._openapi = asyncio.create_task(self._refresh_openapi(), name=f"OpenAPI of {self.name}")
                retry = _FIRST_RETRY_SECONDS if passed else min(retry * 2, _RESYNC_SECONDS)
                await self._pause(_RESYNC_SECONDS if passed else retry)
        finally:
            await self._stop_openapi()
            for backend in (*self._replaced, self._backend):
                await backend.close()

    async def _stop_openapi(self) -> None:
        if self._openapi is not None:
            self._openapi.cancel()
            await asyncio.gather(self._openapi, return_exceptions=True)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(clock.scale_real_seconds(seconds)):
                await self._wake.wait()
        # Changes come in groups, such as a Service and its EndpointSlice.
        await asyncio.sleep(clock.scale_real_seconds(_SETTLE_SECONDS))

    async def _check(self) -> bool:
        """Check the backend, and write the condition if it has changed."""
        spec = self._spec
        outcome = self._service_problem() or await self._discovery_problem()
        status, reason, message = outcome or ("True", "Passed", "all checks passed")
        entry = self._server.store.get(KEY, "", self.name)
        obj = entry.object() if entry is not None else {}
        if obj.get("spec") == spec:
            current = find_condition(obj, "Available")
            desired = desired_condition(current, condition(status, reason, message))
            if desired != current:
                self._condition = desired
                self._server.store.put(KEY, "", self.name, {**obj, "status": {"conditions": [desired]}})
        return outcome is None

    def _service_problem(self) -> tuple[str, str, str] | None:
        """What is wrong with the Service: status, reason and message of the condition."""
        view, namespace, name = self._server.view, self.namespace, self.service
        if view.get(EXPOSED, namespace, name) is not None:
            return None
        service = view.get("/services", namespace, name)
        if service is None:
            return "False", "ServiceNotFound", f"service/{name} in {quoted(namespace)} is not present"
        if service["spec"].get("type") not in (None, "ClusterIP"):
            return None
        number = self._spec["service"]["port"]
        port = next((port for port in service["spec"].get("ports") or () if port["port"] == number), None)
        if port is None:
            return "False", "ServicePortError", f"service/{name} in {quoted(namespace)} is not listening on port {number}"
        slices = list(endpoint_slices(self._server, namespace, name))
        if not slices:
            return "False", "EndpointsNotFound", f"cannot find endpointslices for service/{name} in {quoted(namespace)}"
        port_name = port.get("name") or ""
        if not any(_is_ready(obj, port_name) for obj in slices):
            message = (
                f"endpointslices for service/{name} in {quoted(namespace)} have no addresses with port name {quoted(port_name)}"
            )
            return "False", "MissingEndpoints", message
        return None

    async def _discovery_problem(self) -> tuple[str, str, str] | None:
        """Whether the backend serves the discovery document of the group version."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        try:
            host, port = self._backend.address()
            url = f"https://{host}:{port}{path}"
            problem = await self._get_problem(url, path)
        except NoEndpoint as error:
            return "False", "FailedDiscoveryCheck", str(error)
        message = f"failing or missing response from {url}: {problem}"
        return ("False", "FailedDiscoveryCheck", message) if problem else None

    async def _get_problem(self, url: str, path: str) -> str:
        try:
            document = await self._backend.get(path, AGGREGATOR, {}, _CHECK_SECONDS, verify=False)
        except TimeoutError:
            return f"Get {quoted(url)}: context deadline exceeded"
        except (Unavailable, InvalidBundle) as error:
            return f"Get {quoted(url)}: {error}"
        return "" if 200 <= document.status < 300 else f"bad status from {url}: {document.status}"

    async def _refresh(self, passed: bool) -> None:
        """Download the resources; without them, the group version is listed as stale, and without its OpenAPI documents."""
        latest = Documents()
        if passed:
            with contextlib.suppress(TimeoutError, NoEndpoint, Unavailable, InvalidBundle):
                resources = await download_resources(self._backend, self.group, self.version)
                latest = replace(self.documents, resources=resources)
        self._keep(latest)

    async def _refresh_openapi(self) -> None:
        latest = await download_openapi(self._backend, self.group, self.version)
        if self.documents.resources is not None:
            self._keep(replace(latest, resources=self.documents.resources))

    def _keep(self, latest: Documents) -> None:
        if latest != self.documents:
            self.documents = latest
            self._changed()

    @property
    def fingerprint(self) -> str:
        """A string that changes with the OpenAPI document."""
        return hashlib.sha256(orjson.dumps(self.documents.definitions)).hexdigest()


def _user_metadata(obj: Obj) -> list[Any]:
    """What users write into the metadata."""
    return [obj["metadata"].get(field) for field in ("labels", "annotations", "finalizers", "ownerReferences")]


def _is_ready(endpoints: Obj, port_name: str) -> bool:
    ready = any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints.get("endpoints") or ())
    return ready and any((port.get("name") or "") == port_name and port.get("port") for port in endpoints.get("ports") or ())
