"""Cases that were put to kro's own compiler, as definitions with an instance: see `cases.yaml`, `observed.json` and `refresh`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.graph.kinds import AllKinds, BuiltinKinds, CustomKinds

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
OBSERVED = HERE / "observed.json"
_GIVEN = yamls.load_path(HERE / "cases.yaml")[0].data
BASE: list[dict[str, Any]] = _GIVEN["base"]
INSTANCE: dict[str, Any] = _GIVEN["instance"]
SEEN: dict[str, list[dict[str, Any]]] = _GIVEN["observed"]
DIFFERS: dict[str, str] = _GIVEN["differs"]
BUILT_IN: list[dict[str, str]] = _GIVEN["conditions of the instance"]
KINDS = AllKinds(BuiltinKinds(), CustomKinds(_GIVEN["definitions"]))
_CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


@dataclass(frozen=True)
class Case:
    """A definition, an instance of it, and what the cluster has; resources not named there are as they are desired."""

    name: str
    definition: dict[str, Any]
    instance: dict[str, Any]
    observed: dict[str, list[dict[str, Any]]]


def cases() -> list[Case]:
    """Every case, in the order of the file."""
    return [*_of_values(), *_of_conditions(), *_of_collections(), *_of_statuses(), *_of_schemas(), *_of_resources()]


def definition(resources: list[Any], **schema: Any) -> dict[str, Any]:
    """A definition with the types that cases use, unless they bring their own."""
    given = {"kind": "Test", "apiVersion": "v1alpha1", "spec": _GIVEN["spec"], "types": _GIVEN["types"], **schema}
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "test"},
        "spec": {"schema": given, "resources": resources},
    }


def config_map(name: str, **fields: Any) -> dict[str, Any]:
    return {**_CONFIG_MAP, "metadata": {"name": name}, **fields}


def _case(name: str, resources: list[Any], observed: dict[str, Any] | None = None, **schema: Any) -> Case:
    instance = deepcopy(INSTANCE)
    if schema.get("scope") == "Cluster":
        del instance["metadata"]["namespace"]
    return Case(name, definition(deepcopy(resources), **schema), instance, deepcopy(SEEN) | (observed or {}))


def _of_values() -> Iterator[Case]:
    """An expression in each of several fields, which take different types."""
    for text in _GIVEN["values"]:
        for field, template in _GIVEN["fields"].items():
            filled = _with(template, text)
            yield _case(f"{field}: {text}", [*BASE, {"id": "t", "template": filled}])
    for text in _GIVEN["functions"]:
        filled = _with(_GIVEN["fields"]["anything"], f"${{{text}}}")
        yield _case(f"function: {text}", [{"id": "t", "template": filled}])
    for field, template in _GIVEN["typed fields"].items():
        for value in _GIVEN["typed values"]:
            yield _case(f"{field}: {value!r}", [*BASE, {"id": "t", "template": _with(template, value)}])


def _with(template: Any, text: Any) -> Any:
    """A template with a value in the place that waits for it."""
    if isinstance(template, dict):
        return {name: _with(child, text) for name, child in template.items()}
    if isinstance(template, list):
        return [_with(child, text) for child in template]
    return text if template == "HERE" else template


def _of_conditions() -> Iterator[Case]:
    dependent = {"id": "u", "template": config_map("u", data={"a": "${t.metadata.name}"})}
    for text in _GIVEN["includeWhen"]:
        yield _case(f"includeWhen {text}", [*BASE, {"id": "t", "includeWhen": [text], "template": config_map("t")}, dependent])
    deployment = {**BASE[1]["template"], "metadata": {"name": "t"}}
    seen = {**SEEN["dep"][0], "metadata": {"name": "t", "namespace": "ns", "creationTimestamp": "2024-05-01T10:00:00Z"}}
    for text in _GIVEN["readyWhen"]:
        yield _case(
            f"readyWhen {text}", [*BASE, {"id": "t", "readyWhen": [text], "template": deployment}, dependent], {"t": [seen]}
        )


def _of_collections() -> Iterator[Case]:
    user = {"id": "u", "template": config_map("u", data={"a": "${t.map(x, x.metadata.name).join(',')}"})}
    for given in _GIVEN["forEach"]:
        fields = {"data": given["data"]} if "data" in given else {}
        resource = {"id": "t", "forEach": given["over"], "template": config_map(given["name"], **fields)}
        if "readyWhen" in given:
            resource["readyWhen"] = [given["readyWhen"]]
        yield _case(f"forEach {given}", [*BASE, resource, user])


def _of_statuses() -> Iterator[Case]:
    for text in _GIVEN["status"]:
        yield _case(f"status {text}", BASE, status=text if isinstance(text, dict) else {"x": text})
    for texts in _GIVEN["conditions"]:
        yield _case(f"conditions {texts}", BASE, status={"conditions": texts})


def _of_schemas() -> Iterator[Case]:
    for text in _GIVEN["schema"]:
        yield _case(f"schema {text}", [], spec={"x": text})
    for given in _GIVEN["schemas"]:
        yield _case(f"schema {given}", [], spec=given["spec"], types=given.get("types", {}))


def _of_resources() -> Iterator[Case]:
    for name, given in _GIVEN["resources"].items():
        schema = given.get("schema", {})
        resources = given["only"] if "only" in given else [*BASE, *given.get("more", [])]
        yield _case(name, resources, **schema)
