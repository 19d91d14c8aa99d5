"""Environment stages with their resources, outputs and drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DRIFT = {"update": "changed", "replace": "changed", "delete": "deleted", "create": "deleted", "refused": "changed"}
_SECRET = ("secret", "password", "token", "key", "certificate", "credential")
HIDDEN = "not shown"


@dataclass(frozen=True, slots=True)
class ResourceView:
    """A resource by its address; `drift` is empty when it matches the state."""

    address: str
    kind: str
    name: str
    drift: str = ""


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage with its resources and outputs."""

    name: str
    title: str
    resources: tuple[ResourceView, ...]
    outputs: tuple[tuple[str, str], ...]

    @property
    def state(self) -> str:
        """Whether the stage is created and has drifted."""
        if not self.resources:
            return "not created"
        drifted = sum(bool(item.drift) for item in self.resources)
        return f"{drifted} drifted" if drifted else "no drift"

    @property
    def tone(self) -> str:
        return "idle" if not self.resources else "bad" if self.state != "no drift" else "good"


TITLES = {
    "0-bootstrap": "State, identity and services",
    "1-base": "Network, buckets and registry",
    "2-cluster": "Cluster and node pools",
    "3-serving": "Mesh for serving",
    "4-load": "Metrics of load tests",
    "cluster": "Inside the cluster",
}


def stage(name: str, outputs: Mapping[str, Any], resources: Mapping[str, str]) -> StageView:
    """The view of a stage; `resources` maps addresses to the planned Terraform action."""
    views = [_resource(address, DRIFT.get(action, action)) for address, action in resources.items()]
    return StageView(name, TITLES.get(name, ""), tuple(views), tuple(flat(outputs)))


def cluster_stage(listed: Iterable[tuple[str, str]], drifted: Mapping[str, str]) -> StageView:
    """The view of the objects installed in the cluster, as (step, object)."""
    views = [ResourceView(what, step, what, drifted.get(what, "")) for step, what in listed]
    return StageView("cluster", TITLES["cluster"], tuple(views), ())


def _resource(address: str, drift: str) -> ResourceView:
    """`module.cluster.google_container_node_pool.this["cpu"]` becomes kind `container node pool`, name `cpu`."""
    *modules, kind, name = _parts(address)
    shown = kind.removeprefix("google_").replace("_", " ")
    bare, _, index = name.partition("[")
    index = index.rstrip("]").strip('"')
    # A resource named `this` takes the name of its module.
    within = modules[-1].partition("[")[0] if bare == "this" and modules and modules[-1] else bare
    return ResourceView(address, shown, within if not index or index.isdigit() else index, drift)


def _parts(address: str) -> list[str]:
    """Split an address at its dots, except within brackets."""
    parts, depth, word = [], 0, ""
    for letter in address:
        depth += (letter == "[") - (letter == "]")
        if letter == "." and not depth:
            parts.append(word)
            word = ""
        else:
            word += letter
    return ["", *parts, word]


def flat(outputs: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Outputs by their full path; values that may be secret are hidden."""
    for name, value in outputs.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict):
            yield from flat(value, path)
        elif any(word in name.lower() for word in _SECRET):
            yield path, HIDDEN
        else:
            yield path, ", ".join(map(str, value)) if isinstance(value, list) else "–" if value is None else str(value)
