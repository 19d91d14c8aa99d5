"""Pods as the scheduler caches them; equal requirements are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.kube.node_affinity import Tolerations, parse_node_affinity
from sliceworks.kube.persistent_volumes import pod_claims
from sliceworks.kube.pod_requests import all_containers, host_ports, pod_requests
from sliceworks.kube.resources import controller_of
from sliceworks.twin.scheduler.topology_constraints import (
    NO_CONSTRAINTS,
    NO_TERMS,
    PodAffinityTerms,
    SpreadConstraints,
    parse_affinity_terms,
    parse_spread_constraints,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PodKey = tuple[str, str]
HostPort = tuple[str, str, int]
DEFAULT_SCHEDULER = "default-scheduler"


class NodeRequirements:
    """What a pod requires of a node, independent of other pods; equal requirements are shared."""

    __slots__ = ("affinity", "images", "key", "non_zero", "ports", "requests", "required_label", "tolerations", "used")

    def __init__(self, key: bytes, spec: Mapping[str, Any]) -> None:
        self.key = key
        requests = pod_requests(spec)
        non_zero = pod_requests(spec, non_zero=True)
        self.requests = tuple((name, amount) for name, amount in requests.items() if amount > 0)
        self.used = requests.get("cpu", 0), requests.get("memory", 0)
        self.non_zero = non_zero.get("cpu", 0), non_zero.get("memory", 0)
        """CPU and memory requests for scoring, with defaults for containers without requests."""
        self.ports = tuple(
            (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]) for port in host_ports(spec)
        )
        self.images = tuple(map(_normalized_image, all_containers(spec)))
        self.affinity = parse_node_affinity(spec)
        self.required_label = self.affinity.exact_label()
        self.tolerations = Tolerations(spec.get("tolerations") or ())


class PodShape:
    """The scheduling requirements of pods that differ only in names and labels."""

    __slots__ = ("key", "node", "spreads", "terms")

    def __init__(self, key: bytes, node: NodeRequirements, terms: PodAffinityTerms, spreads: SpreadConstraints) -> None:
        self.key = key
        self.node = node
        self.terms = terms
        self.spreads = spreads


class PodInfo:
    """One pod. Only its nomination, resource version and start time are updated; other changes create a new PodInfo."""

    __slots__ = (
        "can_preempt",
        "claims",
        "generation",
        "key",
        "labels",
        "node",
        "nominated",
        "owner",
        "preempted",
        "priority",
        "resource_version",
        "shape",
        "started",
        "terminating",
        "uid",
    )

    def __init__(self, obj: Mapping[str, Any], shape: PodShape) -> None:
        metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
        self.key: PodKey = (metadata["namespace"], metadata["name"])
        self.uid: str = metadata["uid"]
        self.resource_version: str = metadata.get("resourceVersion") or ""
        self.generation: int = metadata.get("generation") or 0
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self.shape = shape
        self.node: str = spec.get("nodeName") or ""
        self.nominated: str = status.get("nominatedNodeName") or ""
        self.priority: int = spec.get("priority") or 0
        self.can_preempt = spec.get("preemptionPolicy") != "Never"
        self.started: str = status.get("startTime") or ""
        self.terminating = bool(metadata.get("deletionTimestamp"))
        self.preempted = self.terminating and _is_preempted(status)
        self.claims = tuple(pod_claims(obj)) if spec.get("volumes") else ()
        """The names of its claims, and whether each is that of an ephemeral volume."""
        owner = controller_of(obj)
        self.owner = (owner["apiVersion"], owner["kind"], owner["name"]) if owner else None


class PodInfoCache:
    """Parses pods, sharing the requirements of equal pods."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, PodShape] = {}
        self._requirements: dict[bytes, NodeRequirements] = {}

    def parse(self, obj: Mapping[str, Any]) -> PodInfo:
        """Parse a pod."""
        spec = obj["spec"]
        affinity, constraints = spec.get("affinity") or {}, spec.get("topologySpreadConstraints")
        local = orjson.dumps(
            (
                [_scheduling_fields(container) for container in spec.get("containers") or ()],
                [_scheduling_fields(container) for container in spec.get("initContainers") or ()],
                [spec.get(name) for name in ("nodeSelector", "tolerations", "overhead", "resources")],
                affinity.get("nodeAffinity"),
            )
        )
        if not constraints and len(affinity) <= ("nodeAffinity" in affinity):
            shape = self._shapes.get(local)
            if shape is None:
                shape = self._shapes[local] = PodShape(local, self._get_requirements(local, spec), NO_TERMS, NO_CONSTRAINTS)
            return PodInfo(obj, shape)
        return PodInfo(obj, self._parse_linked(obj, local, affinity, constraints or []))

    def _parse_linked(
        self, obj: Mapping[str, Any], local: bytes, affinity: dict[str, Any], constraints: list[dict[str, Any]]
    ) -> PodShape:
        """The shape of a pod with pod affinity or topology spread constraints."""
        metadata = obj["metadata"]
        labels = metadata.get("labels") or {}
        matched = [labels.get(key) for constraint in constraints for key in constraint.get("matchLabelKeys") or ()]
        others = [affinity.get("podAffinity"), affinity.get("podAntiAffinity")]
        key = orjson.dumps((local.decode(), metadata["namespace"], others, constraints, matched))
        shape = self._shapes.get(key)
        if shape is None:
            terms = parse_affinity_terms(affinity, metadata["namespace"])
            shape = PodShape(key, self._get_requirements(local, obj["spec"]), terms, parse_spread_constraints(constraints, labels))
            self._shapes[key] = shape
        return shape

    def _get_requirements(self, key: bytes, spec: Mapping[str, Any]) -> NodeRequirements:
        requirements = self._requirements.get(key)
        if requirements is None:
            requirements = self._requirements[key] = NodeRequirements(key, spec)
        return requirements

    def retain(self, used: set[bytes]) -> None:
        """Drop the shapes that are not used."""
        self._shapes = {key: shape for key, shape in self._shapes.items() if key in used}
        kept = {shape.node.key for shape in self._shapes.values()}
        self._requirements = {key: requirements for key, requirements in self._requirements.items() if key in kept}

    def __len__(self) -> int:
        return len(self._shapes)


def _scheduling_fields(container: Mapping[str, Any]) -> list[Any]:
    ports = container.get("ports")
    return [
        container.get("image"),
        (container.get("resources") or {}).get("requests"),
        container.get("restartPolicy"),
        [port for port in ports if port.get("hostPort")] if ports else None,
    ]


def _normalized_image(container: Mapping[str, Any]) -> str:
    """The image name with its tag."""
    name: str = container.get("image") or ""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _is_preempted(status: Mapping[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget":
            return (condition.get("status"), condition.get("reason")) == ("True", "PreemptionByScheduler")
    return False
