"""Asks a real API server what it makes of the cases, and writes its answers down: `python -m tests.cel.refresh SERVER TOKEN`.

The rules are tried one by one in a dry run. Those that compile go into definitions of forty each: first without rules, to make the
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

from tests.cel.corpus import OBSERVED, Case, cases

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
            with urllib.request.urlopen(request, context=self._tls) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}


def definition(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
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
    found: list[dict[str, str]] = body["details"]["causes"]
    return found


def tried(server: Server, name: str, batch: list[Case]) -> dict[str, Any]:
    """What the server says of the values and updates of some cases."""
    objects = f"/apis/{_GROUP}/v1/{name}s"
    place = f"{_DEFINITIONS}/{name}s.{_GROUP}"
    server.call("DELETE", place)
    while server.call("GET", place)[0] != 404:
        time.sleep(0.2)
    server.call("POST", _DEFINITIONS, definition(name, {case.name: case.bare for case in batch}))
    while server.call("GET", f"{objects}?limit=1")[0] != 200:
        time.sleep(0.2)
    body = {"apiVersion": f"{_GROUP}/v1", "kind": name.capitalize()}
    olds = {}
    for case in batch:
        for index, (old, _) in enumerate(case.updates):
            made = server.call("POST", objects, {**body, "metadata": {"name": f"{case.name}-{index}"}, "spec": {case.name: old}})
            olds[case.name, index] = made[1]
    _, current = server.call("GET", place)
    fields = {case.name: case.schema for case in batch} | {"probe": _probe()}
    current["spec"]["versions"] = definition(name, fields)["spec"]["versions"]
    if causes(server.call("PUT", place, current)):
        raise SystemExit(f"the rules of {name} do not compile together")
    probe = {**body, "metadata": {"name": "probe"}, "spec": {"probe": 1}}
    while server.call("POST", f"{objects}?dryRun=All", probe)[0] != 422:
        time.sleep(0.2)
    found = {}
    for case in batch:
        new = {**body, "metadata": {"name": f"{case.name}-new"}}
        created = [
            causes(server.call("POST", f"{objects}?dryRun=All", {**new, "spec": {case.name: value}})) for value in case.values
        ]
        updated = [
            causes(
                server.call(
                    "PUT", f"{objects}/{case.name}-{index}?dryRun=All", {**olds[case.name, index], "spec": {case.name: value}}
                )
            )
            for index, (_, value) in enumerate(case.updates)
        ]
        found[case.name] = {"rule": case.rule, "compile": [], "values": created, "updates": updated}
    server.call("DELETE", place)
    return found


def _probe() -> dict[str, Any]:
    """A rule that always fails tells when the definition with rules is in force."""
    return {"type": "integer", "x-kubernetes-validations": [{"rule": "false"}]}


def main() -> None:
    server = Server(*sys.argv[1:3])
    found: dict[str, Any] = {}
    good = []
    for case in cases():
        answer = causes(server.call("POST", f"{_DEFINITIONS}?dryRun=All", definition("dry", {case.name: case.schema})))
        if answer:
            found[case.name] = {"rule": case.rule, "compile": answer}
        else:
            good.append(case)
    for start in range(0, len(good), _PER_DEFINITION):
        found |= tried(server, f"batch{start}", good[start : start + _PER_DEFINITION])
    OBSERVED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(found)} cases, {sum(bool(one['compile']) for one in found.values())} of them do not compile", file=sys.stderr)


if __name__ == "__main__":
    main()
