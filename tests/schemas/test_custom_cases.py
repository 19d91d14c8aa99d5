"""Validation of custom resources, compared with a real kube-apiserver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.real.schema_recorder import definition, instance

from sliceworks.schemas import crds, prune, set_defaults, validate

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = yaml.load((HERE / "custom_cases.yaml").read_text(), Loader=yaml.CSafeLoader)
ANSWERS = orjson.loads((HERE / "custom_answers.json").read_bytes())
SCHEMA = crds.schema_for_version(definition(CASES), "v1")


@pytest.mark.parametrize("name", CASES)
def test_answers_as_the_real_server(name: str) -> None:
    unknown: list[str] = []
    new = orjson.loads(orjson.dumps(instance(name, CASES[name])))
    old = instance(name, CASES[name], "old") if "old" in CASES[name] else None
    prune(SCHEMA, new, unknown)
    set_defaults(SCHEMA, new)
    errors = validate(SCHEMA, new, old=old)
    expected = ANSWERS[name]
    causes = {(cause["field"], cause["reason"], cause["message"]) for cause in expected.get("causes", ())}
    assert {(error.cause()["field"], error.reason, error.body) for error in errors} == causes
    if not causes:
        assert orjson.dumps(new["spec"], option=orjson.OPT_SORT_KEYS) == orjson.dumps(expected["spec"], option=orjson.OPT_SORT_KEYS)
    assert [f'unknown field "{path}"' for path in unknown] == expected.get("warnings", [])
