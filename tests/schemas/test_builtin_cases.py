"""Decoding and encoding of built-in objects, compared with a real kube-apiserver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.real.schema_recorder import builtin_object

from sliceworks.schemas import TypeMismatch, decode, set_defaults
from sliceworks.schemas.builtins import builtin_scheme

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = yaml.load((HERE / "builtin_cases.yaml").read_text(), Loader=yaml.CSafeLoader)
ANSWERS = orjson.loads((HERE / "builtin_answers.json").read_bytes())
REFUSED = [name for name in CASES if ANSWERS[name]["code"] == 400]
ACCEPTED = [name for name in CASES if ANSWERS[name]["code"] < 400]


def read(name: str, unknown: list[str]) -> Any:
    group, version, _, kind = CASES[name]["kind"].split("/")
    schema = builtin_scheme().schema(group, version, kind)
    value = decode(schema, orjson.loads(orjson.dumps(builtin_object(CASES[name]))), unknown)
    set_defaults(schema, value)
    return value


@pytest.mark.parametrize("name", REFUSED)
def test_type_error_equals_the_servers_message(name: str) -> None:
    with pytest.raises(TypeMismatch) as result:
        read(name, [])
    assert ANSWERS[name]["message"].endswith(f": {result.value}")


@pytest.mark.parametrize("name", ACCEPTED)
def test_object_is_encoded_as_by_the_server(name: str) -> None:
    unknown: list[str] = []
    value = read(name, unknown)
    expected = ANSWERS[name]["object"]
    expected["metadata"].pop("namespace", None)
    assert value == expected
    assert [f'unknown field "{path}"' for path in unknown] == ANSWERS[name]["warnings"]


def test_every_case_is_rejected_by_the_decoder_or_accepted() -> None:
    assert sorted(REFUSED + ACCEPTED) == sorted(CASES)
