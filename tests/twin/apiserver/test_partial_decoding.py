"""Patches decode only what they change: the result is that of decoding the whole object."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.objects import KINDS, Kind

from sliceworks.base.errors import ApiError
from sliceworks.base.transport import Request
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.auth.authentication import administrator
from sliceworks.twin.apiserver.patch import patcher
from sliceworks.twin.apiserver.registry.kinds import builtin_registry
from sliceworks.twin.apiserver.request_info import Call, parse_request_info

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
NOW = "2024-01-01T00:00:00Z"
JSON_PATCH, MERGE, STRATEGIC = codec.PATCH_TYPES[:3]
REGISTRY = builtin_registry()
OWNED = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": NOW,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {}},
}
METADATA: Object = {
    "uid": "u",
    "creationTimestamp": NOW,
    "generation": 1,
    "labels": {"a": "1"},
    "finalizers": ["x/y"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "q"}],
    "managedFields": [OWNED],
}
VALUES: list[Any] = [None, "", "x", 1, 1.0, True, {}, [], {"a": "b"}, {"a": 1}, {"a": None}, ["x"], [None], [{}]]
NAMES = ["extra", "labels", "annotations", "spec", "status", "name", "kind", "managedFields", "-"]


def call(kind: Kind, body: Any, media: str, validation: str) -> Call:
    path = f"{kind.collection('ns')}/thing"
    target = parse_request_info("PATCH", path)
    served = REGISTRY.find(target.group, target.version, target.resource)
    assert served is not None
    request = Request("PATCH", path, headers={"content-type": media}, body=orjson.dumps(body))
    return Call(request, target, administrator(), *served, {"fieldValidation": [validation]})


def stored(kind: Kind, random: Random) -> Object:
    """A decoded object with some metadata."""
    obj = kind.object("thing", "ns")
    obj["metadata"] |= {name: deepcopy(value) for name, value in METADATA.items() if random.random() < 0.6}
    obj["metadata"]["namespace"] = "ns"
    return codec.decode(call(kind, obj, codec.JSON, "Ignore"), obj, [])


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


def json_patch(old: Object, random: Random) -> list[Object]:
    known = list(paths(old))

    def pointer() -> str:
        path = random.choice(known)
        path = (*path[:-1], random.choice(NAMES)) if random.random() < 0.3 else path
        return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in path)

    kinds = [("add", "value"), ("replace", "value"), ("test", "value"), ("remove", ""), ("copy", "from"), ("move", "from")]
    chosen = [random.choice(kinds) for _ in range(random.randint(1, 3))]
    arguments = {"value": lambda: random.choice(VALUES), "from": pointer}
    return [{"op": op, "path": pointer(), **({name: arguments[name]()} if name else {})} for op, name in chosen]


def merge_patch(old: Object, random: Random) -> Object:
    patch: Object = {}
    fields = [tuple(map(str, path)) for path in paths(old) if not any(isinstance(key, int) for key in path)]
    for _ in range(random.randint(1, 3)):
        path = random.choice(fields)
        parent = patch
        for key in path[:-1]:
            if not isinstance(parent.get(key), dict):
                parent[key] = {}
            parent = parent[key]
        parent[random.choice(NAMES) if random.random() < 0.3 else path[-1]] = deepcopy(random.choice(VALUES))
    return patch


def outcome(kind: Kind, old: Object, body: Any, media: str, validation: str) -> tuple[object, ...]:
    given = call(kind, body, media, validation)
    try:
        patched = patcher.apply_patch(given, patcher.read_patch(given), deepcopy(old), NOW)
    except ApiError as error:
        return type(error), error.message, given.warnings
    return patched, orjson.dumps(patched, option=orjson.OPT_SORT_KEYS), given.warnings, given.reset_managed_fields


@pytest.mark.parametrize("path", ["/metadata/labels", "/metadata/extra", "/extra"])
def test_null_that_a_patch_adds_is_decoded(path: str) -> None:
    kind = next(kind for kind in KINDS if kind.kind == "ConfigMap")
    obj = kind.object("thing", "ns")
    given = call(kind, [{"op": "add", "path": path, "value": None}], JSON_PATCH, "Warn")
    patched = patcher.apply_patch(given, patcher.read_patch(given), deepcopy(obj), NOW)
    assert patched == obj
    assert given.warnings == ([] if path == "/metadata/labels" else [f'unknown field "{path[1:].replace("/", ".")}"'])


@pytest.mark.parametrize("seed", range(4))
def test_partial_decoding_has_the_same_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    for _ in range(150):
        kind = random.choice(KINDS)
        old = stored(kind, random)
        media = random.choice([JSON_PATCH, MERGE, STRATEGIC])
        body = json_patch(old, random) if media == JSON_PATCH else merge_patch(old, random)
        validation = random.choice(["Ignore", "Warn", "Strict"])
        partial = outcome(kind, old, body, media, validation)
        with monkeypatch.context() as whole:
            whole.setattr(patcher, "_untouched", lambda *_: ({}, {}))
            assert partial == outcome(kind, old, body, media, validation), (kind.id, media, body)
