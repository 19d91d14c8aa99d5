"""OpenAPI as kubectl explain, apply and diff read it: v3 documents and v2 definitions."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import goldens
from tests.support.custom_resources import define, simple
from tests.support.objects import KINDS, Kind
from tests.support.polling import eventually

from sliceworks.schemas.builtins import OBJECT_META, builtin_scheme

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api


def document(api: Api, group_version: str) -> dict[str, Any]:
    """The document of a group version, found through the index as clients do."""
    index = api.get("/openapi/v3").ok(200).json["paths"]
    key = f"api/{group_version}" if group_version == "v1" else f"apis/{group_version}"
    url: str = index[key]["serverRelativeURL"]
    assert url.startswith(f"/openapi/v3/{key}?hash=")
    result: dict[str, Any] = api.get(url).ok(200).json
    return result


def test_index_lists_groups(api: Api) -> None:
    paths = api.get("/openapi/v3").ok(200).json["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/apiextensions.k8s.io/v1"} <= paths.keys()


@pytest.mark.parametrize("group_version", sorted({kind.group_version for kind in KINDS}))
def test_document_has_the_kinds(api: Api, group_version: str) -> None:
    result = document(api, group_version)
    assert result["openapi"].startswith("3.")
    marked = {
        (gvk["group"], gvk["version"], gvk["kind"])
        for schema in result["components"]["schemas"].values()
        for gvk in schema.get("x-kubernetes-group-version-kind", [])
    }
    for kind in KINDS:
        if kind.group_version == group_version:
            group, _, version = f"/{group_version}".rpartition("/")
            assert (group.strip("/"), version, kind.kind) in marked


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.id) for kind in KINDS])
def test_patch_operation_takes_field_validation(api: Api, kind: Kind) -> None:
    path = kind.collection("{namespace}") + "/{name}"
    operation = document(api, kind.group_version)["paths"][path]["patch"]
    gvk = operation["x-kubernetes-group-version-kind"]
    assert gvk["kind"] == kind.kind
    assert "fieldValidation" in {parameter["name"] for parameter in operation["parameters"]}


def test_list_types_and_merge_keys(api: Api) -> None:
    schemas = document(api, "v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert spec["containers"]["x-kubernetes-list-type"] == "map"
    assert spec["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["containers"]["x-kubernetes-patch-strategy"] == "merge"
    assert spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["tolerations"]["x-kubernetes-list-type"] == "atomic"
    ports = schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "port"
    assert schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["format"] == "int-or-string"


def test_document_is_cached_by_hash(api: Api) -> None:
    url = api.get("/openapi/v3").json["paths"]["apis/batch/v1"]["serverRelativeURL"]
    answer = api.get(url).ok(200)
    assert "immutable" in answer.headers["Cache-Control"]
    assert api.get("/openapi/v3/apis/batch/v1").ok(200).json == answer.json


def test_custom_resources_have_described_metadata(api: Api) -> None:
    custom = define(api, simple())
    group_version = f"{custom.group}/v1"
    eventually(lambda: f"apis/{group_version}" in api.get("/openapi/v3").json["paths"], what=f"{group_version} is published")
    schemas = document(api, group_version)["components"]["schemas"]
    fields = schemas[".".join([*reversed(custom.group.split(".")), "v1", custom.kind])]["properties"]
    assert fields["apiVersion"]["description"].startswith("APIVersion defines ")
    assert fields["kind"]["description"].startswith("Kind is ")
    assert fields["metadata"]["description"].startswith("Standard object's metadata")
    metadata = schemas[OBJECT_META]
    assert metadata["description"].startswith("ObjectMeta is metadata that ")
    assert metadata["properties"]["creationTimestamp"]["description"].startswith("CreationTimestamp is a timestamp ")


def test_embedded_objects_have_the_standard_fields(api: Api) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    properties = {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}
    described = {**embedded, "required": ["kind", "spec"], "properties": properties}
    lists = {"type": "array", "items": embedded}
    maps = {"type": "object", "additionalProperties": embedded}
    closed = {key: value for key, value in described.items() if key != "x-kubernetes-preserve-unknown-fields"}
    nodes = {"template": described, "list": lists, "map": maps, "closed": closed}
    custom = define(api, simple(spec={"type": "object", "properties": nodes}))
    group_version = f"{custom.group}/v1"
    eventually(lambda: f"apis/{group_version}" in api.get("/openapi/v3").json["paths"], what=f"{group_version} is published")
    schemas = document(api, group_version)["components"]["schemas"]
    fields = schemas[".".join([*reversed(custom.group.split(".")), "v1", custom.kind])]["properties"]["spec"]["properties"]
    template = fields["template"]
    assert template["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert set(template["required"]) == {"apiVersion", "kind", "spec"}
    for node in (fields["list"]["items"], fields["map"]["additionalProperties"]):
        assert node["properties"].keys() == {"apiVersion", "kind", "metadata"}
        assert node["properties"]["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{OBJECT_META}"}]
        assert set(node["required"]) == {"apiVersion", "kind"}
    # OpenAPI v2 has no words for an object with unknown fields beside known ones.
    name = ".".join([*reversed(custom.group.split(".")), "v1", custom.kind])
    definition = eventually(lambda: api.get("/openapi/v2").json["definitions"].get(name), what=f"{name} is defined")
    fields = definition["properties"]["spec"]["properties"]
    assert fields["closed"]["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert set(fields["closed"]["required"]) == {"apiVersion", "kind", "spec"}
    assert fields["template"].keys() & {"properties", "required"} == {"required"}
    assert set(fields["template"]["required"]) == {"kind", "spec"}


@pytest.mark.parametrize("group_version", ["apps/v1", "batch/v1", "policy/v1", "apiextensions.k8s.io/v1"])
def test_descriptions_are_the_same_with_the_extra(cluster: Cluster, api: Api, group_version: str) -> None:
    """The words of Kubernetes come from a package, and their digests from the real server, which appends the values of enums."""
    schemas = document(api, group_version)["components"]["schemas"]
    texts = [
        f"{name} {field} {' '.join(child.get('description', '').partition('Possible enum values:')[0].split())}"
        for name, node in schemas.items()
        for field, child in [("", node), *node.get("properties", {}).items()]
        if "properties" in node
    ]
    digest = hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()
    goldens.check("test_openapi_descriptions", group_version, digest, real=cluster.name == "real")


def test_unknown_document_is_not_found(api: Api) -> None:
    assert api.get("/openapi/v3/apis/nothing.example.com/v1").status == 404


def test_openapi_v2_has_the_same_definitions(cluster: Cluster, api: Api) -> None:
    """OpenAPI v2 for older clients: every definition, by its digest."""
    seen = api.get("/openapi/v2").ok(200).json["definitions"]
    # These two list all groups of a server.
    names = set(builtin_scheme().nodes()) - {
        f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}" for kind in ("DeleteOptions", "WatchEvent")
    }
    digests = {name: hashlib.sha256(orjson.dumps(bare(seen[name]), option=orjson.OPT_SORT_KEYS)).hexdigest()[:10] for name in names}
    goldens.check("test_openapi_v2", "definitions", digests, real=cluster.name == "real")


def test_openapi_v2_has_custom_resources(cluster: Cluster, api: Api) -> None:
    spec = {
        "type": "object",
        "required": ["a", "gone"],
        "properties": {
            "a": {"type": "string", "default": "x", "enum": ["x", "y"]},
            "gone": {"type": "string", "nullable": True},
            "any": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"b": {"type": "integer"}}},
            "list": {
                "type": "array",
                "maxItems": 3,
                "items": {"type": "object", "properties": {"n": {"type": "number", "minimum": 1.5}}},
            },
            "map": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
        },
    }
    custom = define(api, simple(spec=spec))
    home = ".".join(reversed(custom.group.split(".")))
    name = f"{home}.v1.{custom.kind}"
    document = eventually(lambda: api.get("/openapi/v2").json["definitions"].get(name), what=f"{name} is defined")
    words = {custom.group: "GROUP", home: "EMOH"}
    goldens.check("test_openapi_v2", "custom", bare(document), real=cluster.name == "real", words=words)


def test_openapi_v2_lists_no_fields_of_an_open_resource(api: Api) -> None:
    body = simple()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"spec": {"type": "object"}}}
    body["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    custom = define(api, body)
    name = f"{'.'.join(reversed(custom.group.split('.')))}.v1.{custom.kind}"
    definition = eventually(lambda: api.get("/openapi/v2").json["definitions"].get(name), what=f"{name} is defined")
    assert definition.keys() == {"type", "x-kubernetes-group-version-kind"}
    assert definition["type"] == "object"


def bare(node: Any, *, names: bool = False) -> Any:
    """A definition without descriptions."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: bare(value, names=key == "properties") for key, value in node.items() if names or key != "description"}
