"""Records the rows of the objects in objects.yaml from a real API server: `python -m tests.twin.tables.refresh SERVER TOKEN`."""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
OBSERVED = HERE / "observed.json"
_NAMESPACE = "sliceworks-tables"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Server:
    """A few calls to an API server."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token
        self._tls = ssl._create_unverified_context()

    def call(self, method: str, path: str, body: Any = None, accept: str = "application/json") -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": accept}
        request = urllib.request.Request(self._address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def find_collection(self, obj: dict[str, Any], *, wait: bool = True) -> tuple[str, str] | None:
        """The path of an object's collection, and the key of its resource; a new kind appears with a delay."""
        api_version = obj["apiVersion"]
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        group = api_version.rpartition("/")[0]
        for _ in range(50 if wait else 1):
            _, listed = self.call("GET", root)
            for resource in listed["resources"] if isinstance(listed, dict) else ():
                if resource["kind"] == obj["kind"] and "/" not in resource["name"]:
                    space = f"/namespaces/{_NAMESPACE}" if resource["namespaced"] else ""
                    return f"{root}{space}/{resource['name']}", f"{group}/{resource['name']}"
            time.sleep(0.2 if wait else 0)
        return None


def replace_ages(value: Any) -> Any:
    """Replace ages by times."""
    if isinstance(value, dict):
        if value.keys() == {"ago"}:
            return (datetime.now(UTC) - timedelta(seconds=value["ago"])).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        return {key: replace_ages(item) for key, item in value.items()}
    return [replace_ages(item) for item in value] if isinstance(value, list) else value


def remove(server: Server, path: str) -> None:
    server.call("PATCH", path, {"metadata": {"finalizers": None}})
    server.call("DELETE", path + "?gracePeriodSeconds=0")
    while server.call("GET", path)[0] != 404:
        time.sleep(0.1)


def observed(server: Server, entry: dict[str, Any]) -> dict[str, Any]:
    """The row of one object, with the object itself."""
    obj = replace_ages(entry["object"])
    place = server.find_collection(obj)
    if place is None:
        raise SystemExit(f"no such kind: {obj['kind']}")
    collection, key = place
    path = f"{collection}/{obj['metadata']['name']}"
    remove(server, path)
    code, created = server.call("POST", collection, obj)
    if code != 201:
        raise SystemExit(f"{path}: {created}")
    if "status" in entry:
        code, created = server.call("PATCH", f"{path}/status", {"status": replace_ages(entry["status"])})
        if code != 200:
            raise SystemExit(f"{path}: {created}")
    if entry.get("gone"):
        server.call("DELETE", path)
    before = datetime.now(UTC)
    code, table = server.call("GET", f"{path}?includeObject=Object", accept=_TABLE)
    for definition in table["columnDefinitions"]:
        del definition["description"]
    (row,) = table["rows"]
    row["object"]["metadata"].pop("managedFields", None)
    return {"resource": key, "now": before.isoformat(), "columns": table["columnDefinitions"], "row": row}


def main() -> None:
    server = Server(*sys.argv[1:3])
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    time.sleep(1)
    entries = yaml.load((HERE / "objects.yaml").read_text(), yaml.CSafeLoader)
    try:
        found = [observed(server, entry) for entry in entries]
        OBSERVED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    finally:
        for entry in reversed(entries):
            place = server.find_collection(entry["object"], wait=False)
            if place is not None:
                remove(server, f"{place[0]}/{entry['object']['metadata']['name']}")


if __name__ == "__main__":
    main()
