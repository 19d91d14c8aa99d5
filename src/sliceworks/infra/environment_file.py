"""Environment documents: drafts from an example, and edits of one number in place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import yaml_documents, yaml_loader
from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.catalog import availability
from sliceworks.infra.pools import find_accelerator
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment
from sliceworks.specs.environment.cluster import CpuPool

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = "environment.yaml"
_STEMS = {"self-service": "(?:self-service|inference)"}
_GRAPH = "../../graphs/gemma-on-tpu/definition.yaml"
_GRAPH_BESIDE = "gemma-on-tpu.yaml"
_FOR_TRIALS = "deletionProtection: false|forceDestroy: true"  # for examples only: real environments are protected
_NAMED = r"(?:name|prefix|bucket|serviceAccount): "


@dataclass(frozen=True, slots=True)
class Draft:
    """The answers of `env init`. An empty zone is chosen automatically if one is needed."""

    template: str
    name: str
    project: str
    region: str
    zone: str = ""

    def files(self) -> dict[str, str]:
        """The document as `FILE`, and the files that it refers to."""
        text = _named(_text(self.template), self.template, self.name or self.template)
        text = text.replace("my-project", self.project)
        text = re.sub(rf"(?m)^  (?:{_FOR_TRIALS})\n", "", text)
        text = re.sub(r"(?m)^  region: .*$", f"  region: {self.region}", text)
        text = re.sub(r"(?m)^  zones: .*$", lambda _found: f"  zones: [{self._zone()}]", text)
        result = {FILE: text.replace(_GRAPH, _GRAPH_BESIDE)}
        if _GRAPH in text:
            result[_GRAPH_BESIDE] = (
                examples_folder().joinpath("graphs", "gemma-on-tpu", "definition.yaml").read_text(encoding="utf-8")
            )
        return result

    def _zone(self) -> str:
        chosen = self.zone or next(iter(zones_for(self.template, self.region)), "")
        if not chosen:
            known = ", ".join(zones_for(self.template)[:6])
            raise UsageError(
                f"no known zone of {self.region} has the accelerators of {self.template}", hint=f"zones that have them: {known}"
            )
        return chosen


def template_region(template: str) -> str:
    """The region of an example."""
    return _environment(template).spec.region


def zones_for(template: str, region: str = "") -> list[str]:
    """Zones of a region, or of all, that have every accelerator of an example; the example's own zone first."""
    spec = _environment(template).spec
    pools = [pool for _, _, pool in spec.pools.entries() if not isinstance(pool, CpuPool)]
    zones_by_pool = [set(availability.zones_of(find_accelerator(pool))) for pool in pools]
    common = set.intersection(*zones_by_pool) if zones_by_pool else set()
    fitting = {zone for zone in common if not region or availability.region_of(zone) == region}
    return sorted(fitting, key=lambda zone: (zone not in spec.zones, zone))


def _named(text: str, template: str, name: str) -> str:
    """Replace the example's name prefix with the document's; names that jobs refer to are kept."""
    stem = _STEMS.get(template, template)
    text = re.sub(rf"(?m)^(\s*{_NAMED}(?:my-project-)?){stem}(?=-|$)", rf"\g<1>{name}", text)
    return re.sub(rf"(?m)^(\s+my-project-){stem}(?=[-:])", rf"\g<1>{name}", text)


def _environment(template: str) -> Environment:
    [document] = yaml_documents.load_all(_text(template), template)
    return documents.read_as(document, Environment)


def _text(template: str) -> str:
    return examples_folder().joinpath("environments", template, FILE).read_text(encoding="utf-8")


def examples_folder() -> Path:
    """The examples: in the package when installed, else in the repository."""
    packed = Path(__file__).parent / "examples"
    return packed if packed.is_dir() else Path(__file__).parents[3] / "examples"


KIND = "Environment"


def set_number(text: str, place: str, path: Sequence[str], number: int) -> str:
    """Set a number at a path of the Environment in a YAML file. The parent mapping must exist, the field need not."""
    *above, field = path
    holder: yaml_loader.Node | None = _root(text, place)
    for name in above:
        holder = _child(holder, name)
    if not isinstance(holder, yaml_loader.Mapping) or not holder.pairs:
        raise InvalidDocument(f"has no {'.'.join(above)}", place=place)
    present = _child(holder, field)
    changed = _put(text, present, number) if present is not None else _add(text, holder, field, number)
    _verify(text, changed, place, path, number)
    return changed


def _root(text: str, place: str) -> yaml_loader.Node:
    yaml_documents.load_all(text, place)  # reports syntax errors with their line
    for node in yaml_loader.compose(text, yaml_documents.LIMITS):
        kind = _child(node, "kind")
        if node is not None and isinstance(kind, yaml_loader.Scalar) and kind.value == KIND:
            return node
    raise InvalidDocument(f"has no {KIND}", place=place)


def _child(node: yaml_loader.Node | None, name: str) -> yaml_loader.Node | None:
    pairs = node.pairs if isinstance(node, yaml_loader.Mapping) else []
    return next((value for key, value in pairs if isinstance(key, yaml_loader.Scalar) and key.value == name), None)


def _put(text: str, node: yaml_loader.Node, number: int) -> str:
    return f"{text[: node.start]}{number}{text[node.end :]}"


def _add(text: str, holder: yaml_loader.Mapping, field: str, number: int) -> str:
    first = holder.pairs[0][0]
    between = ", " if holder.is_flow else "\n" + " " * first.column
    return f"{text[: first.start]}{field}: {number}{between}{text[first.start :]}"


def _verify(before: str, after: str, place: str, path: Sequence[str], number: int) -> None:
    """Raise if anything else changed, which happens with YAML anchors and merges."""
    expected = [orjson.loads(orjson.dumps(document.data)) for document in yaml_documents.load_all(before, place)]  # shares nothing
    for data in expected:
        if data.get("kind") == KIND:
            holder = data
            for name in path[:-1]:
                holder = holder[name]
            holder[path[-1]] = number
    if [document.data for document in yaml_documents.load_all(after, place)] != expected:
        raise InvalidDocument(f"{'.'.join(path)} cannot be changed alone", place=place, hint="edit the file, then apply")
