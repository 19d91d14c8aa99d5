"""Sends the cases in tests/schemas/ to a running kube-apiserver and writes its responses next to them.

    python -m tests.real.schema_recorder --server https://127.0.0.1:6443 --token TOKEN

The responses are facts about Kubernetes; a test compares our schema engine with them.
"""

from __future__ import annotations

import argparse
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import orjson
import yaml

CASES = Path(__file__).parents[1] / "schemas"
GROUP = "cases.sliceworks.dev"
Object = dict[str, Any]


class Server:
    """JSON requests to a kube-apiserver."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self.context = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Object, list[str]]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else orjson.dumps(body)
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self.context) as response:
                return response.status, orjson.loads(response.read()), _warnings(response.headers)
        except urllib.error.HTTPError as error:
            return error.code, orjson.loads(error.read()), _warnings(error.headers)


def _warnings(headers: Any) -> list[str]:
    """The values of the Warning headers: `299 - "text"`."""
    return [orjson.loads(text.partition("-")[2].strip()) for text in headers.get_all("Warning") or ()]


def definition(cases: dict[str, Object]) -> Object:
    """A CustomResourceDefinition whose spec has a field for each case."""
    fields = {name: {"type": "object", "properties": {"v": case["schema"]}} for name, case in cases.items()}
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    names = {"plural": "cases", "kind": "Case", "singular": "case", "listKind": "CaseList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"cases.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def instance(name: str, case: Object, part: str = "value") -> Object:
    """The object with a case's value (or its previous value)."""
    inside = {"v": case[part]} if part in case else {}
    metadata = {"name": name.lower(), "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Case", "metadata": metadata, "spec": {name: inside}}


def answer(code: int, body: Object, warnings: list[str]) -> Object:
    """The recorded part of a response."""
    kept: Object = {"code": code}
    if code >= 400:
        kept["message"] = body["message"]
        causes = (body.get("details") or {}).get("causes") or []
        kept["causes"] = sorted(causes, key=lambda cause: (cause.get("field", ""), cause["message"]))
    else:
        kept["spec"] = body["spec"]
    if warnings:
        kept["warnings"] = warnings
    return kept


def ask_custom(server: Server) -> Object:
    cases: dict[str, Object] = yaml.safe_load((CASES / "custom_cases.yaml").read_text())
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    server.ask("DELETE", f"{crds}/cases.{GROUP}")
    time.sleep(2)
    code, body, _ = server.ask("POST", crds, definition(cases))
    if code != 201:
        raise SystemExit(body["message"])
    time.sleep(3)
    answers = {name: _ask_one(server, name, case) for name, case in cases.items()}
    server.ask("DELETE", f"{crds}/cases.{GROUP}")
    return answers


def _ask_one(server: Server, name: str, case: Object) -> Object:
    path = f"/apis/{GROUP}/v1/namespaces/default/cases"
    options = "?fieldValidation=Warn&dryRun=All"
    if "old" not in case:
        return answer(*server.ask("POST", path + options, instance(name, case)))
    _, old, _ = server.ask("POST", path, instance(name, case, "old"))
    new = instance(name, case)
    new["metadata"] = {"name": name.lower(), "resourceVersion": old["metadata"]["resourceVersion"]}
    result = answer(*server.ask("PUT", f"{path}/{name.lower()}{options}", new))
    server.ask("DELETE", f"{path}/{name.lower()}")
    return result


def ask_definitions(server: Server) -> Object:
    """The server's responses to valid and invalid definitions; nothing is persisted."""
    cases: dict[str, Object] = yaml.safe_load((CASES / "definition_cases.yaml").read_text())
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
    return {name: definition_answer(*server.ask("POST", path, changed_definition(case or {}))) for name, case in cases.items()}


def changed_definition(case: Object) -> Object:
    """A valid definition with the changes of a case: `spec` and `version` are merged, `schema` replaces the schema."""
    created: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.cases.sliceworks.dev", **case.get("metadata", {})},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}},
    }
    root = case.get(
        "schema", {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    )
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    versions = [version | case.get("version", {}), *(version | more for more in case.get("more", ()))]
    spec = created["spec"]
    spec["versions"] = versions
    for key, value in case.get("spec", {}).items():
        spec[key] = {**spec[key], **value} if isinstance(value, dict) and isinstance(spec.get(key), dict) else value
    return created


def definition_answer(code: int, body: Object, warnings: list[str]) -> Object:
    kept = answer(code, body, warnings)
    if code < 400:
        kept["spec"] = {key: kept["spec"].get(key) for key in ("names", "conversion", "scope", "group")}
    return kept


def ask_builtin(server: Server) -> Object:
    """The server's responses to built-in objects; nothing is persisted."""
    cases: dict[str, Object] = yaml.safe_load((CASES / "builtin_cases.yaml").read_text())
    return {name: _builtin_answer(server, case) for name, case in cases.items()}


def _builtin_answer(server: Server, case: Object) -> Object:
    path = f"{builtin_path(case['kind'])}?dryRun=All&fieldValidation=Warn"
    code, body, warnings = server.ask("POST", path, builtin_object(case))
    kept: Object = {"code": code, "warnings": warnings}
    if code >= 400:
        return kept | {"message": body["message"]}
    for field in ("uid", "creationTimestamp", "managedFields", "generation"):
        body["metadata"].pop(field, None)
    return kept | {"object": body}


def builtin_path(kind: str) -> str:
    """The path where objects of a kind, written `group/version/plural/Kind`, are created."""
    group, version, plural, _ = kind.split("/")
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{base}/{plural}" if plural in ("nodes", "customresourcedefinitions") else f"{base}/namespaces/default/{plural}"


def builtin_object(case: Object) -> Object:
    group, version, _, kind = case["kind"].split("/")
    return {"apiVersion": f"{group}/{version}" if group else version, "kind": kind, **case["body"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    arguments = parser.parse_args()
    server = Server(arguments.server, arguments.token)
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    for name, ask in (("custom", ask_custom), ("definition", ask_definitions), ("builtin", ask_builtin)):
        (CASES / f"{name}_answers.json").write_bytes(orjson.dumps(ask(server), option=options))


if __name__ == "__main__":
    main()
