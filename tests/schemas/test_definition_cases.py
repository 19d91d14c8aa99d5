"""Errors of CustomResourceDefinitions, compared with those of a real kube-apiserver for the same definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.real.schema_recorder import changed_definition

from sliceworks.schemas import decode, set_defaults
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.validation import crd

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = yaml.load((HERE / "definition_cases.yaml").read_text(), Loader=yaml.CSafeLoader)
ANSWERS = orjson.loads((HERE / "definition_answers.json").read_bytes())
SCHEMA = builtin_scheme().schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
# Here the server shows its internal form of a schema: only the place is compared.
LOOSE = {"statusNarrowsRoot"}


def shown(name: str, field: str, reason: str, message: str) -> tuple[str, str, str]:
    return field, reason, "" if name in LOOSE else message


@pytest.mark.parametrize("name", CASES)
def test_answers_as_the_real_server(name: str) -> None:
    definition = orjson.loads(orjson.dumps(changed_definition(CASES[name] or {})))
    decode(SCHEMA, definition, [])
    set_defaults(SCHEMA, definition)
    result = crd.definition_errors(definition)
    expected = ANSWERS[name]
    causes = {shown(name, cause["field"], cause["reason"], cause["message"]) for cause in expected.get("causes", ())}
    # The form of metadata.name is checked for all kinds alike, elsewhere.
    causes = {cause for cause in causes if "RFC 1123" not in cause[2] or cause[0] != "metadata.name"}
    assert {shown(name, error.path, error.reason, error.body) for error in result} == causes
    if not causes:
        assert {key: definition["spec"].get(key) for key in expected["spec"]} == expected["spec"]
    assert crd.definition_warnings(definition) == expected.get("warnings", [])
