"""Records the responses of a real API server to the cases: `python -m tests.cel.refresh SERVER TOKEN`.

Each rule is validated in a dry run. Those that compile go into definitions of forty each: first without rules, to make the
objects that updates start from, then with them.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from tests.cel.corpus import OBSERVED, RULES, Case, cases, content, whole_schema, without_rules

_GROUP = "cel.sliceworks.dev"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PER_DEFINITION = 40


class Server:
    """A few calls to an API server."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token
        self._tls = ssl._create_unverified_context()

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}


def definition(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": f"{name}s", "singular": name, "kind": name.capitalize(), "listKind": f"{name.capitalize()}List"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.{_GROUP}"},
        "spec": {"group": _GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def causes(answer: tuple[int, dict[str, Any]]) -> list[dict[str, str]]:
    code, body = answer
    if code < 300:
        return []
    if code != 422:
        raise SystemExit(f"unexpected answer: {body}")
    result: list[dict[str, str]] = body["details"]["causes"]
    return result


class Trial:
    """A CRD for some cases, and its objects."""

    def __init__(self, server: Server, name: str, batch: list[Case]) -> None:
        self._server, self._name, self._batch = server, name, batch
        self._objects = f"/apis/{_GROUP}/v1/{name}s"
        self._place = f"{_DEFINITIONS}/{name}s.{_GROUP}"

    def run(self) -> dict[str, Any]:
        """The responses of the server to the values and updates of the cases."""
        self._define_without_rules()
        olds = {
            (case.name, index): self._server.call("POST", self._objects, self._object(case, f"{case.name}-{index}", old))[1]
            for case in self._batch
            for index, (old, _) in enumerate(case.updates)
        }
        self._add_rules()
        result = {case.name: self._answers(case, olds) for case in self._batch}
        self._server.call("DELETE", self._place)
        return result

    def _object(self, case: Case, name: str, value: Any) -> dict[str, Any]:
        meta = {"apiVersion": f"{_GROUP}/v1", "kind": self._name.capitalize(), "metadata": {"name": name}}
        return {**meta, **content(case, value)}

    def _define_without_rules(self) -> None:
        self._server.call("DELETE", self._place)
        while self._server.call("GET", self._place)[0] != 404:
            time.sleep(0.2)
        self._server.call("POST", _DEFINITIONS, definition(self._name, without_rules(whole_schema(self._batch))))
        while self._server.call("GET", f"{self._objects}?limit=1")[0] != 200:
            time.sleep(0.2)

    def _add_rules(self) -> None:
        """A rule that always fails shows when the CRD with rules is in effect."""
        _, current = self._server.call("GET", self._place)
        schema = whole_schema(self._batch)
        probe = {"type": "integer", RULES: [{"rule": "false"}]}
        schema = {**schema, "properties": {**schema["properties"], "probe": probe}}
        current["spec"]["versions"] = definition(self._name, schema)["spec"]["versions"]
        if causes(self._server.call("PUT", self._place, current)):
            raise SystemExit(f"the rules of {self._name} do not compile together")
        meta = {"apiVersion": f"{_GROUP}/v1", "kind": self._name.capitalize(), "metadata": {"name": "probe"}}
        while self._server.call("POST", f"{self._objects}?dryRun=All", {**meta, "probe": 1})[0] != 422:
            time.sleep(0.2)

    def _answers(self, case: Case, olds: dict[tuple[str, int], dict[str, Any]]) -> dict[str, Any]:
        created = [
            causes(self._server.call("POST", f"{self._objects}?dryRun=All", self._object(case, "new", value)))
            for value in case.values
        ]
        updated = []
        for index, (_, value) in enumerate(case.updates):
            body = {**olds[case.name, index], **content(case, value)}
            updated.append(causes(self._server.call("PUT", f"{self._objects}/{case.name}-{index}?dryRun=All", body)))
        return {"rule": case.text, "compile": [], "values": created, "updates": updated}


def main() -> None:
    server = Server(*sys.argv[1:3])
    result: dict[str, Any] = {}
    good: list[Case] = []
    roots: list[Case] = []
    for case in cases():
        answer = causes(server.call("POST", f"{_DEFINITIONS}?dryRun=All", definition("dry", whole_schema([case]))))
        if answer:
            result[case.name] = {"rule": case.text, "compile": answer}
        else:
            (roots if case.root else good).append(case)
    batches = [good[start : start + _PER_DEFINITION] for start in range(0, len(good), _PER_DEFINITION)]
    for index, batch in enumerate([*batches, *([case] for case in roots)]):
        result |= Trial(server, f"batch{index}", batch).run()
    OBSERVED.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(result)} cases, {sum(bool(one['compile']) for one in result.values())} of them do not compile", file=sys.stderr)


if __name__ == "__main__":
    main()
