"""The twin's Terraform provider is started once per twin, publishes its address, and exits with its parent."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from typing import Any

import grpc
import orjson
import pytest

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.provider import protocol
from sliceworks.infra.target import ADDRESSES, ReattachedProvider

STARTED = """
import os
from sliceworks.infra.target import reattach_provider
first = reattach_provider("http://127.0.0.1:1", "token", os.environ)
assert first is reattach_provider("http://127.0.0.1:1", "token", os.environ)
print(first.variable(), flush=True)
input()
"""


def read_address(address: str) -> Any:
    with grpc.insecure_channel(f"unix:{address}") as channel:
        ask = channel.unary_unary(
            f"/{protocol.SERVICE}/GetSchema",
            request_serializer=protocol.message("Empty").SerializeToString,
            response_deserializer=protocol.message("ProviderSchemas").FromString,
        )
        return ask(protocol.message("Empty")(), timeout=120)


def test_provider_answers_and_exits_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        given = orjson.loads(process.stdout.readline())
        assert sorted(given) == sorted(ADDRESSES)
        one = given[ADDRESSES[0]]
        assert (one["Protocol"], one["ProtocolVersion"], one["Test"]) == ("grpc", 5, True)
        assert "google_container_node_pool" in read_address(one["Addr"]["String"]).resource_schemas
        ended = os.pidfd_open(one["Pid"])
        process.kill()
    try:
        assert select.select([ended], [], [], 30)[0] == [ended]
    finally:
        os.close(ended)


def test_failed_start_is_reported() -> None:
    with pytest.raises(SliceworksError) as caught:
        ReattachedProvider({"PYTHONPATH": "", "PYTHONHOME": "/nowhere"})
    assert "the twin's Terraform provider failed to start" in caught.value.message
    assert "\n" not in caught.value.message
