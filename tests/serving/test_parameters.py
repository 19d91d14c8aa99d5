"""Every parameter of the reference guides has a field, and the documented fields exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sliceworks.specs.model_service import ModelService, ModelServiceSpec

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "model-service.md").read_text()
ROWS = [line.strip("|\n ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| `[A-Z_]+`", line)]
PARAMETERS = {
    *("GSBUCKET", "KSA", "SAX_CELL", "SAX_ROOT", "TPU_CHIP", "TPU_TYPE", "TPU_TOPOLOGY", "CHIPS_PER_NODE"),
    *("GCS_BUCKET_NAME", "TRITON_SA_NAME", "TRITON_NAMESPACE", "MACHINE_TYPE", "ACCELERATOR_TYPE", "ACCELERATOR_COUNT"),
}


def test_every_parameter_is_documented() -> None:
    assert {name for row in ROWS for name in re.findall(r"`([A-Z_]+)`", row[0])} >= PARAMETERS


def within(model: Any) -> Any:
    """The model in a field's type."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model
    return next((result for part in getattr(model, "__args__", ()) if (result := within(part)) is not None), None)


@pytest.mark.parametrize(
    "path", sorted({path for row in ROWS for path in re.findall(r"`([a-z][A-Za-z.\[\]]+\.[A-Za-z.]+)`", row[1])})
)
def test_every_documented_field_exists(path: str) -> None:
    model: Any = ModelService if path.startswith("metadata.") else ModelServiceSpec
    for step in path.replace("[]", "").split("."):
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        assert step in fields, f"{path}: {model.__name__} has no {step}"
        model = within(fields[step].annotation)
