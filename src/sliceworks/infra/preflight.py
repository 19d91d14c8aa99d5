"""Preflight checks of an Environment before anything is created, the project's quotas included."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import files, names
from sliceworks.base.errors import CloudNotFound, SliceworksError, UsageError
from sliceworks.base.names import suggest_name
from sliceworks.catalog import availability, data, gke_rules
from sliceworks.infra.pools import compile_pool, find_accelerator, min_nodes, pods_range, pool_sizes
from sliceworks.infra.stages import Names
from sliceworks.specs.documents import DocumentProblem
from sliceworks.specs.environment.cluster import CpuPool, TpuPool
from sliceworks.specs.environment.teams import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.catalog.machine_types import Machine
    from sliceworks.infra.target import Target
    from sliceworks.specs.environment import Environment, EnvironmentSpec
    from sliceworks.specs.environment.cluster import Pool

_MAX_LENGTH = {"cluster": 40, "pool": 39}


@dataclass(frozen=True, slots=True)
class Finding(DocumentProblem):
    """A problem of an environment or its project, and the check that found it."""

    check: str = ""


def check(environment: Environment, skipped: Iterable[str] = ()) -> list[Finding]:
    """All problems of an environment, except those of skipped checks."""
    skipped_names = set(skipped)
    unknown = sorted(skipped_names - set(NAMES))
    if unknown:
        hint = suggest_name(unknown[0], NAMES) or f"checks: {', '.join(NAMES)}"
        raise UsageError(f"unknown check {unknown[0]}", hint=hint)
    return [
        replace(finding, check=name) for name, run in CHECKS.items() if name not in skipped_names for finding in run(environment)
    ]


def _types(environment: Environment) -> Iterator[Finding]:
    """Accelerator and machine types exist and fit together, and GKE offers slices of this size."""
    for kind, name, pool in environment.spec.pools.entries():
        path = ("spec", "pools", kind, name, "type" if kind == "tpu" else "machineType")
        try:
            compile_pool(environment.spec, name, pool)
        except SliceworksError as error:
            yield Finding(path, error.message, error.hint)
            continue
        slice_ = find_accelerator(pool) if isinstance(pool, TpuPool) else None
        if isinstance(slice_, catalog.Slice) and (violation := gke_rules.check_slice(slice_)):
            yield Finding(path, violation.message, "use several smaller slices")


def _zones(environment: Environment) -> Iterator[Finding]:
    """Zones have the machine type and the accelerator, according to the catalog."""
    spec = environment.spec
    for kind, name, pool in spec.pools.entries():
        path, zones = ("spec", "pools", kind, name), pool.zones or spec.zones
        if isinstance(pool, CpuPool):
            for zone in zones:
                if gke_rules.check_machine_zone(pool.machine_type, zone):
                    families = ", ".join(sorted(availability.machine_families(zone)))
                    problem = f"{zone} has no {pool.machine_type} according to the catalog"
                    yield Finding(path, problem, f"machine families of {zone}: {families}")
        else:
            try:
                accelerator = find_accelerator(pool)
            except SliceworksError:
                continue  # reported by the types check
            known = availability.zones_of(accelerator)
            if not zones and kind == "tpu":
                hint = f"zones with {accelerator.type_name}: {_few(known)}"
                yield Finding(("spec", "zones"), f"TPU pool {name} needs a zone", hint)
            for zone in zones[:1] if kind == "tpu" else zones:
                if known and zone not in known:
                    near = [item for item in known if availability.region_of(item) == spec.region] or list(known)
                    problem = f"{zone} has no {accelerator.type_name} according to the catalog"
                    yield Finding(path, problem, f"zones that have it: {_few(near)}")


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:5]) + (", …" if len(listed) > 5 else "")


def _ranges(environment: Environment) -> Iterator[Finding]:
    """IP ranges do not overlap, and fit the largest size of all pools."""
    network = environment.spec.network
    if network.existing:
        if violation := gke_rules.check_secondary_ranges(network.existing.pods_range, network.existing.services_range):
            path = ("spec", "network", "existing", "servicesRange")
            yield Finding(path, violation.message, "name two secondary ranges of the subnet")
        return
    yield from _range_sizes(environment.spec)
    try:
        pods = pods_range(environment.spec)
    except SliceworksError:
        return  # reported by the types check
    values = {"nodes": network.subnet.nodes, "pods": pods, "services": network.subnet.services}
    ranges = {field: ipaddress.IPv4Network(value) for field, value in values.items()}
    private = environment.spec.cluster.private
    if private and private.control_plane_range:
        ranges["controlPlaneRange"] = ipaddress.IPv4Network(private.control_plane_range)
    for (first, first_range), (second, second_range) in itertools.combinations(ranges.items(), 2):
        if first_range.overlaps(second_range):
            yield Finding(
                ("spec", "network", "subnet", second),
                f"{second} ({second_range}) overlaps with {first} ({first_range})",
                "use ranges that do not overlap",
            )


def _range_sizes(spec: EnvironmentSpec) -> Iterator[Finding]:
    try:
        sizes = pool_sizes(spec)
    except SliceworksError:
        return  # reported by the types check
    subnet, nodes = spec.network.subnet, sum(size.nodes for size in sizes)
    if gke_rules.check_node_range(subnet.nodes, nodes):
        yield Finding(
            ("spec", "network", "subnet", "nodes"),
            f"{subnet.nodes} has addresses for {gke_rules.node_capacity(subnet.nodes):,} nodes, the pools have up to {nodes:,}",
            "use a larger range, or reduce the pools",
        )
    pods = pods_range(spec)
    if gke_rules.check_pod_range(pods, sizes):
        needed = gke_rules.pod_range_prefix(sizes)
        yield Finding(
            ("spec", "network", "subnet", "pods"),
            f"{pods} is too small for the pods of up to {nodes:,} nodes, which need a /{needed}",
            "leave it out to get a range that fits, or reduce the pools or their maxPods",
        )


def _versions(environment: Environment) -> Iterator[Finding]:
    """GKE offers the version; JobSet and Kueue have releases with the APIs that Sliceworks uses."""
    spec = environment.spec
    if violation := gke_rules.check_minor_version(spec.cluster.version):
        offered = sorted({".".join(version.split(".")[:2]) for version in gke_rules.offered_versions()}, reverse=True)
        yield Finding(("spec", "cluster", "version"), violation.message, f"minor versions: {_few(offered)}")
    for name, releases in data.load("addon_releases").items():
        version = getattr(spec.addons.versions, name)
        path, tested = ("spec", "addons", "versions", name), Versions.model_fields[name].default
        parts = _RELEASE.fullmatch(version)
        minors = [tuple(map(int, minor.split("."))) for minor in releases["newest"]]
        if parts is None:
            yield Finding(path, f"{version!r} is not a release of {name}", f"use a version such as {tested}")
        elif (int(parts[1]), int(parts[2])) < min(minors):
            first = "v{}.{}.0".format(*min(minors))
            yield Finding(path, f"{name} {version} has no {releases['needs']}", f"use {first} or later")
        elif not getattr(spec.addons.checksums, name) and not _is_known(parts, releases["newest"]):
            newest = max(minors)
            last = "v{}.{}.{}".format(*newest, releases["newest"]["{}.{}".format(*newest)])
            hint = f"the newest that Sliceworks knows is {last}; for a later one, set spec.addons.checksums.{name}"
            yield Finding(path, f"{name} {version} is not a known release", hint)


def _is_known(version: re.Match[str], newest: dict[str, int]) -> bool:
    """Whether a version is a final release of the catalog."""
    return not version[4] and int(version[3]) <= newest.get(f"{version[1]}.{version[2]}", -1)


_RELEASE = re.compile(r"v(\d+)\.(\d+)\.(\d+)(-[a-z0-9.]+)?")
MAX_NODES = 15_000
"""Nodes of a GKE Standard cluster."""


def _sizes(environment: Environment) -> Iterator[Finding]:
    """Pools are within GKE's limits, and one of them runs system pods."""
    spec = environment.spec
    try:
        sizes = pool_sizes(spec)
    except SliceworksError:
        return  # reported by the types check
    pools = [("cpu", name) for name in spec.pools.cpu] + [("gpu", name) for name in spec.pools.gpu]
    for (kind, name), size in zip(pools, sizes, strict=False):
        if violation := gke_rules.check_node_count(size.nodes):
            yield Finding(("spec", "pools", kind, name), violation.message, "reduce the pool, or add another one")
    total = sum(size.nodes for size in sizes)
    if total > MAX_NODES:
        yield Finding(
            ("spec", "pools"), f"pools have up to {total:,} nodes, a cluster has at most {MAX_NODES:,}", "reduce the pools"
        )
    others = len(spec.pools.cpu) + len(spec.pools.gpu)
    if violation := gke_rules.check_system_pool(tpu_pools=len(spec.pools.tpu), other_pools=others):
        yield Finding(("spec", "pools"), violation.message, "add a pool to spec.pools.cpu: TPU nodes run no system pods")


def _labels(environment: Environment) -> Iterator[Finding]:
    """Node labels are not reserved."""
    for kind, name, pool in environment.spec.pools.entries():
        if violation := gke_rules.check_node_labels(pool.labels):
            yield Finding(("spec", "pools", kind, name, "labels"), violation.message, "use a label of your own domain")


def _access(environment: Environment) -> Iterator[Finding]:
    """Authorized networks suit the endpoint, and some client reaches the control plane."""
    private = environment.spec.cluster.private
    if private is None:
        return
    path = ("spec", "cluster", "private", "authorizedNetworks")
    for name, cidr in private.authorized_networks.items():
        if violation := gke_rules.check_authorized_network(cidr, private_endpoint=private.endpoint):
            yield Finding((*path, name), violation.message, "use a private range, or set endpoint to false")
    if not private.dns_endpoint and not private.authorized_networks:
        yield Finding(path, "no client reaches the control plane", "set dnsEndpoint to true, or add a range")


_SYSTEM_NAMESPACES = frozenset(
    {
        "config-connector-operator-system",
        "cnrm-system",
        "default",
        "jobset-system",
        "kro",
        "kro-system",
        "kueue-system",
        "sliceworks-system",
        "tpu-provisioner-system",
    }
)
_SYSTEM_PREFIXES = ("kube-", "gke-", "gmp-")


def _teams(environment: Environment) -> Iterator[Finding]:
    """Each team has a namespace of its own, which is not one of the system's."""
    owners: dict[str, str] = {}
    for team, entry in environment.spec.teams.items():
        namespace, path = entry.namespace or team, ("spec", "teams", team, "namespace")
        if namespace in _SYSTEM_NAMESPACES or namespace.startswith(_SYSTEM_PREFIXES):
            yield Finding(path, f"namespace {namespace} is reserved for the system", "use another namespace")
        if namespace in owners:
            problem = f"namespace {namespace} belongs to team {owners[namespace]}"
            yield Finding(path, problem, "give each team a namespace of its own")
        owners.setdefault(namespace, team)


def _names(environment: Environment) -> Iterator[Finding]:
    """Names are valid for Google Cloud, including derived names."""
    own = Names(environment)
    if len(own.cluster) > _MAX_LENGTH["cluster"]:
        yield Finding(
            ("spec", "cluster", "name"),
            f"cluster name {own.cluster} is longer than {_MAX_LENGTH['cluster']} characters",
            "give spec.cluster.name, or a shorter prefix",
        )
    for name, pool in environment.spec.pools.tpu.items():
        longest = f"{name}-{max(pool.count - 1, 0)}"
        if len(longest) > _MAX_LENGTH["pool"]:
            yield Finding(
                ("spec", "pools", "tpu", name),
                f"node pool name {longest} is longer than {_MAX_LENGTH['pool']} characters",
                "give a shorter name",
            )


def _shares(environment: Environment) -> Iterator[Finding]:
    """Shares refer to types of the environment, and each team has its own queue."""
    spec = environment.spec
    known = _flavor_names(spec)
    for team, entry in spec.teams.items():
        if entry.shares and spec.queues.sharing == "one-queue":
            yield Finding(
                ("spec", "teams", team, "shares"),
                "shares have no effect: all teams share one queue",
                "set spec.queues.sharing to cohort, or remove shares",
            )
        for kind in entry.shares:
            if known and kind not in known:
                remedy = suggest_name(kind, known) or f"types of this environment: {', '.join(sorted(known))}"
                yield Finding(("spec", "teams", team, "shares", kind), f"no pool has type {kind}", remedy)


def _flavor_names(spec: EnvironmentSpec) -> set[str]:
    """Names of the Kueue flavors of all pools: the type, with its capacity unless that is on-demand."""
    flavors = set()
    for _, _, pool in spec.pools.entries():
        if isinstance(pool, CpuPool):
            continue
        try:
            accelerator = find_accelerator(pool)
        except SliceworksError:
            return set()  # reported by the types check
        name = accelerator.type_name if isinstance(accelerator, catalog.Slice) else accelerator.gpu.name
        capacity = "spot" if pool.spot else pool.reservation.name if pool.reservation else ""
        flavors.add(names.shorten(f"{name}-{capacity}") if capacity else name)
    return flavors


def _identities(environment: Environment) -> Iterator[Finding]:
    """An identity is bound to the Kubernetes service account that the team's jobs use."""
    for team, entry in environment.spec.teams.items():
        if entry.identity is None:
            continue
        bound = environment.spec.identities.workloads[entry.identity]
        theirs = f"{entry.namespace or team}/{entry.service_account or entry.identity}"
        allowed = f"{bound.namespace}/{bound.service_account or entry.identity}"
        if theirs != allowed:
            yield Finding(
                ("spec", "teams", team, "identity"),
                f"jobs run as {theirs}, but identity {entry.identity} is bound to {allowed}",
                f"set namespace and serviceAccount of identities.workloads.{entry.identity} to the team's, or add another identity",
            )


def _roles(environment: Environment) -> Iterator[Finding]:
    """Predefined roles exist."""
    spec = environment.spec
    listed: dict[tuple[str, ...], list[str]] = {
        ("automation", "roles"): spec.automation.roles,
        ("identities", "nodes", "roles"): spec.identities.nodes.roles,
        **{("identities", "workloads", name, "roles"): entry.roles for name, entry in spec.identities.workloads.items()},
    }
    if spec.self_service is not None:
        connector = spec.self_service.config_connector
        listed |= {("selfService", "configConnector", "roles"): connector.roles}
        listed |= {("selfService", "configConnector", "grants"): connector.grants or []}
    for path, roles in listed.items():
        for index, role in enumerate(roles):
            if violation := gke_rules.check_role(role):
                hint = suggest_name(role, gke_rules.predefined_roles()) or "use a predefined role, or a custom role of the project"
                yield Finding(("spec", *path, index), violation.message, hint)


CHECKS: dict[str, Callable[[Environment], Iterator[Finding]]] = {
    "types": _types,
    "zones": _zones,
    "versions": _versions,
    "sizes": _sizes,
    "ranges": _ranges,
    "names": _names,
    "labels": _labels,
    "access": _access,
    "teams": _teams,
    "shares": _shares,
    "identities": _identities,
    "roles": _roles,
}

QUOTA_CHECK = "quotas"
NAMES = (*CHECKS, QUOTA_CHECK)
"""Names of all checks. The quota check calls the cloud and needs credentials."""

Object = dict[str, Any]
_LOGIN = Path(".config/gcloud/application_default_credentials.json")
_CONSOLE = "https://console.cloud.google.com/iam-admin/quotas?project="


class QuotaCheckSkipped(SliceworksError):
    """Quotas were not checked; the message says why."""


@dataclass(frozen=True, slots=True)
class QuotaDemand:
    """Usage of one quota by one pool of the document."""

    pool: tuple[str, str]
    """Kind and name in the document."""
    node_pools: tuple[str, ...]
    """Names of its node pools."""
    metric: str
    per_pool: float
    """Usage per node pool."""


def quota_demands(spec: EnvironmentSpec) -> Iterator[QuotaDemand]:
    """Quota usage of all pools when they are created: whole slices, and the minimum of other pools. TPU pools come first."""
    for kind, name, pool in sorted(spec.pools.entries(), key=lambda entry: entry[0] != "tpu"):
        accelerator = None if isinstance(pool, CpuPool) else find_accelerator(pool)
        machine = catalog.find_machine(pool.machine_type) if isinstance(pool, CpuPool) else find_accelerator(pool).machine
        gpus = (accelerator.gpu, accelerator.chips) if isinstance(accelerator, catalog.GpuShape) else ()
        usage = availability.quota_usage(machine, *gpus, spot=pool.spot) | _of_nodes(spec, pool, machine)
        if isinstance(pool, TpuPool):
            node_pools, nodes = tuple(f"{name}-{index}" for index in range(pool.count)), find_accelerator(pool).hosts
        else:
            node_pools, nodes = (name,), min_nodes(spec, pool)
        for metric, amount in usage.items():
            yield QuotaDemand((kind, name), node_pools, metric, amount * nodes)


def _of_nodes(spec: EnvironmentSpec, pool: Pool, machine: Machine) -> dict[str, float]:
    """Quota usage of the boot disk and the public address of one node."""
    disk: str = pool.disk.type or next(iter(machine.disks), "") or availability.DEFAULT_DISK
    private = spec.cluster.private is not None and spec.cluster.private.nodes
    return availability.node_quota_usage(disk, pool.disk.gib, public_address=not private)


def quota_findings(environment: Environment, quotas: list[Object], existing: set[str]) -> list[Finding]:
    """Quotas that are exceeded. Pools in `existing` are already part of the usage."""
    left = {str(item["metric"]): (float(item["limit"]), float(item.get("usage") or 0)) for item in quotas}
    demands_by_metric: dict[str, list[QuotaDemand]] = {}
    for demand in quota_demands(environment.spec):
        demands_by_metric.setdefault(demand.metric, []).append(demand)
    result = []
    for metric, all_of in demands_by_metric.items():
        needed = sum(demand.per_pool for demand in all_of for name in demand.node_pools if name not in existing)
        limit, usage = left.get(metric, (None, 0.0))
        if limit is None or not needed or needed <= limit - usage:
            continue
        region, project = environment.spec.region, environment.spec.project
        kind, name = all_of[0].pool
        result.append(
            Finding(
                ("spec", "pools", kind, name),
                f"needs {needed:g} {metric} in {region}, {max(limit - usage, 0):g} of {limit:g} available",
                f"request more at {_CONSOLE}{project}, or reduce the pools",
                QUOTA_CHECK,
            )
        )
    return result


def check_quotas(environment: Environment, target: Target, *, known: bool) -> list[Finding]:
    """Check the project's quotas. `known`: credentials exist. Raises QuotaCheckSkipped if quotas cannot be read."""
    if not known and not _logged_in():
        raise QuotaCheckSkipped(
            "skipping quota checks: no Google Cloud credentials found", hint="`gcloud auth application-default login`"
        )
    try:
        quotas, existing = asyncio.run(_read(environment, target))
    except SliceworksError as error:
        raise QuotaCheckSkipped(f"skipping quota checks: {error.message}", hint=error.hint) from error
    return quota_findings(environment, quotas, existing)


async def _read(environment: Environment, target: Target) -> tuple[list[Object], set[str]]:
    """The region's quotas, and the names of existing node pools."""
    spec, own = environment.spec, Names(environment)
    async with target.root("compute") as session:
        region = await session.call("GET", f"/compute/v1/projects/{spec.project}/regions/{spec.region}")
    async with target.session("container") as session:
        path = f"/v1/projects/{spec.project}/locations/{own.location}/clusters/{own.cluster}/nodePools"
        try:
            pools = await session.call("GET", path)
        except CloudNotFound:
            pools = {}
    return region.get("quotas") or [], {str(pool["name"]) for pool in pools.get("nodePools") or ()}


def _logged_in() -> bool:
    """Whether local credentials exist; the metadata server is not queried, since that takes seconds."""
    own = files.find_home()
    return bool(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")) or (own is not None and (own / _LOGIN).exists())
