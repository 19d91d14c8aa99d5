"""Records the responses of a real API server to the sequences.

    python -m tests.schemas.ownership.record --server https://127.0.0.1:6443 --token TOKEN

Run it again when the Kubernetes version changes, and read the difference.
"""

from __future__ import annotations

import argparse
import functools
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import yaml

HERE = Path(__file__).parent
OBSERVED = HERE / "observed.json"
NAMESPACE = "ownership"
TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
Object = dict[str, Any]


@functools.cache
def sequences() -> list[Object]:
    """The sequences, in order."""
    result: list[Object] = yaml.load((HERE / "sequences.yaml").read_text(), yaml.CSafeLoader)
    return result


def crds() -> list[Object]:
    """The custom resources that the sequences use."""
    result: list[Object] = yaml.load((HERE / "crds.yaml").read_text(), yaml.CSafeLoader)
    return result


def name_of(number: int) -> str:
    """The name of the object of a sequence."""
    return f"seq-{number:03d}"


def verb(step: Object) -> str:
    """The verb of a step."""
    return next(name for name in ("create", "put", *TYPES) if name in step)


def body_of(step: Object, on: str, name: str) -> Any:
    """The body of a create or apply request."""
    version = on.rpartition("/")[0].rpartition("/")[0]
    body = step[verb(step)]
    if step.get("raw"):
        return body
    metadata = dict(body.get("metadata") or {})
    if not step.get("generate"):
        metadata["name"] = name
    return {"apiVersion": version, "kind": on.rpartition("/")[2], **body, "metadata": metadata}


def merged(live: Any, patch: Any) -> Any:
    """A merge patch, for the bodies of puts."""
    if not isinstance(patch, dict) or not isinstance(live, dict):
        return patch
    joined = {**live, **{key: merged(live.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in joined.items() if value is not None}


class Server:
    """The real server."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        data = None if body is None else orjson.dumps(body)
        request = urllib.request.Request(self.url + path, data, {**self.headers, "Content-Type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context) as response:
                return response.status, orjson.loads(response.read())
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, orjson.loads(text) if text[:1] == b"{" else {"message": text.decode()}


def prepare(server: Server) -> None:
    server.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for crd in crds():
        server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    for _ in range(50):
        if server.ask("GET", f"/apis/ownership.example.dev/v1/namespaces/{NAMESPACE}/widgets")[0] == 200:
            return
        time.sleep(0.2)
    raise SystemExit("the custom resources are not served")


def record(server: Server, sequence: Object, number: int) -> Object:
    """Runs one sequence on a new object and returns the observed state after each step."""
    version, plural = sequence["of"].split("/")[:-2], sequence["of"].split("/")[-2]
    root = "/api/v1" if len(version) == 1 else "/apis/" + "/".join(version)
    collection = f"{root}/namespaces/{NAMESPACE}/{plural}"
    name = name_of(number)
    server.ask("DELETE", f"{collection}/{name}")
    if server.ask("GET", f"{collection}/{name}")[0] == 200:
        server.ask("PATCH", f"{collection}/{name}", {"metadata": {"finalizers": None}}, TYPES["merge"])
        server.ask("DELETE", f"{collection}/{name}?gracePeriodSeconds=0")
    steps: list[Object] = []
    for step in sequence["steps"]:
        if step.get("at") != "once":
            time.sleep(1.02 - time.time() % 1)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        steps.append({"now": now, **_observe(server, step, sequence["of"], collection, name)})
    server.ask("PATCH", f"{collection}/{name}", {"metadata": {"finalizers": None}}, TYPES["merge"])
    server.ask("DELETE", f"{collection}/{name}?gracePeriodSeconds=0")
    return {"name": sequence["name"], "steps": steps}


def _observe(server: Server, step: Object, on: str, collection: str, name: str) -> Object:
    do = verb(step)
    query = f"fieldManager={urllib.parse.quote(step['as'])}"
    query += "&force=true" if step.get("force") else ""
    place = f"{collection}/{name}" + (f"/{step['subresource']}" if step.get("subresource") else "")
    if do == "create":
        code, answer = server.ask("POST", f"{collection}?{query}", body_of(step, on, name))
        if code == 201:
            return {"code": code, "object": _plain(answer)}
    elif do == "put":
        live = server.ask("GET", place)[1]
        code, answer = server.ask("PUT", f"{place}?{query}", merged(live, step["put"]))
    else:
        body = body_of(step, on, name) if do == "apply" else step[do]
        code, answer = server.ask("PATCH", f"{place}?{query}", body, TYPES[do])
    if code >= 300:
        return {"code": code, "status": {key: answer[key] for key in ("reason", "message", "details") if key in answer}}
    return {"code": code, "object": _plain(server.ask("GET", f"{collection}/{name}")[1])}


def _plain(obj: Object) -> Object:
    """The object without fields that differ between runs."""
    obj["metadata"] = {**obj["metadata"], "uid": "u", "resourceVersion": "1", "creationTimestamp": "2024-01-01T00:00:00Z"}
    return obj


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    options = parser.parse_args()
    server = Server(options.server, options.token)
    prepare(server)
    with ThreadPoolExecutor(8) as pool:
        observed = list(pool.map(lambda pair: record(server, pair[1], pair[0]), enumerate(sequences())))
    OBSERVED.write_bytes(b"[\n" + b",\n".join(orjson.dumps(one) for one in observed) + b"\n]\n")


if __name__ == "__main__":
    main()
