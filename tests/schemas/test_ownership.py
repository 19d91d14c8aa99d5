"""Field ownership, compared with the responses of a real API server."""

from __future__ import annotations

import functools
from typing import Any

import orjson
import pytest
from tests.schemas.ownership.record import OBSERVED, body_of, crds, merged, name_of, sequences, verb

from sliceworks.base.errors import ApiError
from sliceworks.schemas import Schema, build
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.fieldmanager import managed_fields, updater

Object = dict[str, Any]

STATUS: Object = {"f:status": {}}
SPEC: Object = {"f:spec": {}}
DEFAULTED = ("replicas", "colour")
# Fields that the status endpoints of built-in kinds do not write.
STATUS_RESETS: dict[str, Object] = {
    "Deployment": {"f:spec": {}, "f:metadata": {"f:labels": {}}},
    "Pod": {"f:spec": {}, "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
}


@functools.cache
def observed() -> dict[str, list[Object]]:
    return {one["name"]: one["steps"] for one in orjson.loads(OBSERVED.read_bytes())}


@functools.cache
def schema_of(resource: str) -> Schema:
    *version, plural, kind = resource.split("/")
    for crd in crds():
        if crd["spec"]["names"]["plural"] == plural:
            return build(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    return builtin_scheme().schema("" if len(version) == 1 else version[0], version[-1], kind)


def cases() -> list[Any]:
    result = []
    for sequence in sequences():
        for index, step in enumerate(sequence["steps"]):
            result.append(pytest.param(sequence, index, id=f"{sequence['name']} {index}: {verb(step)} by {step['as']}"))
    return result


@pytest.mark.parametrize(("sequence", "index"), cases())
def test_owners_match_the_real_server(sequence: Object, index: int) -> None:
    step, answer = sequence["steps"][index], observed()[sequence["name"]][index]
    live = live_before(observed()[sequence["name"]][:index])
    if answer["code"] == 422 and verb(step) != "apply":
        return
    play = _scaled if step.get("subresource") == "scale" else _applied if verb(step) == "apply" else _written
    if answer["code"] >= 300 and answer["code"] != 422:
        with pytest.raises(ApiError) as refusal:
            play(sequence, step, live, answer)
        assert (refusal.value.code, refusal.value.message) == (_code(answer), answer["status"]["message"])
        assert _causes(refusal.value.details) == _causes(answer["status"].get("details"))
        return
    result = play(sequence, step, live, answer)
    if answer["code"] == 422:
        return
    assert result["metadata"].get("managedFields", []) == answer["object"]["metadata"].get("managedFields", [])
    if not sequence["of"].startswith("ownership.") and "scale" not in sequence["name"]:
        # Only built-in kinds are written in the order of the set; custom resources and scale have all their keys sorted.
        assert orjson.dumps(result["metadata"].get("managedFields")) == orjson.dumps(
            answer["object"]["metadata"].get("managedFields")
        )


def _causes(details: Object | None) -> list[Object]:
    """The real server iterates over managers in random order."""
    return sorted((details or {}).get("causes", ()), key=orjson.dumps)


def _code(answer: Object) -> int:
    """The real server returns 500 for an invalid applied object; the twin returns 400."""
    return 400 if answer["code"] == 500 else int(answer["code"])


def live_before(before: list[Object]) -> Object | None:
    return next((step["object"] for step in reversed(before) if "object" in step), None)


def _resets(sequence: Object, step: Object) -> Object:
    if step.get("subresource") != "status":
        kind = sequence["of"].rpartition("/")[2]
        return STATUS if "status" in schema_of(sequence["of"]).properties or kind == "Widget" else {}
    return STATUS_RESETS.get(sequence["of"].rpartition("/")[2], SPEC)


def common_of(sequence: Object, step: Object, live: Object | None, answer: Object) -> Object:
    return {
        "manager": step["as"],
        "subresource": step.get("subresource", ""),
        "api_version": sequence["of"].rpartition("/")[0].rpartition("/")[0],
        "now": answer["now"],
        "reset_fields": _resets(sequence, step),
    }


def _written(sequence: Object, step: Object, live: Object | None, answer: Object) -> Object:
    new: Object = orjson.loads(orjson.dumps(answer["object"]))
    new["metadata"].pop("managedFields", None)
    if live is None:
        new.pop("status", None)
        for path in set(sequence.get("unowned", ())) - set(step.get("kept", ())):
            _drop(new, path.split("/"))
    sent = _sent_entries(step, live)
    if sent is not None:
        new["metadata"]["managedFields"] = sent
    frozen = orjson.dumps([live, answer])
    updater.update(live, new, schema_of(sequence["of"]), **common_of(sequence, step, live, answer))
    assert orjson.dumps([live, answer]) == frozen
    return new


def _scaled(sequence: Object, step: Object, live: Object | None, answer: Object) -> Object:
    assert live is not None
    common = common_of(sequence, step, live, answer)
    version, paths = common["api_version"], {common["api_version"]: managed_fields.REPLICAS}
    entries = live["metadata"]["managedFields"]
    old = {
        "metadata": {"uid": "u", "managedFields": managed_fields.to_scale_entries(entries, paths)},
        "spec": {"replicas": live["spec"]["replicas"]},
    }
    new = {"metadata": {"uid": "u"}, "spec": {"replicas": answer["object"]["spec"]["replicas"]}}
    common |= {"api_version": managed_fields.SCALE, "reset_fields": STATUS}
    updater.update(old, new, builtin_scheme().schema("autoscaling", "v1", "Scale"), **common)
    owners: list[Object] = managed_fields.to_parent_entries(entries, new["metadata"].get("managedFields", []), version, paths)
    return {"metadata": {"managedFields": owners}}


def _drop(value: Object, path: list[str]) -> None:
    for name in path[:-1]:
        value = value.get(name, {})
    value.pop(path[-1], None)


def _sent_entries(step: Object, live: Object | None) -> Any:
    do = verb(step)
    if do in ("put", "merge") and live is not None:
        return merged(live, step[do])["metadata"].get("managedFields")
    if do == "json":
        return next((op.get("value") for op in step["json"] if op["path"] == "/metadata/managedFields"), None)
    return None


def _applied(sequence: Object, step: Object, live: Object | None, answer: Object) -> Object:
    body = body_of(step, sequence["of"], name_of(sequences().index(sequence)))
    common = common_of(sequence, step, live, answer)
    frozen = orjson.dumps([live, body])
    kind = sequence["of"].rpartition("/")[2]
    result = updater.apply(live, body, schema_of(sequence["of"]), force=step.get("force", False), kind=kind, **common)
    assert orjson.dumps([live, body]) == frozen
    if answer["code"] < 300 and live is not None and not step.get("subresource"):
        _assert_same(_without_owners(result), _without_owners(answer["object"]), live, "")
    return result


def _without_owners(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("managedFields", "generation")}
    return {**obj, "metadata": metadata}


def _assert_same(ours: Any, theirs: Any, live: Any, path: str) -> None:
    """Both are equal except for defaults: additional fields of the real object must be new."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        before = live if isinstance(live, dict) else {}
        for key in ours.keys() | theirs.keys():
            if key == "status" and not path:
                continue
            if key not in ours:
                assert key not in before or theirs[key] in (None, {}, []) or key in DEFAULTED, f"{path}.{key} should be gone"
            elif ours[key] is not None and (ours[key] not in ({}, []) or key in theirs):
                assert key in theirs, f"{path}.{key} should not be there"
                _assert_same(ours[key], theirs[key], before.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        assert len(ours) == len(theirs), path
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            _assert_same(left, right, None, f"{path}[{index}]")
    else:
        assert ours == theirs or str(ours) == str(theirs), path
