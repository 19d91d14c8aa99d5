"""Google's Python clients, configured for a twin's cloud; responses are checked against Google's discovery documents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from google.cloud import bigquery
from google.cloud.pubsub_v1 import PublisherClient, SchemaServiceClient, SubscriberClient  # type: ignore[import-untyped]
from google.cloud.storage import Client as StorageClient  # type: ignore[import-untyped]
from google.oauth2.credentials import Credentials
from googleapiclient import discovery as clients  # type: ignore[import-untyped]
from tests.support import discovery

if TYPE_CHECKING:
    from tests.support.cloud_http import HttpCloud

Obj = dict[str, Any]
PROJECT = "my-project"
BASED = {"bigquery", "compute", "storage"}
"""Services whose paths, in Google's documents, do not begin with the version."""


class Google:
    """One client per service; `problems` lists deviations of responses from the documents."""

    def __init__(self, served: HttpCloud) -> None:
        self.served = served
        self.problems: list[str] = []
        self._built: dict[str, Any] = {}
        token = Credentials(token=served.token)  # type: ignore[no-untyped-call]
        root = {"api_endpoint": served.url}
        self.storage = StorageClient(project=PROJECT, credentials=token, client_options=root)
        self.bigquery = bigquery.Client(project=PROJECT, credentials=token, client_options=root)
        # Pub/Sub's clients use gRPC by default; the twin serves REST.
        rest: Obj = {"credentials": token, "transport": "rest", "client_options": {"api_endpoint": f"{served.url}/pubsub"}}
        self.publisher = PublisherClient(**rest)
        self.subscriber = SubscriberClient(**rest)
        self.schemas = SchemaServiceClient(**rest)
        self._token = token
        for session in (self.storage._http, self.bigquery._http):
            session.hooks["response"].append(self._held)
        for client in (self.publisher, self.subscriber, self.schemas):
            client.transport._session.hooks["response"].append(self._held)

    def api(self, service: str, version: str = "v1") -> Any:
        """Build a google-api-python-client client from a discovery document."""
        if service not in self._built:
            address = f"{self.served.url}/{service}/" + (f"{version}/" if service in BASED else "")
            self._built[service] = clients.build(
                service,
                version,
                credentials=self._token,
                client_options={"api_endpoint": address},
                static_discovery=True,
                cache_discovery=False,
            )
        return self._built[service]

    def do(self, request: Any) -> Obj:
        """Execute a request of such a client; returns the response body."""
        result: Obj = request.execute()
        service, _, method = request.methodId.partition(".")
        self._compare(service, urlsplit(request.uri).path, request.method, result, method)
        return result

    def wait(self, get: Any, operation: Obj) -> Obj:
        """Poll an operation with `get` until it is done; returns it."""
        for _ in range(2000):
            if operation.get("status") == "DONE" or operation.get("done"):
                return operation
            time.sleep(0.01)
            operation = self.do(get(operation))
        raise AssertionError(operation)

    def inject(self, fault: str, **more: Any) -> None:
        """Inject a fault into the cloud."""
        self.served.run(lambda cloud: cloud.faults.add({"fault": fault, **more}))

    def close(self) -> None:
        """Close all connections."""
        for client in self._built.values():
            client.close()
        self.storage.close()
        self.bigquery.close()  # type: ignore[no-untyped-call]
        self.publisher.stop()
        for item in (self.publisher, self.subscriber, self.schemas):
            item.transport._session.close()

    def _held(self, response: Any, *_: Any, **__: Any) -> None:
        kind = response.headers.get("content-type", "")
        path = urlsplit(response.url).path
        if response.status_code == 200 and kind.startswith("application/json") and response.content and "/download/" not in path:
            service = path.removeprefix("/upload").split("/")[1]
            self._compare(service, path.removeprefix("/upload"), response.request.method, orjson.loads(response.content), path)

    def _compare(self, service: str, path: str, method: str, answer: Obj, what: str) -> None:
        version = path.split("/")[2]
        relative = path.removeprefix(f"/{service}/")
        relative = relative.removeprefix(f"{version}/") if service in BASED else relative
        message = discovery.messages(service, version, method, relative)[1]
        if message:
            self.problems.extend(f"{what}: {problem}" for problem in discovery.problems(service, version, message, answer))
