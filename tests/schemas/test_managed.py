"""Field ownership across requests: versions, changed schemas, manager names, and writes without changes."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.schemas import Schema, build
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.fieldmanager import updater
from sliceworks.twin.apiserver.fieldmanager.managed_fields import manager_errors, manager_name

Object = dict[str, Any]
NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"


def widget_schema(**listing: Any) -> Schema:
    items = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}
    spec = {
        "type": "object",
        "properties": {"parts": {"type": "array", "items": items, **listing}, "any": {"x-kubernetes-int-or-string": True}},
    }
    return build({"type": "object", "properties": {"spec": spec}})


KEYED: Object = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def widget(**spec: Any) -> Object:
    return {"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def created(obj: Object, schema: Schema) -> Object:
    updater.update(None, obj, schema, manager="alice", api_version="x.dev/v1", now=NOON)
    obj["metadata"]["uid"] = "u"
    return obj


def owners(obj: Object) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def test_list_that_became_atomic_has_one_owner() -> None:
    live = created(widget(parts=[{"name": "a", "size": 1}]), widget_schema(**KEYED))
    assert owners(live) == {
        "alice": {"f:spec": {".": {}, "f:parts": {".": {}, 'k:{"name":"a"}': {".": {}, "f:name": {}, "f:size": {}}}}}
    }
    new = {**live, "spec": {**live["spec"], "any": 1}}
    updater.update(live, new, widget_schema(), manager="bob", api_version="x.dev/v1", now=LATER)
    assert owners(new) == {"alice": {"f:spec": {".": {}, "f:parts": {}}}, "bob": {"f:spec": {"f:any": {}}}}


def test_duplicate_items_have_no_owners() -> None:
    result = widget(parts=[{"size": 1}])
    updater.update(None, result, widget_schema(**KEYED), manager="alice", api_version="x.dev/v1", now=NOON)
    assert "managedFields" not in result["metadata"]


def test_duplicate_items_share_an_owner_until_they_are_unique() -> None:
    schema = widget_schema(**KEYED)
    live = created(widget(parts=[{"name": "a", "size": 1}, {"name": "a", "size": 2}]), schema)
    assert owners(live)["alice"]["f:spec"]["f:parts"] == {".": {}, 'k:{"name":"a"}': {}}
    new = {**live, "spec": {"parts": [{"name": "a", "size": 1}]}}
    updater.update(live, new, schema, manager="bob", api_version="x.dev/v1", now=LATER)
    assert owners(new) == {
        "alice": {"f:spec": {".": {}, "f:parts": {}}},
        "bob": {"f:spec": {"f:parts": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:size": {}}}}},
    }


def test_reverted_update_keeps_the_times() -> None:
    live = created(widget(any=1), widget_schema())
    entry = live["metadata"]["managedFields"][0]
    new = {**live, "metadata": {**live["metadata"], "managedFields": [{**entry, "time": LATER}]}}
    updater.keep_timestamps(live, new)
    assert new == live
    changed = {**new, "metadata": {**live["metadata"], "managedFields": [{**entry, "time": LATER}]}, "spec": {"any": 2}}
    updater.keep_timestamps(live, changed)
    assert changed["metadata"]["managedFields"][0]["time"] == LATER


def test_write_does_not_change_the_live_object() -> None:
    live = created(widget(any=1), widget_schema())
    new = {**live, "spec": {"any": 2}}
    updater.update(live, new, widget_schema(), manager="bob", api_version="x.dev/v1", now=LATER)
    assert owners(live) == {"alice": {"f:spec": {".": {}, "f:any": {}}}}
    assert owners(new) == {"alice": {"f:spec": {}}, "bob": {"f:spec": {"f:any": {}}}}


def test_manager_without_a_name_is_unknown() -> None:
    result = widget(any=1)
    updater.update(None, result, widget_schema(), manager="", api_version="x.dev/v1", now=NOON)
    assert list(owners(result)) == ["unknown"]


def test_apply_without_fields_owns_no_fields() -> None:
    schema = builtin_scheme().schema("", "v1", "ConfigMap")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    result = updater.apply(None, applied, schema, manager="a", api_version="v1", now=NOON, kind="ConfigMap")
    assert result == applied


@pytest.mark.parametrize(
    ("given", "agent", "name"),
    [
        ("mine", "kubectl/v1.35", "mine"),
        ("", "kubectl/v1.35 (linux)", "kubectl"),
        ("", "ku\x07be ctl", "kube ctl"),
        ("", "é" * 100, "é" * 64),
        ("", "", ""),
    ],
)
def test_manager_is_the_field_manager_or_the_user_agent(given: str, agent: str, name: str) -> None:
    assert manager_name(given, agent) == name


def test_invalid_manager_names() -> None:
    assert manager_errors("kubectl-client-side-apply") == []
    assert [str(error) for error in manager_errors("x" * 129)] == ["fieldManager: Too long: may not be more than 128 bytes"]
    assert [error.detail for error in manager_errors("é\x01")] == ["invalid character U+0001 (at position 2)"]
