"""A plan of a whole environment: computed once, printed with its cost, and confirmed before it is applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress, tables
from sliceworks.base.names import join_first
from sliceworks.cli.env_site import CLUSTER_STAGE, REGISTRY_STAGE, ImageStage, change_report, image_builder, plan_images

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.cli.env_site import EnvironmentCluster
    from sliceworks.cli.output import Report
    from sliceworks.infra.cluster.inventory import ApplyResult
    from sliceworks.infra.pools import Cost
    from sliceworks.infra.stack import StagePlan
    from sliceworks.infra.terraform import Change

_CLUSTER = "cluster"
_ENDS = ("replace", "delete")
_POOL = ".google_container_node_pool."


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """Planned changes of all stages, of images and of the objects in the cluster."""

    stages: list[StagePlan]
    images: list[Change]
    objects: list[ApplyResult]

    def report(self) -> Report:
        """Every change as a row."""
        changes = [(plan.stage, plan.effective) for plan in self.stages]
        return change_report([*changes, (ImageStage(), self.images)], self.objects)

    def counts(self) -> list[tuple[object, ...]]:
        """Rows of stage, created, updated, replaced and deleted; without stages that do not change."""
        actions = {plan.stage.name: [change.action for change in plan.effective] for plan in self.stages}
        actions[ImageStage().name] = [change.action for change in self.images]
        actions[_CLUSTER] = [item.action for item in self.objects]
        columns = ("create", "update", "replace", "delete")
        rows = [(name, *(stage_actions.count(column) for column in columns)) for name, stage_actions in actions.items()]
        return [row for row in rows if any(row[1:])]

    def destructive(self) -> list[tuple[str, Change]]:
        """Changes that replace or delete a resource, with their stage."""
        return [(plan.stage.name, change) for plan in self.stages for change in plan.effective if change.action in _ENDS]

    def grants(self) -> list[str]:
        """Roles that the user gets, in the words of `Target.missing_grant`."""
        return [change.address for plan in self.stages for change in plan.effective if change.address.startswith("roles/")]

    def ended_pools(self) -> list[str]:
        """Names of node pools that would be replaced or deleted."""
        return ended_pools(change for _stage, change in self.destructive())


def ended_pools(changes: Iterable[Change]) -> list[str]:
    """Names of node pools that these changes replace or delete."""
    ends = (change.address for change in changes if change.action in _ENDS and _POOL in change.address)
    return [address.rpartition('["')[2].removesuffix('"]') for address in ends]


def plan_environment(inside: EnvironmentCluster, *, described: bool = False) -> EnvironmentPlan:
    """Plan all stages, images and objects; the plan file of each stage is in its folder."""
    plans: list[StagePlan] = []
    with progress.task(f"Planning {inside.site.environment.metadata.name}") as step:
        for plan in inside.site.plan(described=described):
            step(plan.stage.name)
            plans.append(plan)
        outputs: dict[str, Any] = {plan.stage.name: plan.outputs for plan in plans}
        step("images")
        images = plan_images(image_builder(inside.site, None), registry=bool(outputs[REGISTRY_STAGE]))
        step("objects in the cluster")
        return EnvironmentPlan(plans, images, inside.compare(outputs[CLUSTER_STAGE]))


def print_plan(inside: EnvironmentCluster, plan: EnvironmentPlan) -> None:
    """Print the plan on stderr: changes by stage, replaced and deleted resources in red, granted roles, cost before and after."""
    rows = plan.counts()
    if not rows:
        click.echo(f"{inside.site.environment.metadata.name}: no changes", err=True)
        return
    click.echo(tables.render(("stage", "create", "update", "replace", "delete"), rows), nl=False, err=True)
    for stage, change in plan.destructive():
        click.secho(f"{change.action} {stage} {change.address}", fg="red", err=True)
    for grant in plan.grants():
        click.echo(f"grant {grant}", err=True)
    print_cost(inside)


def print_cost(inside: EnvironmentCluster) -> None:
    """Print the cost per hour of the deployed node pools, and of those in the document, on stderr."""
    from sliceworks.infra.pools import deployed_costs, estimate_costs

    spec = inside.site.environment.spec
    before, after = deployed_costs(inside.site.resources(CLUSTER_STAGE), spec.region), estimate_costs(spec)
    unknown = {cost.name: cost.what for cost in (*before, *after) if cost.hourly is None}
    machines = ", ".join(sorted(set(unknown.values())))
    rest = f"; without {', '.join(unknown)}: the price lists have no such price of {machines} in {spec.region}" if unknown else ""
    click.echo(f"cost per hour: {_sum(before)} USD before, {_sum(after)} USD after{rest}", err=True)


def _sum(costs: list[Cost]) -> str:
    return f"{sum(cost.hourly for cost in costs if cost.hourly is not None):,.2f}"


def describe_work(work: list[str] | None) -> str:
    """Running jobs and models as words for a question; empty if there are none."""
    if work is None:
        return "the cluster is unreachable, running jobs and models are unknown"
    return f"this ends {join_first(work, 5)}" if work else ""
