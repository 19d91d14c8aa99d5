"""What Google Cloud refuses: the catalog of rules, and the conditions that a document or a request can show.

The rules are data (`data/gke_rules.yaml`): an id, the condition, Google's answer, its source and its date. The functions decide
conditions without I/O. The twin's cloud refuses through them, and `env check` reports the same violations:

    violation = check_auto_upgrade("REGULAR", auto_upgrade=False)
    violation.message    # Auto_upgrade must be true when release_channel REGULAR is set.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Literal

from sliceworks.catalog import availability, data, tpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.catalog.lookup import Accelerator
    from sliceworks.catalog.tpus import Slice

Enforced = Literal["twin", "env check", "both"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of Google Cloud and the answer to a request that breaks it."""

    id: str
    topic: str
    condition: str
    status: str
    """Google's canonical code, such as INVALID_ARGUMENT."""
    message: str
    """Google's message, with placeholders."""
    source: str
    enforced: Enforced
    collected: str
    quoted: bool = True
    """Whether the source quotes the message; otherwise the wording is the twin's."""
    http: int = 0
    """The HTTP status code, where it does not follow from `status`."""
    reason: str = ""
    """The `reason` of older error formats, where it does not follow from `status`."""
    code: str = ""
    """GKE's condition code, if the rule lets an operation fail instead of refusing the request."""
    info: Mapping[str, str] = field(default_factory=dict)
    """Reason and domain of the machine-readable `ErrorInfo`."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule and the parameters of its message."""

    rule: Rule
    parameters: Mapping[str, str]

    @property
    def message(self) -> str:
        """Google's message."""
        return self.rule.message.format_map(self.parameters)


@lru_cache(maxsize=1)
def rules() -> dict[str, Rule]:
    """All rules by id."""
    document = data.load("gke_rules")
    return {raw["id"]: Rule(collected=document["collected"], **raw) for raw in document["rules"]}


def violate(rule: str, **parameters: object) -> Violation:
    """The violation of a rule."""
    return Violation(rules()[rule], {name: str(value) for name, value in parameters.items()})


# Names and labels

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?")
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
_ALLOWED_DOMAINS = ("node.kubernetes.io", "kubelet.kubernetes.io")
_MANAGED_LABELS = frozenset(
    {
        "cloud.google.com/compute-class",
        "cloud.google.com/gke-accelerator",
        "cloud.google.com/gke-accelerator-count",
        "cloud.google.com/gke-nodepool",
        "cloud.google.com/gke-spot",
        "cloud.google.com/gke-tpu-accelerator",
        "cloud.google.com/gke-tpu-topology",
        "cloud.google.com/machine-family",
    }
)


def check_cluster_name(name: str) -> Violation | None:
    """Rule `cluster-name`."""
    return None if _NAME.fullmatch(name) else violate("cluster-name", name=name)


def check_node_pool_name(name: str) -> Violation | None:
    """Rule `node-pool-name`."""
    return None if _NAME.fullmatch(name) else violate("node-pool-name", name=name)


def check_node_labels(keys: Iterable[str]) -> Violation | None:
    """Rules `node-label-kubernetes` and `node-label-managed`."""
    for key in keys:
        domain = key.rpartition("/")[0]
        if _in_domains(domain, _RESERVED_DOMAINS) and not _in_domains(domain, _ALLOWED_DOMAINS):
            return violate("node-label-kubernetes", label=key)
        if key in _MANAGED_LABELS:
            return violate("node-label-managed", label=key)
    return None


def _in_domains(domain: str, domains: Iterable[str]) -> bool:
    return any(domain == known or domain.endswith(f".{known}") for known in domains)


# Roles

_PREDEFINED, _BASIC = "roles/", "basic"


@lru_cache(maxsize=1)
def predefined_roles() -> frozenset[str]:
    """The names of all predefined roles."""
    names_by_service = data.load("iam_roles")["roles"].items()
    prefixed = ((_PREDEFINED if service == _BASIC else f"{_PREDEFINED}{service}.", names) for service, names in names_by_service)
    return frozenset(f"{prefix}{name}" for prefix, names in prefixed for name in names.split())


def check_role(role: str) -> Violation | None:
    """Rule `policy-role` for predefined roles; whether a custom role exists, only its project knows."""
    return violate("policy-role", role=role) if role.startswith(_PREDEFINED) and role not in predefined_roles() else None


# Versions and release channels

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?")


def offered_versions() -> tuple[str, ...]:
    """The versions that GKE offers, newest first."""
    return tuple(data.load("gke_versions")["versions"])


def default_version(channel: str = "") -> str:
    """The default version of a release channel, or without a channel."""
    document = data.load("gke_versions")
    return str(document["channels"].get(channel) or document["default"])


def release_channels() -> tuple[str, ...]:
    """The names of the release channels."""
    return tuple(data.load("gke_versions")["channels"])


def resolve_version(alias: str, channel: str = "") -> str | None:
    """The full version of `latest`, `-`, a version prefix or a full version; None if GKE does not offer it."""
    if alias in ("", "-"):
        return default_version(channel)
    versions = offered_versions()
    if alias == "latest":
        return versions[0]
    matching = (version for version in versions if version == alias or version.startswith((f"{alias}.", f"{alias}-")))
    return next(matching, None)


def check_control_plane_version(alias: str) -> Violation | None:
    """Rules `version-prefix` and `control-plane-version`."""
    return None if resolve_version(alias) is not None else _unknown_version(alias)


def check_minor_version(alias: str) -> Violation | None:
    """Rules `version-prefix` and `control-plane-version` for minor versions only, because offered patch versions change weekly."""
    if alias in ("", "-", "latest"):
        return None
    match = _VERSION.fullmatch(alias)
    offered = {parse_minor(version) for version in offered_versions()}
    return None if match and (int(match[1]), int(match[2])) in offered else _unknown_version(alias)


def _unknown_version(alias: str) -> Violation:
    return violate("control-plane-version" if "-gke." in alias else "version-prefix", version=alias)


def check_node_version(version: str, control_plane: str, *, auto_upgrade: bool) -> Violation | None:
    """Rules `node-version`, `node-version-newer` and `node-version-skew`."""
    if version not in offered_versions():
        return violate("node-version", version=version)
    nodes, minor = parse_minor(version), parse_minor(control_plane)
    if nodes > minor:
        return violate("node-version-newer", version=version, control_plane=control_plane)
    if auto_upgrade and nodes[1] < minor[1] - 1:
        return violate("node-version-skew", version=version, control_plane=control_plane)
    return None


def parse_minor(version: str) -> tuple[int, int]:
    """Major and minor number of a version."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def check_auto_upgrade(channel: str, *, auto_upgrade: bool) -> Violation | None:
    """Rule `auto-upgrade-in-channel`; an empty channel is none."""
    return violate("auto-upgrade-in-channel", channel=channel) if channel and not auto_upgrade else None


# Machine types, zones and sizes

MAX_NODES_PER_ZONE = 2_000


def check_machine_zone(machine: str, zone: str, accelerator: Accelerator | None = None) -> Violation | None:
    """Rule `machine-type-zone`: the zone offers the machine family, and the accelerator where its zones are known."""
    families = availability.machine_families(zone)
    if families and machine.partition("-")[0] not in families:
        return violate("machine-type-zone", machine=machine, zone=zone)
    if accelerator is not None:
        zones = availability.zones_of(accelerator)
        if zones and zone not in zones:
            return violate("machine-type-zone", machine=machine, zone=zone)
    return None


def check_node_count(count: int) -> Violation | None:
    """Rule `node-count`; the count is per zone."""
    return None if 0 <= count <= MAX_NODES_PER_ZONE else violate("node-count", count=count)


def check_autoscaling(minimum: int, maximum: int, total_maximum: int = 0) -> Violation | None:
    """Rule `autoscaling-limits`; `total_maximum` is the limit of all zones together."""
    if not (maximum or total_maximum) or minimum > maximum > 0:
        return violate("autoscaling-limits", minimum=minimum, maximum=maximum or total_maximum)
    return None


def check_spot_reservation(pool: str, *, spot: bool, reserved: bool) -> Violation | None:
    """Rule `spot-reservation`."""
    return violate("spot-reservation", pool=pool) if spot and reserved else None


def check_secondary_boot_disk(pool: str, *, has_disk: bool, image_streaming: bool) -> Violation | None:
    """Rule `secondary-boot-disk-streaming`."""
    return violate("secondary-boot-disk-streaming", pool=pool) if has_disk and not image_streaming else None


def check_system_pool(*, tpu_pools: int, other_pools: int) -> Violation | None:
    """Rule `system-pool`."""
    return violate("system-pool") if tpu_pools and not other_pools else None


def check_flex_start(*, flex_start: bool, autoscaling: bool, initial_nodes: int, reserved: bool) -> Violation | None:
    """Rules `flex-start-autoscaling`, `flex-start-size` and `flex-start-reservation`."""
    if not flex_start:
        return None
    if not autoscaling:
        return violate("flex-start-autoscaling")
    if initial_nodes:
        return violate("flex-start-size")
    return violate("flex-start-reservation") if reserved else None


def check_queued_provisioning(*, enabled: bool, affinity: str) -> Violation | None:
    """Rule `queued-provisioning-reservation`; `affinity` is the consumed reservation type."""
    return violate("queued-provisioning-reservation") if enabled and affinity != "NO_RESERVATION" else None


# TPU slices

_LARGEST_TOPOLOGIES = {"v4": "12x16x16", "v5p": "16x16x24"}


def check_slice(tpu_slice: Slice) -> Violation | None:
    """Rule `tpu-largest-slice`."""
    largest = _LARGEST_TOPOLOGIES.get(tpu_slice.generation.name)
    if largest is None or tpu_slice.chips <= prod(tpus.parse_topology(largest)):
        return None
    return violate("tpu-largest-slice", topology=tpu_slice.topology, machine=tpu_slice.machine.name, largest=largest)


def check_slice_nodes(tpu_slice: Slice, count: int) -> Violation | None:
    """Rule `tpu-slice-nodes`: all hosts or none."""
    if count in (0, tpu_slice.hosts):
        return None
    return violate("tpu-slice-nodes", count=count, topology=tpu_slice.topology)


def check_slice_autoscaling(tpu_slice: Slice, maximum: int) -> Violation | None:
    """Rule `tpu-slice-autoscaling`; `maximum` is per zone (`maxNodeCount`)."""
    if maximum == tpu_slice.hosts:
        return None
    return violate("tpu-slice-autoscaling", count=maximum, topology=tpu_slice.topology)


def check_slice_zones(pool: str, zones: int) -> Violation | None:
    """Rule `tpu-slice-zone`."""
    return violate("tpu-slice-zone", pool=pool) if zones > 1 else None


def check_placement(tpu_slice: Slice, policy_name: str) -> Violation | None:
    """Rule `tpu7x-workload-policy`."""
    if tpu_slice.generation.placed_by == tpus.COMPACT or policy_name:
        return None
    return violate("tpu7x-workload-policy", machine=tpu_slice.machine.name)


# IP ranges

DEFAULT_MAX_PODS = 110
_RESERVED_ADDRESSES = 4
_MIN_PODS, _MAX_PODS = 8, 256


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The largest number of nodes of a node pool, and the maximum number of pods on each."""

    nodes: int
    max_pods: int = DEFAULT_MAX_PODS


def check_max_pods(pods: int) -> Violation | None:
    """Rule `max-pods-per-node`."""
    return None if _MIN_PODS <= pods <= _MAX_PODS else violate("max-pods-per-node", pods=pods)


def pod_block_prefix(max_pods: int) -> int:
    """The prefix length of the block of pod addresses of one node: 110 pods are a /24, 15 a /27."""
    return 32 - (2 * max(max_pods, _MIN_PODS) - 1).bit_length()


def pod_addresses(pools: Iterable[PoolSize]) -> int:
    """The addresses that the pods of these pools take."""
    return sum(pool.nodes * 2 ** (32 - pod_block_prefix(pool.max_pods)) for pool in pools)


def pod_range_prefix(pools: Iterable[PoolSize]) -> int:
    """The prefix length of the smallest range for the pods of these pools."""
    return 32 - max(pod_addresses(pools) - 1, 0).bit_length()


def node_capacity(cidr: str) -> int:
    """The number of nodes that fit the primary range of a subnetwork."""
    return max(ipaddress.IPv4Network(cidr).num_addresses - _RESERVED_ADDRESSES, 0)


def check_pod_range(cidr: str, pools: Iterable[PoolSize], *, instance: str = "", name: str = "") -> Violation | None:
    """Rule `pod-range-exhausted`; `instance` and `name` of the range are for the message."""
    if pod_addresses(pools) <= ipaddress.IPv4Network(cidr).num_addresses:
        return None
    return violate("pod-range-exhausted", instance=instance, range=name or cidr)


def check_node_range(cidr: str, nodes: int, *, instance: str = "", name: str = "") -> Violation | None:
    """Rule `node-range-exhausted`; `instance` and `name` of the subnetwork are for the message."""
    return None if nodes <= node_capacity(cidr) else violate("node-range-exhausted", instance=instance, range=name or cidr)


def check_secondary_ranges(pods: str, services: str) -> Violation | None:
    """Rule `distinct-secondary-ranges`."""
    return violate("distinct-secondary-ranges", range=pods) if pods and pods == services else None


def check_overlaps(ranges: Mapping[str, ipaddress.IPv4Network]) -> Iterator[Violation]:
    """Rule `subnetwork-range`, for ranges by field."""
    fields = list(ranges)
    for index, first in enumerate(fields):
        for second in fields[index + 1 :]:
            if ranges[first].overlaps(ranges[second]):
                yield violate("subnetwork-range", field=second, range=ranges[second], other_field=first, other=ranges[first])


def check_secondary_change(old: Mapping[str, str], new: Mapping[str, str]) -> Violation | None:
    """Rules `secondary-range-modified` and `secondary-range-replaced`, for secondary ranges by name."""
    for name in old.keys() & new.keys():
        if old[name] != new[name]:
            return violate("secondary-range-modified", name=name)
    added, removed = [new[name] for name in new if name not in old], [old[name] for name in old if name not in new]
    if added and removed:
        return violate("secondary-range-replaced", added=", ".join(added), removed=", ".join(removed))
    return None


def check_primary_change(old: str, new: str) -> Violation | None:
    """Rule `primary-range`."""
    if ipaddress.IPv4Network(old).subnet_of(ipaddress.IPv4Network(new)):
        return None
    return violate("primary-range", range=new, current=old)


def check_authorized_network(cidr: str, *, private_endpoint: bool) -> Violation | None:
    """Rule `authorized-network`."""
    return violate("authorized-network", range=cidr) if private_endpoint and not _is_private(cidr) else None


def _is_private(cidr: str) -> bool:
    try:
        return ipaddress.IPv4Network(cidr).is_private
    except ValueError:
        return False


def check_network_policy(*, network_policy: bool, dataplane_v2: bool) -> Violation | None:
    """Rule `network-policy-dataplane`."""
    return violate("network-policy-dataplane") if network_policy and dataplane_v2 else None
