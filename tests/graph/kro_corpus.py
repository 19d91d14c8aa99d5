"""Definitions with an instance whose results were recorded from kro's compiler: `cases.yaml`, `observed.json`, `record_corpus`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import yaml_documents
from sliceworks.graph.kinds import AllKinds, BuiltinKinds, CustomKinds

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
OBSERVED = HERE / "observed.json"
_CORPUS = yaml_documents.load_path(HERE / "cases.yaml")[0].data
BASE: list[dict[str, Any]] = _CORPUS["base"]
INSTANCE: dict[str, Any] = _CORPUS["instance"]
SEEN: dict[str, list[dict[str, Any]]] = _CORPUS["observed"]
DIFFERS: dict[str, str] = _CORPUS["differs"]
BUILT_IN: list[dict[str, str]] = _CORPUS["conditions of the instance"]
KINDS = AllKinds(BuiltinKinds(), CustomKinds(_CORPUS["definitions"]))
_CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


@dataclass(frozen=True)
class Case:
    """A definition, an instance, and the observed objects; other resources are observed as desired."""

    name: str
    definition: dict[str, Any]
    instance: dict[str, Any]
    observed: dict[str, list[dict[str, Any]]]


def cases() -> list[Case]:
    """Every case, in the order of the file."""
    return [*_of_values(), *_of_conditions(), *_of_collections(), *_of_statuses(), *_of_schemas(), *_of_resources()]


def definition(resources: list[Any], **schema: Any) -> dict[str, Any]:
    """A definition with the corpus's default spec and types, unless `schema` overrides them."""
    entry = {"kind": "Test", "apiVersion": "v1alpha1", "spec": _CORPUS["spec"], "types": _CORPUS["types"], **schema}
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "test"},
        "spec": {"schema": entry, "resources": resources},
    }


def config_map(name: str, **fields: Any) -> dict[str, Any]:
    return {**_CONFIG_MAP, "metadata": {"name": name}, **fields}


def _copy(value: Any) -> Any:
    """A deep copy of plain data, much faster than `copy.deepcopy`: every run of the tests creates all cases in each worker."""
    return orjson.loads(orjson.dumps(value))


def _case(name: str, resources: list[Any], observed: dict[str, Any] | None = None, **schema: Any) -> Case:
    instance = _copy(INSTANCE)
    if schema.get("scope") == "Cluster":
        del instance["metadata"]["namespace"]
    return Case(name, definition(_copy(resources), **schema), instance, _copy(SEEN) | (observed or {}))


def _of_values() -> Iterator[Case]:
    """An expression in fields of different types."""
    for text in _CORPUS["values"]:
        for field, template in _CORPUS["fields"].items():
            filled = _with(template, text)
            yield _case(f"{field}: {text}", [*BASE, {"id": "t", "template": filled}])
    for text in _CORPUS["functions"]:
        filled = _with(_CORPUS["fields"]["anything"], f"${{{text}}}")
        yield _case(f"function: {text}", [{"id": "t", "template": filled}])
    for field, template in _CORPUS["typed fields"].items():
        for value in _CORPUS["typed values"]:
            yield _case(f"{field}: {value!r}", [*BASE, {"id": "t", "template": _with(template, value)}])


def _with(template: Any, text: Any) -> Any:
    """The template with `text` in place of HERE."""
    if isinstance(template, dict):
        return {name: _with(child, text) for name, child in template.items()}
    if isinstance(template, list):
        return [_with(child, text) for child in template]
    return text if template == "HERE" else template


def _of_conditions() -> Iterator[Case]:
    dependent = {"id": "u", "template": config_map("u", data={"a": "${t.metadata.name}"})}
    for text in _CORPUS["includeWhen"]:
        yield _case(f"includeWhen {text}", [*BASE, {"id": "t", "includeWhen": [text], "template": config_map("t")}, dependent])
    deployment = {**BASE[1]["template"], "metadata": {"name": "t"}}
    seen = {**SEEN["dep"][0], "metadata": {"name": "t", "namespace": "ns", "creationTimestamp": "2024-05-01T10:00:00Z"}}
    for text in _CORPUS["readyWhen"]:
        yield _case(
            f"readyWhen {text}", [*BASE, {"id": "t", "readyWhen": [text], "template": deployment}, dependent], {"t": [seen]}
        )


def _of_collections() -> Iterator[Case]:
    user = {"id": "u", "template": config_map("u", data={"a": "${t.map(x, x.metadata.name).join(',')}"})}
    for entry in _CORPUS["forEach"]:
        fields = {"data": entry["data"]} if "data" in entry else {}
        resource = {"id": "t", "forEach": entry["over"], "template": config_map(entry["name"], **fields)}
        if "readyWhen" in entry:
            resource["readyWhen"] = [entry["readyWhen"]]
        yield _case(f"forEach {entry}", [*BASE, resource, user])


def _of_statuses() -> Iterator[Case]:
    for text in _CORPUS["status"]:
        yield _case(f"status {text}", BASE, status=text if isinstance(text, dict) else {"x": text})
    for texts in _CORPUS["conditions"]:
        yield _case(f"conditions {texts}", BASE, status={"conditions": texts})


def _of_schemas() -> Iterator[Case]:
    for text in _CORPUS["schema"]:
        yield _case(f"schema {text}", [], spec={"x": text})
    for entry in _CORPUS["schemas"]:
        yield _case(f"schema {entry}", [], spec=entry["spec"], types=entry.get("types", {}))


def _of_resources() -> Iterator[Case]:
    for name, entry in _CORPUS["resources"].items():
        schema = entry.get("schema", {})
        resources = entry["only"] if "only" in entry else [*BASE, *entry.get("more", [])]
        yield _case(name, resources, **schema)
