"""Whether a project has quota for the pools of an environment: what they count, against what the region has left."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import folders
from sliceworks.base.errors import CloudError, CloudNotFound, SliceworksError
from sliceworks.catalog import quotas as counted
from sliceworks.infra.checks import Finding
from sliceworks.infra.costs import least_nodes
from sliceworks.infra.names import Names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.infra.targets import Target
    from sliceworks.specs.environment import Environment, EnvironmentSpec

Object = dict[str, Any]
NAME = "quotas"
_LOGIN = Path(".config/gcloud/application_default_credentials.json")
_CONSOLE = "https://console.cloud.google.com/iam-admin/quotas?project="


class NotAsked(SliceworksError):
    """Quotas were not checked, and why."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pool counts against one quota."""

    pool: tuple[str, str]
    """Its kind, and its name in the document."""
    made: tuple[str, ...]
    """The node pools that it becomes."""
    metric: str
    each: float
    """What each of them counts."""


def demands(spec: EnvironmentSpec) -> Iterator[Demand]:
    """What all pools count when they are made: slices as a whole, others with the nodes that they have at least."""
    for name, tpu in spec.pools.tpu.items():
        found = catalog.find(tpu.type, tpu.topology or None)
        assert isinstance(found, catalog.Slice)
        for metric, amount in counted.amounts(found.machine, spot=tpu.spot).items():
            yield Demand(("tpu", name), tuple(f"{name}-{index}" for index in range(tpu.count)), metric, amount * found.hosts)
    for name, cpu in spec.pools.cpu.items():
        for metric, amount in counted.amounts(catalog.machine(cpu.machine_type), spot=cpu.spot).items():
            yield Demand(("cpu", name), (name,), metric, amount * least_nodes(spec, cpu, 3))
    for name, gpu in spec.pools.gpu.items():
        shape = catalog.gpu_for(gpu.machine_type, gpu.accelerator, gpu.accelerator_count or 0)
        for metric, amount in counted.amounts(shape.machine, shape.gpu, shape.chips, spot=gpu.spot).items():
            yield Demand(("gpu", name), (name,), metric, amount * least_nodes(spec, gpu, 1))


def findings(environment: Environment, quotas: list[Object], there: set[str]) -> list[Finding]:
    """Quotas that do not reach. Pools that are `there` already count in what is taken."""
    left = {str(each["metric"]): (float(each["limit"]), float(each.get("usage") or 0)) for each in quotas}
    wanted: dict[str, list[Demand]] = {}
    for demand in demands(environment.spec):
        wanted.setdefault(demand.metric, []).append(demand)
    found = []
    for metric, all_of in wanted.items():
        needed = sum(demand.each for demand in all_of for name in demand.made if name not in there)
        limit, usage = left.get(metric, (None, 0.0))
        if limit is None or not needed or needed <= limit - usage:
            continue
        region, project = environment.spec.region, environment.spec.project
        kind, name = all_of[0].pool
        found.append(
            Finding(
                NAME,
                ("spec", "pools", kind, name),
                f"{needed:g} {metric} are needed in {region}, and {max(limit - usage, 0):g} of {limit:g} are left",
                f"ask for more at {_CONSOLE}{project}, or want less",
            )
        )
    return found


def check(environment: Environment, target: Target, *, known: bool) -> list[Finding]:
    """Ask the cloud. `known` says that there are credentials without looking; raises NotAsked where it cannot be asked."""
    if not known and not _logged_in():
        raise NotAsked("quotas are not checked: nobody is logged in here", hint="`gcloud auth application-default login`")
    try:
        quotas, there = asyncio.run(_read(environment, target))
    except (CloudError, SliceworksError) as error:
        raise NotAsked(f"quotas are not checked: {error.message}", hint=error.hint) from error
    return findings(environment, quotas, there)


async def _read(environment: Environment, target: Target) -> tuple[list[Object], set[str]]:
    """The region's quotas, and the pools that are there."""
    spec, names = environment.spec, Names(environment)
    async with target.root("compute") as session:
        region = await session.call("GET", f"/compute/v1/projects/{spec.project}/regions/{spec.region}")
    async with target.session("container") as session:
        path = f"/v1/projects/{spec.project}/locations/{names.location}/clusters/{names.cluster}/nodePools"
        try:
            pools = await session.call("GET", path)
        except CloudNotFound:
            pools = {}
    return region.get("quotas") or [], {str(pool["name"]) for pool in pools.get("nodePools") or ()}


def _logged_in() -> bool:
    """Whether Google's own tools would find credentials at once: to look for a metadata server takes seconds."""
    own = folders.home()
    return bool(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")) or (own is not None and (own / _LOGIN).exists())
