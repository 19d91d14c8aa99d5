"""Checks of a whole environment before anything is made: each has a name, says what is wrong, where, and what to do."""

from __future__ import annotations

import ipaddress
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.base.words import closest
from sliceworks.catalog import zones
from sliceworks.infra.names import Names
from sliceworks.infra.pools import pools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.specs.environment import Environment

_LONGEST = {"cluster": 40, "pool": 39}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: the check that found it, the field, what is wrong with it, and the remedy."""

    check: str
    path: tuple[str | int, ...]
    problem: str
    remedy: str


def check(environment: Environment, skipped: Iterable[str] = ()) -> list[Finding]:
    """All that is wrong with an environment; checks that are skipped by name find nothing."""
    left_out = set(skipped)
    unknown = sorted(left_out - set(NAMES))
    if unknown:
        hint = closest(unknown[0], NAMES) or f"checks: {', '.join(NAMES)}"
        raise UsageError(f"there is no check {unknown[0]}", hint=hint)
    return [finding for name, run in CHECKS.items() if name not in left_out for finding in run(environment)]


def _types(environment: Environment) -> Iterator[Finding]:
    """Accelerator and machine types that exist, in shapes that exist."""
    spec = environment.spec
    for kind, entries in (("cpu", spec.pools.cpu), ("tpu", spec.pools.tpu), ("gpu", spec.pools.gpu)):
        for name in entries:
            alone = spec.model_copy(update={"pools": spec.pools.model_copy(update=_only(kind, name, spec.pools))})
            try:
                pools(alone)
            except SliceworksError as error:
                field = "type" if kind == "tpu" else "machineType"
                yield Finding("types", ("spec", "pools", kind, name, field), error.message, error.hint)


def _only(kind: str, name: str, found: object) -> dict[str, object]:
    return {each: {name: getattr(found, kind)[name]} if each == kind else {} for each in ("cpu", "tpu", "gpu")}


def _zones(environment: Environment) -> Iterator[Finding]:
    """Zones that have the accelerator, as far as dated data tells."""
    spec = environment.spec
    for kind, entries in (("tpu", spec.pools.tpu), ("gpu", spec.pools.gpu)):
        for name, pool in entries.items():
            try:
                if kind == "tpu":
                    accelerator = catalog.find(spec.pools.tpu[name].type, spec.pools.tpu[name].topology or None)
                else:
                    gpu = spec.pools.gpu[name]
                    accelerator = catalog.gpu_for(gpu.machine_type, gpu.accelerator, gpu.accelerator_count or 0)
            except SliceworksError:
                continue
            known = zones.of(accelerator)
            wanted = pool.zones or spec.zones
            if not wanted and kind == "tpu":
                yield Finding(
                    "zones",
                    ("spec", "zones"),
                    f"the slices of {name} need a zone",
                    f"zones with {accelerator.type_name}: {_few(known)}",
                )
            for zone in wanted[:1] if kind == "tpu" else wanted:
                if known and zone not in known:
                    near = [each for each in known if zones.region_of(each) == spec.region] or list(known)
                    yield Finding(
                        "zones",
                        ("spec", "pools", kind, name),
                        f"{zone} has no {accelerator.type_name}, says the catalogue",
                        f"zones that have it: {_few(near)}",
                    )


def _few(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:5]) + (", …" if len(found) > 5 else "")


def _ranges(environment: Environment) -> Iterator[Finding]:
    """Ranges of addresses that do not overlap, and are large enough."""
    network = environment.spec.network
    if network.existing:
        return
    ranges = {field: ipaddress.IPv4Network(getattr(network.subnet, field)) for field in ("nodes", "pods", "services")}
    private = environment.spec.cluster.private
    if private and private.control_plane_range:
        ranges["controlPlaneRange"] = ipaddress.IPv4Network(private.control_plane_range)
    for (first, one), (second, other) in itertools.combinations(ranges.items(), 2):
        if one.overlaps(other):
            yield Finding(
                "ranges",
                ("spec", "network", "subnet", second),
                f"{second} ({other}) overlaps with {first} ({one})",
                "give ranges that share no address",
            )


def _names(environment: Environment) -> Iterator[Finding]:
    """Names that Google takes, those that follow from others included."""
    names = Names(environment)
    if len(names.cluster) > _LONGEST["cluster"]:
        yield Finding(
            "names",
            ("spec", "cluster", "name"),
            f"the cluster would be called {names.cluster}, which is longer than {_LONGEST['cluster']} characters",
            "give spec.cluster.name, or a shorter prefix",
        )
    for name, pool in environment.spec.pools.tpu.items():
        longest = f"{name}-{max(pool.count - 1, 0)}"
        if len(longest) > _LONGEST["pool"]:
            yield Finding(
                "names",
                ("spec", "pools", "tpu", name),
                f"a pool would be called {longest}, which is longer than {_LONGEST['pool']} characters",
                "give a shorter name",
            )


def _shares(environment: Environment) -> Iterator[Finding]:
    """Shares of teams in types that the environment has, and only where each team has a queue of its own."""
    spec = environment.spec
    known = {f"{pool.type}-spot" if pool.spot else pool.type for pool in spec.pools.tpu.values()}
    for team, entry in spec.teams.items():
        if entry.shares and spec.queues.sharing == "one-queue":
            yield Finding(
                "shares",
                ("spec", "teams", team, "shares"),
                "all teams share one queue",
                "set spec.queues.sharing to cohort, or drop shares",
            )
        for kind in entry.shares:
            if known and kind not in known:
                remedy = closest(kind, known) or f"types of this environment: {', '.join(sorted(known))}"
                yield Finding("shares", ("spec", "teams", team, "shares", kind), f"no pool is of type {kind}", remedy)


def _identities(environment: Environment) -> Iterator[Finding]:
    """Jobs of a team that act as an identity: Google lets only one Kubernetes account of one namespace do so."""
    for team, entry in environment.spec.teams.items():
        if entry.identity is None:
            continue
        bound = environment.spec.identities.workloads[entry.identity]
        theirs = f"{entry.namespace or team}/{entry.service_account or entry.identity}"
        allowed = f"{bound.namespace}/{bound.service_account or entry.identity}"
        if theirs != allowed:
            yield Finding(
                "identities",
                ("spec", "teams", team, "identity"),
                f"its jobs run as {theirs}, and {entry.identity} is for {allowed}",
                f"set namespace and serviceAccount of identities.workloads.{entry.identity} to the team's, or make another",
            )


CHECKS: dict[str, Callable[[Environment], Iterator[Finding]]] = {
    "types": _types,
    "zones": _zones,
    "ranges": _ranges,
    "names": _names,
    "shares": _shares,
    "identities": _identities,
}
NAMES = (*CHECKS, "quotas")
"""All checks by name; that of quotas asks the cloud, and is made where there are credentials."""
