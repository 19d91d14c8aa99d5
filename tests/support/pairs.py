"""Tests of data-driven behaviour: input and expected output, in the YAML files of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path


def pairs(folder: Path) -> list[Any]:
    """Every case of every file, as pytest parameters."""
    return [
        pytest.param(case, id=f"{file.stem}: {case['name']}")
        for file in sorted(folder.glob("*.yaml"))
        for case in yaml.load(file.read_text(), yaml.CSafeLoader)
    ]
