"""The reference page of graphs shows definitions that compile, and names every function that there is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.graph.reading import problems

from sliceworks.cel.dialect import GRAPHS

_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "graphs.md").read_text()
_ELSEWHERE = {"string", "reverse_"}
_KUBERNETES = re.compile(r"(is|get|as|contains|compare)[A-Z]|(add|sub|sign|family|masked|major|minor|patch|prefixLength)\b")


def test_the_definition_compiles() -> None:
    document = re.findall(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)[0]
    assert "kind: ResourceGraphDefinition" in document
    assert problems(document) == []


def test_every_function_is_named() -> None:
    words = set(re.findall(r"[A-Za-z0-9]+", _PAGE))
    functions = {function.name.rpartition(".")[2] for function in GRAPHS.checked if function.name[0].isalpha()}
    assert {name for name in functions - words - _ELSEWHERE if not _KUBERNETES.match(name)} == set()
