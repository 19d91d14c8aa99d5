"""The stand-in provider rejects configurations and plans replacements as the google provider does, by rules from its sources."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.cloud_http import served_cloud

from sliceworks.base.errors import CloudInvalid, CloudNotFound
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.infra.provider import protocol
from sliceworks.infra.provider.grpc_provider import Provider
from sliceworks.infra.provider.protocol import UNKNOWN, decode, encode
from sliceworks.infra.provider.resources import REPLACEMENTS, RESOURCES
from sliceworks.infra.provider.rest_resource import ProviderConfig
from sliceworks.infra.provider.schema import google_schema
from sliceworks.infra.provider.validation import find_replaced, validate
from sliceworks.twin.cloud.core.collection import paginate
from sliceworks.twin.cloud.google.storage import blob

Object = dict[str, Any]
POOL, CLUSTER, OBJECT = "google_container_node_pool", "google_container_cluster", "google_storage_bucket_object"


def problems(kind: str, config: Object) -> list[str]:
    return list(validate(google_schema().rules[kind], config))


def replaced(kind: str, prior: Object, planned: Object) -> list[str]:
    schema = google_schema()
    return find_replaced(schema.rules[kind], schema.resources[kind], prior, planned)


def pool(**node: Any) -> Object:
    return {"name": "a", "node_config": [{"machine_type": "n1-standard-4", **node}]}


def test_every_resource_of_the_stand_in_has_rules() -> None:
    assert set(RESOURCES) <= set(google_schema().rules)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"enable_autopilot": True, "remove_default_node_pool": True},
            '"remove_default_node_pool": conflicts with enable_autopilot',
        ),
        ({"enable_autopilot": True, "enable_intranode_visibility": False}, "conflicts with enable_autopilot"),
        (
            {"maintenance_policy": [{"daily_maintenance_window": [], "recurring_window": []}]},
            "can be specified, no one of them was",
        ),
        (
            {"maintenance_policy": [{"daily_maintenance_window": [{"start_time": "03:00"}], "recurring_window": [{}]}]},
            "but `maintenance_policy.daily_maintenance_window,maintenance_policy.recurring_window` were specified",
        ),
        ({"addons_config": [{}]}, "must be specified"),
        (
            {"release_channel": [{"channel": "WEEKLY"}]},
            'expected release_channel.channel to be one of ["UNSPECIFIED" "RAPID" "REGULAR" "STABLE" "EXTENDED"], got WEEKLY',
        ),
    ],
)
def test_configuration_is_rejected(config: Object, message: str) -> None:
    [problem] = problems(CLUSTER, config)
    assert message in problem


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"enable_autopilot": True, "remove_default_node_pool": None},
        {"enable_autopilot": UNKNOWN, "remove_default_node_pool": True},
        {"maintenance_policy": UNKNOWN},
        {"maintenance_policy": [{"daily_maintenance_window": UNKNOWN, "recurring_window": []}]},
        {"release_channel": [{"channel": UNKNOWN}]},
    ],
)
def test_absent_and_unknown_values_are_accepted(config: Object) -> None:
    assert problems(CLUSTER, config) == []


def test_object_has_either_a_content_or_a_source() -> None:
    assert problems(OBJECT, {"content": "x"}) == []
    assert len(problems(OBJECT, {"content": "x", "source": "y"})) == 1
    assert len(problems(OBJECT, {})) == 1


@pytest.mark.parametrize(
    ("prior", "planned", "paths"),
    [
        (pool(spot=False), pool(spot=None), []),
        (pool(spot=False), pool(spot=True), ["node_config.spot"]),
        (pool(), pool(machine_type="n1-standard-8"), []),
        (pool(metadata={"a": "1"}), pool(metadata={"a": "2"}), ["node_config.metadata"]),
        (
            pool(shielded_instance_config=[{"enable_secure_boot": True}]),
            pool(shielded_instance_config=[{"enable_secure_boot": False}]),
            ["node_config.shielded_instance_config.enable_secure_boot"],
        ),
        ({"placement_policy": []}, {"placement_policy": [{"type": "COMPACT"}]}, ["placement_policy"]),
        ({"placement_policy": [{"tpu_topology": "2x2x2"}]}, {"placement_policy": [{"tpu_topology": "2x2x4"}]}, []),
    ],
)
def test_replacement_of_a_node_pool(prior: Object, planned: Object, paths: list[str]) -> None:
    assert replaced(POOL, prior, planned) == paths


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ("10.0.0.0/20", "10.0.0.0/20", []),
        ("10.0.0.0/20", "10.0.0.0/19", []),
        ("10.0.0.0/20", "10.0.0.0/21", ["ip_cidr_range"]),
        ("10.0.0.0/20", "10.8.0.0/16", ["ip_cidr_range"]),
        ("10.0.0.0/20", UNKNOWN, []),
    ],
)
def test_smaller_primary_range_replaces_a_subnetwork(old: str, new: Any, paths: list[str]) -> None:
    replacement = REPLACEMENTS["google_compute_subnetwork"]
    assert replacement({"ip_cidr_range": old}, {"ip_cidr_range": new}) == paths


def test_new_resource_is_not_replaced() -> None:
    schema = google_schema()
    assert find_replaced(schema.rules[POOL], schema.resources[POOL], None, pool(spot=True)) == []


def test_provider_answers_validation_with_diagnostics() -> None:
    config = {"enable_autopilot": True, "remove_default_node_pool": True}
    block = google_schema().resources[CLUSTER]
    value: Object = {**dict.fromkeys(block.attributes), **{name: [] for name in block.blocks}, **config}
    request = protocol.message("ValidateRequest")(type_name=CLUSTER, config=encode(value))
    assert decode(request.config)["enable_autopilot"] is True
    answer = asyncio.run(Provider().validate(request))
    assert [item.summary for item in answer.diagnostics] == ['"remove_default_node_pool": conflicts with enable_autopilot']


def test_bucket_with_several_pages_of_objects_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob, "paginate", lambda call, objects, default_size: paginate(call, objects, default_size=2))
    bucket, block = RESOURCES["google_storage_bucket"], google_schema().resources["google_storage_bucket"]

    async def create_and_delete(url: str, token: str) -> None:
        config = ProviderConfig.read({"storage_custom_endpoint": f"{url}/storage/v1/", "access_token": token}, {})
        async with config.session("storage") as session, Session(url, Token(token)) as host:
            for name, count in (("full", 3), ("kept", 1)):
                await session.call("POST", "/b?project=my-project", {"name": name, "location": "US"})
                for number in range(count):
                    await host.upload(
                        f"/upload/storage/v1/b/{name}/o", b"", {"uploadType": "media", "name": str(number)}, "text/plain"
                    )
            await bucket.delete(config, block, {"name": "full", "force_destroy": True})
            with pytest.raises(CloudNotFound):
                await session.call("GET", "/b/full")
            with pytest.raises(CloudInvalid, match="force_destroy"):
                await bucket.delete(config, block, {"name": "kept", "force_destroy": False})

    with served_cloud() as cloud:
        asyncio.run(create_and_delete(cloud.url, cloud.token))
