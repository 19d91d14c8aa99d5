"""Records the results of the patches on a real API server.

python -m tests.schemas.patching.record --server https://127.0.0.1:6443 --token TOKEN
"""

from __future__ import annotations

import argparse
import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import yaml
from tests.schemas.ownership.record import TYPES, Server, prepare

HERE = Path(__file__).parent
OBSERVED = HERE / "observed.json"
NAMESPACE = "ownership"
WIDGET = "ownership.example.dev/v1/widgets/Widget"
Object = dict[str, Any]


@functools.cache
def cases() -> list[Object]:
    """Every case: its number, the type of the patch, the resource, the document and the patch."""
    requests = yaml.load((HERE / "cases.yaml").read_text(), yaml.CSafeLoader)
    result: list[Object] = []
    for kind in ("json", "merge", "merge-whole"):
        for patch in requests[kind]["patches"]:
            document = {"spec": {"free": requests[kind]["document"]}}
            result.append({"type": kind.partition("-")[0], "of": WIDGET, "document": document, "patch": _from_root(kind, patch)})
    for group in requests["strategic"]:
        result += [
            {"type": "strategic", "of": group["of"], "document": group["document"], "patch": patch} for patch in group["patches"]
        ]
    return [{"number": number, **case} for number, case in enumerate(result)]


def _from_root(kind: str, patch: Any) -> Any:
    if kind == "merge":
        return {"spec": {"free": patch}}
    if kind == "json" and isinstance(patch, list):
        return [_operation(one) for one in patch]
    return patch


def _operation(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    return {key: "/spec/free" + value[1:] if isinstance(value, str) and value[:1] == "~" else value for key, value in one.items()}


def record(server: Server, case: Object) -> Object:
    """Creates and patches the document; returns both with the response."""
    *version, plural, kind = case["of"].split("/")
    root = "/api/v1" if len(version) == 1 else "/apis/" + "/".join(version)
    collection, name = f"{root}/namespaces/{NAMESPACE}/{plural}", f"patch-{case['number']:03d}"
    body = {"apiVersion": "/".join(version), "kind": kind, **case["document"]}
    body["metadata"] = {**body.get("metadata", {}), "name": name}
    code, before = server.ask("POST", collection, body)
    if code != 201:
        raise SystemExit(f"{case}: {before}")
    code, answer = server.ask("PATCH", f"{collection}/{name}", case["patch"], TYPES[case["type"]])
    server.ask("PATCH", f"{collection}/{name}", {"metadata": {"finalizers": None}}, TYPES["merge"])
    server.ask("DELETE", f"{collection}/{name}?gracePeriodSeconds=0")
    if code >= 300:
        return {
            "before": _plain(before),
            "code": code,
            "status": {key: answer[key] for key in ("reason", "message") if key in answer},
        }
    return {"before": _plain(before), "code": code, "after": _plain(answer)}


def _plain(obj: Object) -> Object:
    """The object without fields that differ between runs."""
    server_set = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "namespace")
    obj["metadata"] = {key: value for key, value in obj["metadata"].items() if key not in server_set}
    obj.pop("status", None)
    for name in ("clusterIP", "clusterIPs"):
        obj.get("spec", {}).pop(name, None)
    return obj


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    options = parser.parse_args()
    server = Server(options.server, options.token)
    prepare(server)
    with ThreadPoolExecutor(8) as pool:
        observed = list(pool.map(lambda case: record(server, case), cases()))
    OBSERVED.write_bytes(b"[\n" + b",\n".join(orjson.dumps(one) for one in observed) + b"\n]\n")


if __name__ == "__main__":
    main()
