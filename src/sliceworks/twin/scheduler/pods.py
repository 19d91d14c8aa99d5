"""Pods as the scheduler sees them: slim, and what they ask for shared by all that ask alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.scheduler.requests import pod_requests
from sliceworks.twin.scheduler.selection import Tolerations, node_choice
from sliceworks.twin.scheduler.terms import NO_SPREADS, PodTerms, Spreads, pod_terms, spreads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.scheduler.selection import NodeChoice

Key = tuple[str, str]
HostPort = tuple[str, str, int]
DEFAULT_SCHEDULER = "default-scheduler"
_ENDED = ("Succeeded", "Failed")


class Wants:
    """What a pod asks of one node, whatever else runs elsewhere: pods that want the same get the same answer."""

    __slots__ = ("choice", "counted", "images", "key", "pair", "ports", "requests", "tolerations", "used")

    def __init__(self, key: bytes, spec: Mapping[str, Any]) -> None:
        self.key = key
        requests = pod_requests(spec)
        counted = pod_requests(spec, at_least=True)
        self.requests = tuple((name, amount) for name, amount in requests.items() if amount > 0)
        self.used = requests.get("cpu", 0), requests.get("memory", 0)
        self.counted = counted.get("cpu", 0), counted.get("memory", 0)
        self.ports = _host_ports(spec)
        self.images = tuple(_image(container) for container in _all_containers(spec))
        self.choice: NodeChoice = node_choice(spec)
        self.pair = self.choice.exact()
        self.tolerations = Tolerations(spec.get("tolerations") or ())


class Shape:
    """All that counts when a pod is placed; pods of one shape differ in nothing but their names and labels."""

    __slots__ = ("key", "spreads", "terms", "wants")

    def __init__(self, key: bytes, wants: Wants, terms: PodTerms, spreading: Spreads) -> None:
        self.key = key
        self.wants = wants
        self.terms = terms
        self.spreads = spreading


class Pod:
    """One pod. But for its nomination and its revision it does not change: what has changed is read anew."""

    __slots__ = (
        "claims",
        "generation",
        "key",
        "labels",
        "leaving_for_others",
        "may_preempt",
        "node",
        "nominated",
        "owner",
        "priority",
        "revision",
        "shape",
        "started",
        "terminating",
        "uid",
    )

    def __init__(self, obj: Mapping[str, Any], shape: Shape) -> None:
        metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
        self.key: Key = (metadata["namespace"], metadata["name"])
        self.uid: str = metadata["uid"]
        self.revision: str = metadata.get("resourceVersion") or ""
        self.generation: int = metadata.get("generation") or 0
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self.shape = shape
        self.node: str = spec.get("nodeName") or ""
        self.nominated: str = status.get("nominatedNodeName") or ""
        self.priority: int = spec.get("priority") or 0
        self.may_preempt = spec.get("preemptionPolicy") != "Never"
        self.started: str = status.get("startTime") or ""
        self.terminating = bool(metadata.get("deletionTimestamp"))
        self.leaving_for_others = self.terminating and _is_preempted(status)
        self.claims = _claims(spec)
        self.owner = _controller(metadata.get("ownerReferences") or ())


class Shapes:
    """Reads pods, and remembers what has been asked for before."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, Shape] = {}
        self._wants: dict[bytes, Wants] = {}

    def read(self, obj: Mapping[str, Any]) -> Pod:
        """The pod in an object."""
        spec = obj["spec"]
        affinity, constraints = spec.get("affinity") or {}, spec.get("topologySpreadConstraints")
        local = orjson.dumps(
            (
                [_outline(container) for container in spec.get("containers") or ()],
                [_outline(container) for container in spec.get("initContainers") or ()],
                [spec.get(name) for name in ("nodeSelector", "tolerations", "overhead", "resources")],
                affinity.get("nodeAffinity"),
            )
        )
        if not constraints and len(affinity) <= ("nodeAffinity" in affinity):
            shape = self._shapes.get(local)
            if shape is None:
                shape = self._shapes[local] = Shape(local, self._wanted(local, spec), pod_terms({}, ""), NO_SPREADS)
            return Pod(obj, shape)
        return Pod(obj, self._linked(obj, local, affinity, constraints or []))

    def _linked(self, obj: Mapping[str, Any], local: bytes, affinity: dict[str, Any], constraints: list[dict[str, Any]]) -> Shape:
        metadata = obj["metadata"]
        labels = metadata.get("labels") or {}
        matched = [labels.get(key) for one in constraints for key in one.get("matchLabelKeys") or ()]
        others = [affinity.get("podAffinity"), affinity.get("podAntiAffinity")]
        key = orjson.dumps((local.decode(), metadata["namespace"], others, constraints, matched))
        shape = self._shapes.get(key)
        if shape is None:
            terms = pod_terms(affinity, metadata["namespace"])
            shape = Shape(key, self._wanted(local, obj["spec"]), terms, spreads(constraints, labels))
            self._shapes[key] = shape
        return shape

    def _wanted(self, key: bytes, spec: Mapping[str, Any]) -> Wants:
        wants = self._wants.get(key)
        if wants is None:
            wants = self._wants[key] = Wants(key, spec)
        return wants

    def forget(self, used: set[bytes]) -> None:
        """Drop what no pod asks for any more."""
        self._shapes = {key: shape for key, shape in self._shapes.items() if key in used}
        kept = {shape.wants.key for shape in self._shapes.values()}
        self._wants = {key: wants for key, wants in self._wants.items() if key in kept}

    def __len__(self) -> int:
        return len(self._shapes)


def has_ended(obj: Mapping[str, Any]) -> bool:
    """Whether a pod's containers will never run again: it takes no room any more."""
    return (obj.get("status") or {}).get("phase") in _ENDED


def _outline(container: Mapping[str, Any]) -> list[Any]:
    """What counts of a container."""
    ports = container.get("ports")
    return [
        container.get("image"),
        (container.get("resources") or {}).get("requests"),
        container.get("restartPolicy"),
        [port for port in ports if port.get("hostPort")] if ports else None,
    ]


def _all_containers(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    lasting = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    ports = [port for one in (*lasting, *(spec.get("containers") or ())) for port in one.get("ports") or ()]
    return tuple(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]) for port in ports if port.get("hostPort")
    )


def _image(container: Mapping[str, Any]) -> str:
    """An image's name with its tag."""
    name: str = container.get("image") or ""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The claims a pod names."""
    volumes = spec.get("volumes") or ()
    return tuple(one["persistentVolumeClaim"].get("claimName", "") for one in volumes if "persistentVolumeClaim" in one)


def _controller(owners: Iterable[Mapping[str, Any]]) -> tuple[str, str, str] | None:
    return next(((one["apiVersion"], one["kind"], one["name"]) for one in owners if one.get("controller")), None)


def _is_preempted(status: Mapping[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget":
            return (condition.get("status"), condition.get("reason")) == ("True", "PreemptionByScheduler")
    return False
