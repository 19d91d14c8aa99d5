"""First documents: an Environment drawn up from one of the examples, for a person to read and change. Pure but for the examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sliceworks import catalog
from sliceworks.base import yamls
from sliceworks.base.errors import UsageError
from sliceworks.catalog import zones
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

FILE = "environment.yaml"
_STEMS = {"self-service": "(?:self-service|inference)"}
_GRAPH = "../../graphs/gemma-on-tpu/definition.yaml"
_GRAPH_BESIDE = "gemma-on-tpu.yaml"
_FOR_TRIALS = "deletionProtection: false|forceDestroy: true"  # examples are made to be removed again, environments are not
_NAMED = r"(?:name|prefix|bucket|serviceAccount): "


@dataclass(frozen=True, slots=True)
class Draft:
    """What a person answered. A zone that is empty is chosen, where one is needed."""

    template: str
    name: str
    project: str
    region: str
    zone: str = ""

    def files(self) -> dict[str, str]:
        """The document under the name `FILE`, and what it needs beside it."""
        text = _named(_text(self.template), self.template, self.name or self.template)
        text = text.replace("my-project", self.project)
        text = re.sub(rf"(?m)^  (?:{_FOR_TRIALS})\n", "", text)
        text = re.sub(r"(?m)^  region: .*$", f"  region: {self.region}", text)
        text = re.sub(r"(?m)^  zones: .*$", lambda _found: f"  zones: [{self._zone()}]", text)
        found = {FILE: text.replace(_GRAPH, _GRAPH_BESIDE)}
        if _GRAPH in text:
            found[_GRAPH_BESIDE] = _examples("graphs").joinpath("gemma-on-tpu", "definition.yaml").read_text(encoding="utf-8")
        return found

    def _zone(self) -> str:
        chosen = self.zone or next(iter(zones_for(self.template, self.region)), "")
        if not chosen:
            known = ", ".join(zones_for(self.template)[:6])
            raise UsageError(
                f"no zone of {self.region} is known to have what {self.template} needs", hint=f"zones that do: {known}"
            )
        return chosen


def region_of(template: str) -> str:
    """The region that an example is in."""
    return _environment(template).spec.region


def zones_for(template: str, region: str = "") -> list[str]:
    """The zones, of a region or of all, that have every accelerator of an example. The example's own comes first."""
    spec = _environment(template).spec
    wanted = [set(zones.of(catalog.find(pool.type, pool.topology or None))) for pool in spec.pools.tpu.values()]
    wanted += [
        set(zones.of(catalog.gpu_for(pool.machine_type, pool.accelerator, pool.accelerator_count or 0)))
        for pool in spec.pools.gpu.values()
    ]
    both = set.intersection(*wanted) if wanted else set()
    fitting = {zone for zone in both if not region or zones.region_of(zone) == region}
    return sorted(fitting, key=lambda zone: (zone not in spec.zones, zone))


def _named(text: str, template: str, name: str) -> str:
    """The text with names that begin with the example's beginning with the document's. What jobs refer to stays as it is."""
    stem = _STEMS.get(template, template)
    text = re.sub(rf"(?m)^(\s*{_NAMED}(?:my-project-)?){stem}(?=-|$)", rf"\g<1>{name}", text)
    return re.sub(rf"(?m)^(\s+my-project-){stem}(?=[-:])", rf"\g<1>{name}", text)


def _environment(template: str) -> Environment:
    [document] = yamls.load_all(_text(template), template)
    return documents.read_as(document, Environment)


def _text(template: str) -> str:
    return _examples("environments").joinpath(template, FILE).read_text(encoding="utf-8")


def _examples(kind: str) -> Path:
    """Beside this code when installed, in the repository when worked on."""
    packed = Path(__file__).parent / "examples" / kind
    return packed if packed.is_dir() else Path(__file__).parents[3] / "examples" / kind
