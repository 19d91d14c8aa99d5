"""Custom resource definitions: Established, discovery, versions, status, scale, columns, updates and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_resources import CRDS, Custom, define, definition, is_established, simple
from tests.support.http import MERGE_PATCH, TABLE
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]


def version(name: str = "v1", spec: Object | None = None, **extra: Any) -> Object:
    """One version of a definition."""
    properties = {"spec": spec or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    properties["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": True, "storage": True, "schema": schema, **extra}


def test_definition_becomes_established(api: Api) -> None:
    custom = define(api, simple())
    live = api.get(custom.definition).ok(200).json
    assert live["spec"]["names"] == {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    assert live["spec"]["conversion"] == {"strategy": "None"}
    assert live["status"]["acceptedNames"] == live["spec"]["names"]
    assert live["status"]["storedVersions"] == ["v1"]
    conditions = {c["type"]: (c["status"], c["reason"], c["message"]) for c in live["status"]["conditions"]}
    assert conditions["NamesAccepted"] == ("True", "NoConflicts", "no conflicts found")
    assert conditions["Established"] == ("True", "InitialNamesAccepted", "the initial names have been accepted")


def test_discovery_lists_the_kind(api: Api) -> None:
    custom = define(api, definition("gadgets", [version()], shortNames=["gd"], categories=["all"]))
    eventually(lambda: any(group["name"] == custom.group for group in api.get("/apis").json["groups"]), what="the group is listed")
    eventually(lambda: api.get(f"/apis/{custom.group}").status == 200)
    [resource] = api.get(f"/apis/{custom.group}/v1").ok(200).json["resources"]
    assert resource.pop("storageVersionHash", "")
    assert resource == {
        "name": "gadgets",
        "singularName": "gadget",
        "namespaced": True,
        "kind": "Gadget",
        "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        "shortNames": ["gd"],
        "categories": ["all"],
    }
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    eventually(lambda: any(i["metadata"]["name"] == custom.group for i in api.get("/apis", accept=accept).json["items"]))


def test_openapi_has_the_kind(api: Api) -> None:
    custom = define(api, simple(spec={"type": "object", "properties": {"size": {"type": "integer", "description": "how big"}}}))
    key = f"apis/{custom.group}/v1"
    url = eventually(
        lambda: api.get("/openapi/v3").json["paths"].get(key, {}).get("serverRelativeURL"), what="the document is listed"
    )
    document = api.get(url).ok(200).json
    schema = next(s for name, s in document["components"]["schemas"].items() if name.endswith(".Widget"))
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer", "description": "how big"}
    assert schema["x-kubernetes-group-version-kind"] == [{"group": custom.group, "version": "v1", "kind": "Widget"}]
    assert f"/{key}/namespaces/{{namespace}}/widgets/{{name}}" in document["paths"]


def test_object_lifecycle(api: Api, ns: str) -> None:
    custom = define(api, simple())
    created = api.post(custom.at(ns), custom.object(spec={"a": 1})).ok(201).json
    assert created["metadata"]["generation"] == 1
    assert (created["apiVersion"], created["kind"]) == (f"{custom.group}/v1", "Widget")
    listed = api.get(custom.at(ns)).ok(200).json
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", f"{custom.group}/v1")
    assert (listed["items"][0]["kind"], listed["items"][0]["apiVersion"]) == ("Widget", f"{custom.group}/v1")
    patched = api.patch(f"{custom.at(ns)}/a", {"spec": {"a": 2}}, MERGE_PATCH).ok(200).json
    assert patched["metadata"]["generation"] == 2
    assert api.patch(f"{custom.at(ns)}/a", {"metadata": {"labels": {"x": "y"}}}).ok(200).json["metadata"]["generation"] == 2
    patched["metadata"].pop("resourceVersion")
    answer = api.put(f"{custom.at(ns)}/a", patched).refused(422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")]
    deleted = api.delete(f"{custom.at(ns)}/a").ok(200).json
    assert deleted["details"] == {"name": "a", "group": custom.group, "kind": "widgets", "uid": created["metadata"]["uid"]}


def test_cluster_scoped_kind_is_served(api: Api, ns: str) -> None:
    custom = define(api, definition("worlds", [version()], scope="Cluster"))
    created = api.post(custom.at(), custom.object()).ok(201).json
    assert "namespace" not in created["metadata"]
    assert api.get(custom.at(ns)).status == 404


def test_without_status_subresource_status_is_a_field(api: Api, ns: str) -> None:
    custom = define(api, simple())
    assert api.post(custom.at(ns), custom.object(status={"x": 1})).ok(201).json["status"] == {"x": 1}
    api.get(f"{custom.at(ns)}/a/status").refused(404, "NotFound")


def test_status_subresource_is_separate(api: Api, ns: str) -> None:
    custom = define(api, simple(subresources={"status": {}}))
    created = api.post(custom.at(ns), custom.object(spec={"a": 1}, status={"x": 1})).ok(201).json
    assert "status" not in created
    live = api.patch(f"{custom.at(ns)}/a/status", {"spec": {"a": 9}, "status": {"x": 2}}).ok(200).json
    assert (live["spec"], live["status"], live["metadata"]["generation"]) == ({"a": 1}, {"x": 2}, 1)
    live = api.patch(f"{custom.at(ns)}/a", {"spec": {"a": 9}, "status": {"x": 3}}).ok(200).json
    assert (live["spec"], live["status"], live["metadata"]["generation"]) == ({"a": 9}, {"x": 2}, 2)
    names = {resource["name"] for resource in api.get(f"/apis/{custom.group}/v1").json["resources"]}
    assert names == {"widgets", "widgets/status"}


def test_scale_subresource_is_served(api: Api, ns: str) -> None:
    paths = {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count", "labelSelectorPath": ".status.selector"}
    custom = define(api, simple(subresources={"status": {}, "scale": paths}))
    api.post(custom.at(ns), custom.object(spec={"count": 3})).ok(201)
    api.patch(f"{custom.at(ns)}/a/status", {"status": {"count": 2, "selector": "x=y"}}).ok(200)
    scale = api.get(f"{custom.at(ns)}/a/scale").ok(200).json
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 3}, {"replicas": 2, "selector": "x=y"})
    assert api.patch(f"{custom.at(ns)}/a/scale", {"spec": {"replicas": 7}}).ok(200).json["spec"] == {"replicas": 7}
    assert api.get(f"{custom.at(ns)}/a").json["spec"] == {"count": 7}


def test_table_has_printer_columns(api: Api, ns: str) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status', "priority": 1},
        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    custom = define(api, simple(additionalPrinterColumns=columns))
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    api.post(custom.at(ns), custom.object(spec={"size": 5}, status=status)).ok(201)
    api.post(custom.at(ns), custom.object("b", spec={})).ok(201)
    table = api.get(custom.at(ns), accept=TABLE).ok(200).json
    assert [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Ready", "string", 1),
        ("Born", "date", 0),
    ]
    assert table["rows"][0]["cells"][:3] == ["a", 5, "True"]
    assert table["rows"][1]["cells"][:3] == ["b", None, None]


def test_table_has_default_columns(api: Api, ns: str) -> None:
    custom = define(api, simple())
    table = api.get(custom.at(ns), accept=TABLE).ok(200).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


def test_two_versions_are_served_without_conversion(api: Api, ns: str) -> None:
    custom = define(api, definition("widgets", [version("v2"), version("v1", storage=False)]))
    created = api.post(custom.at(ns, "v1"), custom.object(spec={"a": 1}, version="v1")).ok(201).json
    assert created["apiVersion"] == f"{custom.group}/v1"
    seen = api.get(f"{custom.at(ns, 'v2')}/a").ok(200).json
    assert (seen["apiVersion"], seen["spec"]) == (f"{custom.group}/v2", {"a": 1})
    with api.watch(custom.at(ns, "v2")) as watch:
        assert watch.next()["object"]["apiVersion"] == f"{custom.group}/v2"
    answer = api.post(custom.at(ns, "v1"), custom.object("b", version="v2")).refused(400, "BadRequest")
    expected = f"the API version in the data ({custom.group}/v2) does not match the expected API version ({custom.group}/v1)"
    assert answer.message == expected
    group = eventually(lambda: api.get(f"/apis/{custom.group}").ok(200).json)
    assert [v["version"] for v in group["versions"]] == ["v2", "v1"]


def test_object_of_an_older_storage_version_is_served(api: Api, ns: str) -> None:
    custom = define(api, definition("widgets", [version("v1"), version("v2", storage=False)]))
    api.post(custom.at(ns, "v1"), custom.object(spec={"a": 1})).ok(201)
    flags = [{"op": "replace", "path": f"/spec/versions/{at}/storage", "value": value} for at, value in enumerate((False, True))]
    api.patch(custom.definition, flags, "application/json-patch+json").ok(200)
    path = f"{custom.at(ns, 'v2')}/a"
    eventually(lambda: api.get(path).ok(200).json["apiVersion"] == f"{custom.group}/v2", what="the object has the new version")
    assert {item["apiVersion"] for item in api.get(custom.at(ns, "v2")).ok(200).json["items"]} == {f"{custom.group}/v2"}
    patch = [{"op": "add", "path": "/spec/b", "value": 2}]
    patched = eventually(lambda: api.patch(path, patch, "application/json-patch+json").ok(200).json)
    assert (patched["apiVersion"], patched["spec"]) == (f"{custom.group}/v2", {"a": 1, "b": 2})
    assert api.get(f"{custom.at(ns, 'v1')}/a").ok(200).json["apiVersion"] == f"{custom.group}/v1"


def test_new_object_has_the_default_status(api: Api, ns: str) -> None:
    crd = simple(subresources={"status": {}})
    status = {
        "type": "object",
        "default": {"phase": "New"},
        "properties": {"phase": {"type": "string"}, "n": {"type": "integer", "default": 1}},
    }
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = status
    custom = define(api, crd)
    created = api.post(custom.at(ns), {**custom.object(), "status": {"phase": "Mine"}}).ok(201).json
    applied = api.apply(f"{custom.at(ns)}/b", custom.object("b")).ok(201).json
    read = api.get(f"{custom.at(ns)}/a").ok(200).json
    assert [item["status"] for item in (created, applied, read)] == [{"phase": "New", "n": 1}] * 3
    assert not any(
        "f:status" in entry["fieldsV1"] for item in (created, applied) for entry in item["metadata"].get("managedFields", [])
    )
    changed = api.patch(f"{custom.at(ns)}/a/status", {"status": {"phase": "Done"}}).ok(200).json
    replaced = api.put(f"{custom.at(ns)}/a", {**changed, "status": {"phase": "Lost"}}).ok(200).json
    assert replaced["status"] == {"phase": "Done", "n": 1}


def test_schema_change_takes_effect(api: Api, ns: str) -> None:
    custom = define(api, simple(spec={"type": "object", "properties": {"a": {"type": "integer"}}}))
    api.post(custom.at(ns), custom.object(spec={"a": 1, "b": "x"})).ok(201)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b"
    patch = [{"op": "add", "path": path, "value": {"type": "string", "default": "d"}}]
    api.patch(custom.definition, patch, "application/json-patch+json").ok(200)
    eventually(lambda: api.get(f"{custom.at(ns)}/a").json["spec"] == {"a": 1, "b": "d"}, what="the default is seen on reading")


def test_unserved_version_is_not_found(api: Api, ns: str) -> None:
    custom = define(api, definition("widgets", [version("v2"), version("v1", storage=False)]))
    patch = [{"op": "replace", "path": "/spec/versions/1/served", "value": False}]
    api.patch(custom.definition, patch, "application/json-patch+json").ok(200)
    eventually(lambda: api.get(custom.at(ns, "v1")).status == 404)
    eventually(lambda: api.get(custom.at(ns, "v2")).status == 200)


def test_definition_deletion_deletes_objects(api: Api, ns: str) -> None:
    body = simple()
    custom = define(api, body)
    api.post(custom.at(ns), custom.object()).ok(201)
    with api.watch(custom.at(ns)) as watch:
        assert watch.next()["type"] == "ADDED"
        assert api.delete(custom.definition).ok(200).json["metadata"]["finalizers"] == [
            "customresourcecleanup.apiextensions.k8s.io"
        ]
        assert watch.next()["type"] == "DELETED"
    eventually(lambda: api.get(custom.definition).status == 404, what="the definition is deleted")
    eventually(lambda: api.get(custom.at(ns)).status == 404, what="its path is not served")
    again = define(api, body)
    assert api.get(again.at(ns)).names == []


def test_unserved_definition_is_deleted_with_its_objects(api: Api, ns: str) -> None:
    body = simple()
    custom = define(api, body)
    api.post(custom.at(ns), custom.object()).ok(201)
    [version] = body["spec"]["versions"]
    api.patch(custom.definition, {"spec": {"versions": [{**version, "served": False}]}}, MERGE_PATCH).ok(200)
    eventually(lambda: api.get(custom.at(ns)).status == 404, what="it is served no more")
    api.delete(custom.definition).ok(200)
    eventually(lambda: api.get(custom.definition).status == 404, what="the definition is deleted")
    again = define(api, body)
    assert api.get(again.at(ns)).names == []


def test_create_is_forbidden_while_definition_is_terminating(api: Api, ns: str) -> None:
    custom = define(api, simple())
    held = custom.object("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    api.post(custom.at(ns), held).ok(201)
    api.delete(custom.definition).ok(200)

    def refused() -> Object:
        response = api.post(custom.at(ns), custom.object("late"))
        return response.json if response.status not in {201, 409} else {}

    reported = eventually(refused, what="it is refused")
    text = "create not allowed while custom resource definition is terminating"
    assert reported["message"] == f'{custom.name} "late" is forbidden: {text}'
    assert (reported["code"], reported["reason"]) == (403, "Forbidden")
    assert reported["details"] == {"name": "late", "group": custom.group, "kind": custom.plural}
    api.patch(f"{custom.at(ns)}/held", {"metadata": {"finalizers": None}}, MERGE_PATCH).ok(200)
    eventually(lambda: api.get(custom.definition).status == 404, what="the definition is deleted")


def test_conflicting_names_are_not_accepted(api: Api) -> None:
    first = simple()
    define(api, first)
    clash = definition("gizmos", first["spec"]["versions"])
    clash["spec"]["group"] = first["spec"]["group"]
    clash["metadata"]["name"] = f"gizmos.{first['spec']['group']}"
    clash["spec"]["names"]["kind"] = "Widget"
    api.post(CRDS, clash).ok(201)
    custom = Custom(first["spec"]["group"], "v1", "Widget", "gizmos")

    def names_accepted() -> Object:
        conditions = api.get(custom.definition).json["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == "NamesAccepted"), {})

    condition = eventually(names_accepted)
    assert (condition["status"], condition["reason"]) == ("False", "ListKindConflict")
    assert condition["message"] == '"WidgetList" is already in use'
    assert not is_established(api, custom)


@pytest.mark.parametrize("where", ["group", "name"])
def test_immutable_fields_are_rejected(api: Api, where: str) -> None:
    custom = define(api, simple())
    patch = {"spec": {"group": "other.example.com"}} if where == "group" else {"spec": {"names": {"plural": "gizmos"}}}
    api.patch(custom.definition, patch).refused(422, "Invalid")


def test_selectable_fields_select_in_lists_watches_and_deletions(api: Api, ns: str) -> None:
    spec = {"type": "object", "properties": {"colour": {"type": "string"}, "size": {"type": "integer"}}}
    fields = [{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.size"}]
    custom = define(api, definition("paints", [version("v1", spec, selectableFields=fields)]))
    path = custom.at(ns)
    for name, colour, size in (("a", "red", 1), ("b", "blue", 1), ("c", "blue", 2)):
        api.post(path, custom.object(name, {"colour": colour, "size": size})).ok(201)
    api.post(path, custom.object("d", {})).ok(201)

    def names(selector: str) -> list[str]:
        return api.get(path, {"fieldSelector": selector}).ok(200).names

    assert names("spec.colour=blue") == ["b", "c"]
    assert names("spec.colour=blue,spec.size=2") == ["c"]
    assert names("spec.colour!=blue") == ["a", "d"]
    assert names("spec.colour=") == ["d"]
    assert names("metadata.name=a,spec.colour=red") == ["a"]
    with api.watch(path, {"fieldSelector": "spec.colour=red"}) as watch:
        assert watch.next()["object"]["metadata"]["name"] == "a"
        api.patch(f"{path}/b", {"spec": {"colour": "red"}}, MERGE_PATCH).ok(200)
        event = watch.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
        api.patch(f"{path}/a", {"spec": {"colour": "green"}}, MERGE_PATCH).ok(200)
        event = watch.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "a")
    api.delete(path, query={"fieldSelector": "spec.size=1"}).ok(200)
    assert api.get(path).ok(200).names == ["c", "d"]
    unknown = api.get(path, {"fieldSelector": "spec.other=x"}).refused(400, "BadRequest")
    assert "field label not supported: spec.other" in unknown.message
