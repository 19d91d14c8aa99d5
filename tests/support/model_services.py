"""ModelServices for tests: the examples, the examples with a change, and small ones written in a line."""

from __future__ import annotations

from pathlib import Path

from sliceworks.base import yamls
from sliceworks.specs import documents
from sliceworks.specs.serving import ModelService

FOLDER = Path(__file__).parents[2] / "examples" / "models"
EXAMPLES = sorted(each.stem for each in FOLDER.glob("*.yaml"))


def read(text: str) -> ModelService:
    """The ModelService of a text."""
    [document] = yamls.load_all(text, "model.yaml")
    found = documents.read(document)
    assert isinstance(found, ModelService)
    return found


def example(name: str) -> ModelService:
    """One of the examples."""
    return read((FOLDER / f"{name}.yaml").read_text())


def changed(name: str, old: str, new: str, *more: tuple[str, str]) -> ModelService:
    """An example with other texts in the place of some that it has."""
    text = (FOLDER / f"{name}.yaml").read_text()
    for before, after in ((old, new), *more):
        assert before in text
        text = text.replace(before, after)
    return read(text)


def service(engine: str, text: str, name: str = "served") -> ModelService:
    """A small one."""
    head = f"apiVersion: sliceworks.dev/v1alpha1\nkind: ModelService\nmetadata: {{name: {name}}}\n"
    return read(f"{head}spec: {{engine: {engine}, {text}}}")
