"""The reference page of graphs shows valid definitions and lists every CEL function."""

from __future__ import annotations

import re
from pathlib import Path

from tests.graph.definitions import issues_of

from sliceworks.cel.dialect import KRO

_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "graphs.md").read_text()
_UNDOCUMENTED = {"string", "reverse_"}
_KUBERNETES = re.compile(r"(is|get|as|contains|compare)[A-Z]|(add|sub|sign|family|masked|major|minor|patch|prefixLength)\b")


def test_reference_example_is_valid() -> None:
    document = re.findall(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)[0]
    assert "kind: ResourceGraphDefinition" in document
    assert issues_of(document) == []


def test_reference_lists_every_function() -> None:
    words = set(re.findall(r"[A-Za-z0-9]+", _PAGE))
    functions = {function.name.rpartition(".")[2] for function in KRO.checked if function.name[0].isalpha()}
    assert {name for name in functions - words - _UNDOCUMENTED if not _KUBERNETES.match(name)} == set()
