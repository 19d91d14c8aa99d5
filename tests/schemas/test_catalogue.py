"""The catalog of built-in kinds, and the OpenAPI documents built from it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from sliceworks.schemas.builtins import Scheme, builtin_scheme
from sliceworks.schemas.model import MISSING, Schema
from sliceworks.twin.apiserver.openapi.v3 import builtin_document, custom_document

DEFINITION: dict[str, Any] = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "description": "Wanted."}},
                    }
                },
            }
        ],
    }
}


def resource(plural: str, group: str = "") -> Any:
    return next(resource for resource in builtin_scheme().resources if (resource.group, resource.plural) == (group, plural))


def test_groups_and_versions_have_the_servers_order() -> None:
    groups = {group.name: group.versions for group in builtin_scheme().groups}
    assert next(iter(groups)) == ""
    assert groups["autoscaling"] == ("v2", "v1")
    assert groups["resource.k8s.io"] == ("v1",)


def test_resource_matches_discovery() -> None:
    pods = resource("pods")
    assert (pods.kind, pods.singular, pods.short_names, pods.categories, pods.namespaced) == ("Pod", "pod", ("po",), ("all",), True)
    assert "deletecollection" in pods.verbs
    assert not resource("nodes").namespaced


@pytest.mark.parametrize(
    ("plural", "group", "name", "kind"),
    [
        ("deployments", "apps", "scale", ("autoscaling", "v1", "Scale")),
        ("pods", "", "eviction", ("policy", "v1", "Eviction")),
        ("serviceaccounts", "", "token", ("authentication.k8s.io", "v1", "TokenRequest")),
        ("pods", "", "status", ("", "v1", "Pod")),
    ],
)
def test_subresource_has_its_own_kind(plural: str, group: str, name: str, kind: tuple[str, str, str]) -> None:
    part = next(item for item in resource(plural, group).subresources if item.name == name)
    assert (part.group, part.version, part.kind) == kind
    assert builtin_scheme().schema(*kind).properties["metadata"].name.endswith("ObjectMeta")


def test_every_served_kind_has_a_schema() -> None:
    for resource in builtin_scheme().resources:
        assert builtin_scheme().schema(resource.group, resource.version, resource.kind).type == "object"


def test_schema_has_list_and_struct_types() -> None:
    spec = builtin_scheme().component("io.k8s.api.core.v1.PodSpec")
    containers = spec.properties["containers"]
    assert (containers.list_type, containers.list_map_keys, containers.patch_merge_key) == ("map", ("name",), "name")
    assert spec.properties["volumes"].patch_strategy == {"merge", "retainKeys"}
    strategy = builtin_scheme().component("io.k8s.api.apps.v1.DeploymentSpec").properties["strategy"]
    assert strategy.patch_strategy == {"retainKeys"}
    assert strategy.name == "io.k8s.api.apps.v1.DeploymentStrategy"
    assert spec.properties["nodeSelector"].map_type == "atomic"
    assert spec.properties["hostname"].default is MISSING


def test_components_are_shared_and_can_be_recursive() -> None:
    props = builtin_scheme().component("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert props.properties["not"] is props
    assert builtin_scheme().schema("", "v1", "Pod").properties["spec"] is builtin_scheme().component("io.k8s.api.core.v1.PodSpec")


def test_unknown_kind_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        builtin_scheme().schema("", "v1", "Nothing")
    with pytest.raises(KeyError):
        builtin_scheme().schema("nowhere.dev", "v1", "Nothing")
    with pytest.raises(KeyError):
        builtin_document("nowhere.dev", "v1")


def test_every_reference_in_a_document_resolves() -> None:
    for group in builtin_scheme().groups:
        for version in group.versions:
            document = orjson.loads(builtin_document(group.name, version))
            assert _references(document) <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in _references(item)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    return own.union(*(_references(value) for value in node.values()))


def test_operations_declare_the_query_parameters() -> None:
    document = orjson.loads(builtin_document("apps", "v1"))
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {item["name"] for item in patch["parameters"]} == {"dryRun", "fieldManager", "fieldValidation", "force"}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "kind": "Deployment", "version": "v1"}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_crd_has_its_own_document() -> None:
    document = orjson.loads(custom_document("example.com", "v1", [DEFINITION]))
    schemas = document["components"]["schemas"]
    kind = {"group": "example.com", "kind": "Thing", "version": "v1"}
    assert schemas["com.example.v1.Thing"]["x-kubernetes-group-version-kind"] == [kind]
    assert schemas["com.example.v1.Thing"]["properties"]["spec"]["description"] == "Wanted."
    assert schemas["com.example.v1.ThingList"]["properties"]["items"]["items"]["$ref"].endswith("com.example.v1.Thing")
    assert _references(document) <= {f"#/components/schemas/{name}" for name in schemas}
    item = "/apis/example.com/v1/namespaces/{namespace}/things/{name}"
    assert {item, f"{item}/status", f"{item}/scale"} <= set(document["paths"])
    assert "application/strategic-merge-patch+json" not in document["paths"][item]["patch"]["requestBody"]["content"]


def test_threads_decode_with_complete_schemas_only() -> None:
    """The defaults of a component are part of it from the moment that it is cached."""
    scheme, seen = Scheme(), list[bool]()

    class Components(dict[str, Schema]):
        def __setitem__(self, name: str, schema: Schema) -> None:
            seen.append(bool(schema.defaulters))
            super().__setitem__(name, schema)

    scheme.register({"io.k8s.api.core.v1.Pod": lambda _: None}, {})
    scheme._components = Components()
    scheme.component("io.k8s.api.core.v1.Pod")
    assert seen == [True]
