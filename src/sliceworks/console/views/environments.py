"""An environment as a page shows it: its stages, what each has made, what it gives to others, and what is no longer so. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DRIFT = {"update": "changed", "replace": "changed", "delete": "gone", "create": "gone", "refused": "changed"}
_SECRET = ("secret", "password", "token", "key", "certificate", "credential")
HIDDEN = "not shown"


@dataclass(frozen=True, slots=True)
class Thing:
    """One resource by its address, and what somebody else did to it, if anything."""

    address: str
    kind: str
    name: str
    drift: str = ""


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage."""

    name: str
    title: str
    things: tuple[Thing, ...]
    outputs: tuple[tuple[str, str], ...]

    @property
    def state(self) -> str:
        """In two words."""
        if not self.things:
            return "not made"
        drifted = sum(bool(each.drift) for each in self.things)
        return f"{drifted} drifted" if drifted else "as made"

    @property
    def tone(self) -> str:
        return "idle" if not self.things else "bad" if self.state != "as made" else "good"


TITLES = {
    "0-bootstrap": "State, identity and services",
    "1-base": "Network, buckets and registry",
    "2-cluster": "Cluster and node pools",
    "3-serving": "Mesh for serving",
    "4-load": "Metrics of load tests",
    "cluster": "Inside the cluster",
}


def stage(name: str, outputs: Mapping[str, Any], resources: Mapping[str, str]) -> StageView:
    """What a stage made; `resources` are addresses with what Terraform says was done to each."""
    things = [_thing(address, DRIFT.get(action, action)) for address, action in resources.items()]
    return StageView(name, TITLES.get(name, ""), tuple(things), tuple(flat(outputs)))


def inside(listed: Iterable[tuple[str, str]], drifted: Mapping[str, str]) -> StageView:
    """What was put into the cluster: (step, object)."""
    things = [Thing(what, step, what, drifted.get(what, "")) for step, what in listed]
    return StageView("cluster", TITLES["cluster"], tuple(things), ())


def _thing(address: str, drift: str) -> Thing:
    """`module.cluster.google_container_node_pool.this["cpu"]` is a container node pool, called cpu."""
    *modules, kind, name = _parts(address)
    shown = kind.removeprefix("google_").replace("_", " ")
    bare, _, index = name.partition("[")
    index = index.rstrip("]").strip('"')
    # What a module calls `this` is what the module is for.
    within = modules[-1].partition("[")[0] if bare == "this" and modules and modules[-1] else bare
    return Thing(address, shown, within if not index or index.isdigit() else index, drift)


def _parts(address: str) -> list[str]:
    """The address at its dots, but for those within brackets."""
    parts, depth, word = [], 0, ""
    for letter in address:
        depth += (letter == "[") - (letter == "]")
        if letter == "." and not depth:
            parts.append(word)
            word = ""
        else:
            word += letter
    return ["", *parts, word]


def flat(outputs: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    """Outputs by their whole names; what may be secret keeps its name only."""
    for name, value in outputs.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, dict):
            yield from flat(value, path)
        elif any(word in name.lower() for word in _SECRET):
            yield path, HIDDEN
        else:
            yield path, ", ".join(map(str, value)) if isinstance(value, list) else "–" if value is None else str(value)
