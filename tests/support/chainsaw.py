"""Runs end-to-end scenarios written for Chainsaw: its apply, assert, error, delete and wait operations.

A controller's scenarios are read from its Go module at test time. Sleeps are skipped, because every assertion waits until it holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml
from tests.support.http import APPLY_PATCH
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.http import Api

Object = dict[str, Any]
_FILTER = re.compile(r"\((\w+)\[\?(\w+) == '(\w+)'\]\)")


@dataclass(frozen=True)
class Scenario:
    """A folder with a `chainsaw-test.yaml` that runs in one namespace; `before` maps an assert file to a callback."""

    folder: Path
    api: Api
    ns: str
    before: Mapping[str, Callable[[], object]] = field(default_factory=dict)

    def play(self) -> None:
        """Run all steps in order."""
        for test in self._documents("chainsaw-test.yaml"):
            for step in test["spec"]["steps"]:
                for operation in step["try"]:
                    self._perform(operation)

    def _perform(self, operation: Object) -> None:
        (verb,) = operation.keys() - {"description"}
        match verb:
            case "apply":
                for obj in self._documents(operation["apply"]["file"]):
                    apply(self.api, obj, self.ns)
            case "assert":
                self._assert(operation["assert"]["file"])
            case "error":
                assert not any(self._matches(obj) for obj in self._documents(operation["error"]["file"])), operation
            case "delete":
                self._delete(operation["delete"]["ref"])
            case "wait":
                self._wait(operation["wait"])
            case "sleep":
                pass
            case _:
                raise NotImplementedError(f"{self.folder.name}: {verb}")

    def _assert(self, name: str) -> None:
        if name in self.before:
            self.before[name]()
        for obj in self._documents(name):
            eventually(partial(self._same, obj), what=f"{self.folder.name}: {name}")

    def _documents(self, name: str) -> list[Object]:
        text = (self.folder / name).read_text()
        return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]

    def _same(self, expected: Object) -> bool:
        differences = list(differing(expected, self.api.get(locate(self.api, expected, self.ns)).ok(200).json))
        assert not differences, differences
        return True

    def _matches(self, obj: Object) -> bool:
        response = self.api.get(locate(self.api, obj, self.ns))
        return response.status == 200 and not list(differing(obj, response.json))

    def _delete(self, reference: Object) -> None:
        path = locate(self.api, {**reference, "metadata": {"name": reference["name"]}}, self.ns)
        self.api.delete(path).ok()
        eventually(lambda: self.api.get(path).status == 404, what=f"{path} is deleted")

    def _wait(self, what: Object) -> None:
        desired = re.search(r"@\.type=='(\w+)'", what["for"]["jsonPath"]["path"])
        assert desired, what
        condition = {"type": desired[1], "status": what["for"]["jsonPath"]["value"]}
        expected = {**what, "metadata": {"name": what["name"]}, "status": {f"(conditions[?type == '{desired[1]}'])": [condition]}}
        del expected["for"], expected["name"], expected["namespace"], expected["timeout"]
        eventually(lambda: self._same(expected), what=f"{what['kind']} {what['name']} is {condition}")


def apply(api: Api, obj: Object, ns: str = "") -> Object:
    """Apply an object after its kind is served."""
    query = {"fieldManager": "scenario", "force": "true"}
    path = eventually(lambda: locate(api, obj, ns), what=f"{obj['kind']} is served")
    applied: Object = api.request("PATCH", path, obj, query=query, content_type=APPLY_PATCH).ok().json
    return applied


def locate(api: Api, obj: Object, ns: str = "") -> str:
    """The path of an object, found through discovery; the object's own namespace takes precedence over `ns`."""
    root = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
    listed = api.get(root).ok(200).json["resources"]
    result = [item for item in listed if item["kind"] == obj["kind"] and "/" not in item["name"]]
    assert result, f"{obj['kind']} is not served"
    inside = f"/namespaces/{obj['metadata'].get('namespace') or ns}" if result[0]["namespaced"] else ""
    return f"{root}{inside}/{result[0]['name']}/{obj['metadata']['name']}"


def differing(expected: Any, seen: Any, path: str = "") -> list[str]:
    """Yield the paths where `seen` lacks what is expected: the named fields of a map, all items of a list."""
    if isinstance(expected, dict):
        if not isinstance(seen, dict):
            return [f"{path} is {seen!r}"]
        return [text for key, value in expected.items() for text in _field(key, value, seen, path)]
    if isinstance(expected, list):
        if not isinstance(seen, list) or len(seen) != len(expected):
            return [f"{path} is {seen!r} and not {expected!r}"]
        return [text for index, value in enumerate(expected) for text in differing(value, seen[index], f"{path}[{index}]")]
    return [] if expected == seen else [f"{path} is {seen!r} and not {expected!r}"]


def _field(key: str, value: Any, seen: Object, path: str) -> list[str]:
    chosen = _FILTER.fullmatch(key)
    if chosen is None:
        return differing(value, seen.get(key), f"{path}.{key}")
    items = [item for item in seen.get(chosen[1]) or () if item.get(chosen[2]) == chosen[3]]
    return differing(value, items, f"{path}.{key}")
