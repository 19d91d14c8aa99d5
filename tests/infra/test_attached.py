"""The stand-in provider is started once for a twin, tells where it is, and ends with whoever started it."""

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
from sliceworks.infra.attached import ADDRESSES, Attached
from sliceworks.infra.standin import messages

STARTED = """
import os
from sliceworks.infra.attached import attached
first = attached("http://127.0.0.1:1", "token", os.environ)
assert first is attached("http://127.0.0.1:1", "token", os.environ)
print(first.variable(), flush=True)
input()
"""


def told(address: str) -> Any:
    with grpc.insecure_channel(f"unix:{address}") as channel:
        ask = channel.unary_unary(
            f"/{messages.SERVICE}/GetSchema",
            request_serializer=messages.message("Empty").SerializeToString,
            response_deserializer=messages.message("ProviderSchemas").FromString,
        )
        return ask(messages.message("Empty")(), timeout=30)


def test_it_answers_where_terraform_is_told_and_ends_when_its_starter_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        given = orjson.loads(process.stdout.readline())
        assert sorted(given) == sorted(ADDRESSES)
        one = given[ADDRESSES[0]]
        assert (one["Protocol"], one["ProtocolVersion"], one["Test"]) == ("grpc", 5, True)
        assert "google_container_node_pool" in told(one["Addr"]["String"]).resource_schemas
        ended = os.pidfd_open(one["Pid"])
        process.kill()
    try:
        assert select.select([ended], [], [], 30)[0] == [ended]
    finally:
        os.close(ended)


def test_one_that_does_not_start_says_why() -> None:
    with pytest.raises(SliceworksError) as caught:
        Attached({"PYTHONPATH": "", "PYTHONHOME": "/nowhere"})
    assert "the twin's provider does not start" in caught.value.message
    assert "\n" not in caught.value.message
