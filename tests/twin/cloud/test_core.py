"""The core of the cloud: authentication, routes, schema and errors."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.support import discovery
from tests.support.clouds import CLUSTER, PLACE, POOLS, Cloud, run_on_cloud

from sliceworks.twin.cloud.core.exceptions import GoogleError
from sliceworks.twin.cloud.core.iam_policy import is_same_etag
from sliceworks.twin.cloud.core.routes import Call, Route, Routes
from sliceworks.twin.cloud.core.schema import Schema


@pytest.mark.parametrize(("service", "version"), discovery.SERVICES)
def test_shipped_messages_match_googles_discovery_documents(service: str, version: str) -> None:
    shipped = orjson.loads((discovery.SHIPPED / f"{service}-{version}.json").read_bytes())
    assert shipped == discovery.needed(service, version), "python -m tests.support.discovery writes them anew"


def test_request_without_a_valid_token_is_unauthenticated() -> None:
    async def main(cloud: Cloud) -> None:
        for token, words, reason in (
            ("", "Request is missing required authentication credential.", "CREDENTIALS_MISSING"),
            ("wrong", "Request had invalid authentication credentials.", "ACCESS_TOKEN_EXPIRED"),
        ):
            status, result = await cloud.ask("GET", POOLS, token=token)
            error = result["error"]
            assert (status, error["code"], error["status"]) == (401, 401, "UNAUTHENTICATED")
            assert error["message"].startswith(words)
            assert error["details"][0]["reason"] == reason

    run_on_cloud(main, workloads=False)


def test_error_has_googles_format() -> None:
    async def main(cloud: Cloud) -> None:
        _, result = await cloud.ask("GET", f"{POOLS}/none")
        error = result["error"]
        output = f"Not found: {POOLS}/none."
        assert error["errors"] == [{"message": output, "domain": "global", "reason": "notFound"}]
        assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.RequestInfo"

    run_on_cloud(main, workloads=False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/compute/v9/projects/p"),
        ("GET", "/container/v2/projects/p"),
        ("GET", "/container/v1/projects/p/locations/l/clusters/c/unknown"),
        ("PATCH", f"/container/v1/{CLUSTER}"),
        ("POST", f"/container/v1/{CLUSTER}:setEverything"),
        ("GET", "/"),
        ("GET", ""),
    ],
)
def test_unknown_route_is_unimplemented(method: str, path: str) -> None:
    async def main(cloud: Cloud) -> None:
        status, _, body = await cloud.server.handle(method, path, {"authorization": f"Bearer {cloud.twin.token}"}, b"")
        assert (status, orjson.loads(body)["error"]["status"]) == (501, "UNIMPLEMENTED")

    run_on_cloud(main, workloads=False)


def test_query_with_too_many_fields_is_rejected() -> None:
    async def main(cloud: Cloud) -> None:
        assert (await cloud.refused("GET", f"{POOLS}?{'&'.join('a=1' for _ in range(300))}"))[0] == 400

    run_on_cloud(main, workloads=False)


def answer(call: Call) -> dict[str, Any]:
    return dict(call.params)


def test_route_matches_raw_paths() -> None:
    routes = Routes(
        [
            Route("GET", "b/{bucket}/o/{object}", "get", answer, ""),
            Route("POST", "projects/{project}:getIamPolicy", "policy", answer, ""),
            Route("GET", "projects/{project}", "project", answer, ""),
        ]
    )
    result = routes.find("GET", "b/one/o/a%2Fb%20c")
    assert result is not None
    assert result.params == {"bucket": "one", "object": "a/b c"}
    result = routes.find("POST", "projects/example.com:p:getIamPolicy")
    assert result is not None
    assert (result.route.method, result.params) == ("policy", {"project": "example.com:p"})
    result = routes.find("GET", "projects/example.com:p")
    assert result is not None
    assert result.params == {"project": "example.com:p"}
    assert routes.find("GET", "b/one/o/") is None
    assert routes.find("GET", "b/one/o/a/b") is None


def test_zonal_paths_are_equivalent_to_locations() -> None:
    async def main(cloud: Cloud) -> None:
        zone = "projects/p/zones/us-central2-b"
        operation = await cloud.do("POST", f"{zone}/clusters/c/nodePools", {"nodePool": {"name": "one", "initialNodeCount": 1}})
        assert (await cloud.do("GET", f"{zone}/clusters/c/nodePools/one"))["name"] == "one"
        assert (await cloud.do("GET", f"{zone}/operations/{operation['name']}"))["name"] == operation["name"]
        await cloud.done(operation)
        await cloud.done(await cloud.do("POST", f"{zone}/clusters/c/nodePools/one/setSize", {"nodeCount": 2}))
        assert len(await cloud.nodes("one")) == 2
        assert "validNodeVersions" in await cloud.do("GET", f"{zone}/serverconfig")

    run_on_cloud(main)


@pytest.fixture
def schema() -> Schema:
    return Schema(
        "google.test.v1",
        {
            "Outer": {
                "name": "string",
                "nodeCount": "int32",
                "diskSizeGb": "int64",
                "on": "bool",
                "share": "double",
                "inner": "#Inner",
                "many": "[#Inner]",
                "labels": "{string}",
                "state": "UNSPECIFIED|UP|DOWN",
                "anything": "any",
            },
            "Inner": {"value": "string", "inner": "#Inner"},
        },
    )


def test_schema_converts_names_and_numbers(schema: Schema) -> None:
    given = {
        "node_count": "5",
        "diskSizeGb": 7,
        "on": "true",
        "share": 1,
        "name": None,
        "many": [{"value": "x"}],
        "state": 2,
        "anything": [1, {"a": None}],
        "labels": {"a_b": "c"},
    }
    assert schema.read("Outer", orjson.dumps(given)) == {
        "nodeCount": 5,
        "diskSizeGb": "7",
        "on": True,
        "share": 1.0,
        "many": [{"value": "x"}],
        "state": "DOWN",
        "anything": [1, {"a": None}],
        "labels": {"a_b": "c"},
    }
    assert schema.read("Outer", b"") == {}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"colour": 1}, 'Invalid JSON payload received. Unknown name "colour": Cannot find field.'),
        ({"inner": {"colour": 1}}, "Invalid JSON payload received. Unknown name \"colour\" at 'inner': Cannot find field."),
        ({"many": [{}, {"x": 1}]}, "Invalid JSON payload received. Unknown name \"x\" at 'many[1]': Cannot find field."),
        ({"nodeCount": "x"}, "Invalid value at 'node_count' (TYPE_INT32), \"x\""),
        ({"nodeCount": 2**31}, "Invalid value at 'node_count' (TYPE_INT32), 2147483648"),
        ({"nodeCount": True}, "Invalid value at 'node_count' (TYPE_INT32), true"),
        ({"name": 1}, "Invalid value at 'name' (TYPE_STRING), 1"),
        ({"on": 1}, "Invalid value at 'on' (TYPE_BOOL), 1"),
        ({"share": "x"}, "Invalid value at 'share' (TYPE_DOUBLE), \"x\""),
        ({"inner": "x"}, "Invalid value at 'inner' (type.googleapis.com/google.test.v1.Inner), \"x\""),
        ({"name": ["x"]}, 'Invalid JSON payload received. Unknown name "name": Proto field is not repeating, cannot start list.'),
        ({"state": "SIDEWAYS"}, "Invalid value at 'state' (type.googleapis.com/google.test.v1.Enum), \"SIDEWAYS\""),
        ({"labels": ["x"]}, "Invalid value at 'labels' (map), [\"x\"]"),
    ],
)
def test_schema_reports_violations_as_google(schema: Schema, body: dict[str, Any], expected: str) -> None:
    with pytest.raises(GoogleError) as caught:
        schema.read("Outer", orjson.dumps(body))
    assert (caught.value.status, caught.value.message) == ("INVALID_ARGUMENT", expected)
    (violation,) = caught.value.details[0]["fieldViolations"]
    assert violation["description"] == expected


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b'{"inner":' * 200 + b"1" + b"}" * 200])
def test_schema_rejects_invalid_json(schema: Schema, body: bytes) -> None:
    with pytest.raises(GoogleError) as caught:
        schema.read("Outer", body)
    assert caught.value.status == "INVALID_ARGUMENT"


def test_unknown_location_is_rejected() -> None:
    async def main(cloud: Cloud) -> None:
        for place in ("nowhere", "us-central1-a-b", "a%2Fb"):
            refused = await cloud.refused("GET", f"projects/p/locations/{place}/clusters")
            assert refused[:2] == (400, "INVALID_ARGUMENT")
            assert refused[2].endswith('" does not exist.')
        assert (await cloud.refused("GET", f"{PLACE}/operations/none"))[0] == 404

    run_on_cloud(main, workloads=False)


def test_etags_are_compared_as_bytes() -> None:
    assert is_same_etag("wMrrZr_Ibz4=", "wMrrZr/Ibz4=")
    assert not is_same_etag("wMrrZr_Ibz4=", "wMrrZr/Ibz8=")
    assert not is_same_etag("not base64", "other")
