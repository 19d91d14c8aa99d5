"""What is said of CustomResourceDefinitions, against the answers a real kube-apiserver gave to the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.real.ask_schemas import changed_definition

from sliceworks.schemas import crds
from sliceworks.schemas.builtins import catalogue
from sliceworks.schemas.structural import decode, set_defaults

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "definition_cases.yaml").read_text())
ANSWERS = orjson.loads((HERE / "definition_answers.json").read_bytes())
SCHEMA = catalogue().schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
# Here the server shows its internal form of a schema: only the place is compared.
LOOSE = {"statusNarrowsRoot"}


def shown(name: str, field: str, reason: str, message: str) -> tuple[str, str, str]:
    return field, reason, "" if name in LOOSE else message


@pytest.mark.parametrize("name", CASES)
def test_answers_as_the_real_server(name: str) -> None:
    definition = orjson.loads(orjson.dumps(changed_definition(CASES[name] or {})))
    decode(SCHEMA, definition, [])
    set_defaults(SCHEMA, definition)
    found = crds.errors(definition)
    expected = ANSWERS[name]
    causes = {shown(name, cause["field"], cause["reason"], cause["message"]) for cause in expected.get("causes", ())}
    # The form of metadata.name is checked for all kinds alike, elsewhere.
    causes = {cause for cause in causes if "RFC 1123" not in cause[2] or cause[0] != "metadata.name"}
    assert {shown(name, error.path, error.reason, error.body) for error in found} == causes
    if not causes:
        assert {key: definition["spec"].get(key) for key in expected["spec"]} == expected["spec"]
    assert crds.warnings(definition) == expected.get("warnings", [])
