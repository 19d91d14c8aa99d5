"""ModelServices for tests: the examples, modified examples, and small ones in one line."""

from __future__ import annotations

from pathlib import Path

from sliceworks.base import yaml_documents
from sliceworks.specs import documents
from sliceworks.specs.model_service import ModelService

FOLDER = Path(__file__).parents[2] / "examples" / "models"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read(text: str) -> ModelService:
    """Parse a ModelService."""
    [document] = yaml_documents.load_all(text, "model.yaml")
    result = documents.read(document)
    assert isinstance(result, ModelService)
    return result


def example(name: str) -> ModelService:
    """Load one of the examples."""
    return read((FOLDER / f"{name}.yaml").read_text())


def changed(name: str, old: str, new: str, *more: tuple[str, str]) -> ModelService:
    """Load an example with some strings replaced."""
    text = (FOLDER / f"{name}.yaml").read_text()
    for before, after in ((old, new), *more):
        assert before in text
        text = text.replace(before, after)
    return read(text)


def service(engine: str, text: str, name: str = "served") -> ModelService:
    """A small ModelService."""
    head = f"apiVersion: sliceworks.dev/v1alpha1\nkind: ModelService\nmetadata: {{name: {name}}}\n"
    return read(f"{head}spec: {{engine: {engine}, {text}}}")
