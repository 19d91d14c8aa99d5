"""`env apply`, `env destroy`, and recovery of Terraform state with `env unlock` and `env adopt`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import InvalidDocument, SliceworksError, UsageError
from sliceworks.cli import options
from sliceworks.cli.env_changes import describe_work, plan_environment, print_plan
from sliceworks.cli.env_site import (
    CLUSTER_STAGE,
    REGISTRY_STAGE,
    ImageStage,
    StageProgress,
    file_option,
    image_builder,
    open_environment,
    read_environment,
    require_valid,
    skip_option,
    sources_option,
    twin_option,
)
from sliceworks.cli.output import Report, print_object, print_report

if TYPE_CHECKING:
    from sliceworks.cli.env_site import EnvironmentCluster
    from sliceworks.infra.cluster.inventory import ApplyResult
    from sliceworks.infra.images import ImageBuilder, RunningBuild
    from sliceworks.infra.stack import StagePlan
    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

_SECRETS = "secrets"
_CLUSTER = "cluster"

manifests_option = click.option(
    "--manifests",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the release manifests of JobSet, Kueue and Config Connector.  [default: downloaded]",
)


@click.command()
@file_option
@skip_option
@twin_option
@manifests_option
@sources_option
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Apply the plan in this file, which `env plan --plan-out` wrote, without asking.",
)
@options.yes
@options.timeout(600)
@options.output("table", "json", "yaml")
@options.quiet
def apply(
    *,
    file: Path,
    plan_file: Path | None,
    skipped: tuple[str, ...],
    twin: bool,
    manifests: Path | None,
    sources: Path | None,
    yes: bool,
    timeout: float,
    output: str,
) -> int:
    """Plan an Environment, print the plan with its cost, ask, and apply that plan: Terraform stages, then objects in the cluster.

    If a stage would change anything that is not in the plan, it is not applied. Cloud Build builds images that are missing in the
    registry. An interrupted apply resumes where it stopped. At the end the names of all resources are printed. Credentials of
    model registries are read from files; with --skip secrets, the Secrets in the cluster are left unchanged.
    """
    from sliceworks.base.yaml_documents import base_directory

    environment = require_valid(file, tuple(name for name in skipped if name != _SECRETS))
    _require_secret_files(environment, base_directory(file), lenient=twin or _SECRETS in skipped)
    inside = open_environment(environment, file, twin=twin, manifests=manifests, timeout=timeout, graphs="require_valid")
    if twin:
        _require_own_twin(environment)
    images = image_builder(inside.site, sources)
    try:
        plans = _approved_plans(inside, plan_file, yes=yes)
        rows, outputs, outcomes = _apply_stages(inside, images, plans)
    finally:
        inside.site.discard_plans()
    if output == "table":
        print_report(Report(("stage", "created", "changed", "deleted"), rows, []), "table")
        click.echo()
    _print_names(inside, outputs, outcomes, images.names(), output)
    if not twin:
        progress.say(f"To configure kubectl: {kubeconfig_command(environment.spec.project, outputs[CLUSTER_STAGE]['cluster'])}")
    return 0


def _require_own_twin(environment: Environment) -> None:
    """Raise if the twin has the cluster of another environment."""
    from sliceworks.cli import connections
    from sliceworks.infra.stages import Names

    names = Names(environment)
    path = (environment.spec.project, names.location, names.cluster)
    where = {"kubeconfig": None, "context": None, "twin": True}
    connections.run_on_cluster(lambda client: connections.require_only_cluster(client, *path), where)


def _approved_plans(inside: EnvironmentCluster, file: Path | None, *, yes: bool) -> dict[str, StagePlan]:
    """The plans of all stages: from a file, or new ones that the user confirmed."""
    from sliceworks.infra.plan_file import read_plan

    if file is not None:
        return read_plan(file, inside.site)
    plan = plan_environment(inside)
    needs_confirmation = not yes and not inside.twin
    if needs_confirmation or not progress.is_quiet():
        print_plan(inside, plan)
    pools = plan.ended_pools()
    outputs = next(item.outputs for item in plan.stages if item.stage.name == CLUSTER_STAGE)
    ends = describe_work(inside.running_work(outputs, pools)) if pools else ""
    environment = inside.site.environment
    where = "the twin" if inside.twin else f"project {environment.spec.project}"
    question = f"Apply {environment.metadata.name} to {where}?{f' ({ends})' if ends else ''}"
    if ends and yes:
        progress.say(ends)
    options.confirm(question, yes or (inside.twin and not ends))
    return {item.stage.name: item for item in plan.stages}


def kubeconfig_command(project: str, cluster: dict[str, Any]) -> str:
    """Return the gcloud command that adds the cluster to the user's kubeconfig."""
    return f"gcloud container clusters get-credentials {cluster['name']} --project {project} --location {cluster['location']}"


def _apply_stages(
    inside: EnvironmentCluster, images: ImageBuilder, plans: dict[str, StagePlan]
) -> tuple[list[tuple[object, ...]], dict[str, Any], list[ApplyResult]]:
    """Apply everything; return change counts per stage, outputs per stage, and the result of each object in the cluster."""
    from sliceworks.infra.stages import contents_stage

    outputs_by_stage: dict[str, Any] = {}
    rows: list[tuple[object, ...]] = []
    outcomes: list[ApplyResult] = []
    building: RunningBuild | None = None
    stages = StageProgress("Applying")
    with stages as start_step:
        for stage, changes, outputs in inside.site.apply(start_step, plans):
            outputs_by_stage[stage.name] = outputs
            rows.append((stage.name, _count(changes, "create"), _count(changes, "update", "replace"), _count(changes, "delete")))
            if stage.name == REGISTRY_STAGE:
                building = images.begin()
            if stage.name == contents_stage(inside.site.environment):
                if building is not None:  # objects in the cluster use these images
                    rows.append((ImageStage().name, len(images.finish(building, start_step(ImageStage()))), 0, 0))
                outcomes = inside.apply(outputs_by_stage[CLUSTER_STAGE], stages.within)
                counts = [sum(item.action == action for item in outcomes) for action in ("create", "update", "delete")]
                rows.append((_CLUSTER, *counts))
    for outcome in outcomes:
        if outcome.action == "keep":
            progress.say(f"{outcome.reference} is no longer in the document but is kept: {outcome.reason}")
    return rows, outputs_by_stage, outcomes


def _print_names(
    inside: EnvironmentCluster, outputs: dict[str, Any], outcomes: list[ApplyResult], images: list[str], output: str
) -> None:
    """Print the names of Terraform's resources, of images, and of objects in the cluster."""
    listed = [(stage.name, kind, name) for stage, resources in inside.site.names() for kind, name in resources]
    listed += [(ImageStage().name, "image", name) for name in images]
    listed += [
        (
            f"{_CLUSTER}/{outcome.step}",
            outcome.reference.kind,
            f"{outcome.reference.namespace}/{outcome.reference.name}" if outcome.reference.namespace else outcome.reference.name,
        )
        for outcome in outcomes
        if outcome.action != "delete"
    ]
    if output == "table":
        print_report(Report(("stage", "kind", "name"), listed, []), "table")
        return
    names = [{"stage": stage, "kind": kind, "name": name} for stage, kind, name in listed]
    print_object({**outputs, _CLUSTER: [_as_data(item) for item in outcomes], "names": names}, output)


def _as_data(result: ApplyResult) -> dict[str, str]:
    return {"step": result.step, **result.reference._asdict(), "action": result.action}


def _require_secret_files(environment: Environment, folder: Path, *, lenient: bool) -> None:
    """Raise if a credentials file of a Secret is missing; with `lenient` (a twin, or --skip secrets) only print it."""
    from sliceworks.infra.cluster import composition

    for path in composition.missing_secret_files(environment, folder):
        if not lenient:
            raise InvalidDocument(
                "file not found (credentials of a model registry)",
                place=str(path),
                hint=f"create it, or pass --skip {_SECRETS} if the Secret is already in the cluster",
            )
        progress.say(f"{path} not found; its Secret is left empty or unchanged")
    composition.read_secrets(environment, folder)


@click.command()
@file_option
@twin_option
@click.option("--abandon", is_flag=True, help="Skip deleting the objects in the cluster; they are deleted with it.")
@options.yes
@options.timeout(300)
@options.quiet
def destroy(*, file: Path, twin: bool, abandon: bool, yes: bool, timeout: float) -> int:
    """Destroy an environment: the objects in its cluster, then its Terraform stages in reverse order.

    Nothing is deleted if a resource is protected: the cluster and the tables by spec.deletionProtection, buckets and datasets with
    contents of others unless spec.forceDestroy is true. You confirm by typing its name. Resources that are kept are listed at the
    end.
    """
    from sliceworks.infra.cluster import composition

    environment = read_environment(file)
    inside = open_environment(environment, file, twin=twin, timeout=timeout, graphs="none")
    with progress.task("Checking protections"):
        inside.site.require_destroyable()
        outputs = {} if abandon else inside.site.outputs_of(CLUSTER_STAGE)
        grant = inside.site.missing_grant()
    ends = describe_work(inside.running_work(outputs))
    if grant:
        progress.say(f"to act as the automation account, this grants {grant}")
    if not yes:
        _confirm_by_name(environment.metadata.name, ends)
    elif ends:
        progress.say(ends)
    rows: list[tuple[object, ...]] = []
    remaining: list[str] = []
    stages = StageProgress("Deleting")
    with stages as start_step:
        if outputs.get("cluster"):
            count, remaining = inside.remove(outputs, stages.within)
            rows.append((_CLUSTER, count))
        for stage, changes in inside.site.destroy(start_step):
            rows.append((stage.name, _count(changes, "delete")))
    print_report(Report(("stage", "deleted"), rows, []), "table")
    for resource in (*remaining, *composition.remaining_resources(environment)):
        progress.say(f"kept: {resource}")
    return 0


def _count(changes: list[Change], *actions: str) -> int:
    return sum(change.action in actions for change in changes)


def _confirm_by_name(name: str, ends: str) -> None:
    import sys

    question = f"This deletes everything in {name}{f' ({ends})' if ends else ''}."
    if not sys.stdin.isatty():
        raise UsageError("stdin is not a terminal; pass --yes to confirm", hint=f"to be confirmed: {question}")
    answer = click.prompt(
        f"{question} Type its name to confirm",
        err=True,
        default="",
        show_default=False,
    )
    if answer != name:
        raise UsageError(f"{answer!r} does not match {name!r}; nothing was deleted")


@click.command()
@click.argument("stage")
@click.argument("lock", metavar="ID")
@file_option
@twin_option
@options.yes
@options.quiet
def unlock(file: Path, stage: str, lock: str, twin: bool, yes: bool) -> int:
    """Release a stale lock on the Terraform state of a stage. The error message contains the stage and the lock ID."""
    from sliceworks.platform.cluster_contents import find_stack

    site = find_stack(read_environment(file), twin=twin)
    options.confirm(f"Unlock {stage} of {site.environment.metadata.name}? Make sure that no other apply is running.", yes or twin)
    site.unlock(stage, lock)
    progress.say(f"{stage} unlocked; run `sliceworks env apply` to resume")
    return 0


@click.command()
@click.argument("stage")
@click.argument("address")
@file_option
@twin_option
@options.quiet
def adopt(file: Path, stage: str, address: str, twin: bool) -> int:
    """Import an existing resource into the Terraform state; later commands then change and delete it.

    ADDRESS is the resource's address in the plan. Use this for resources that an earlier, interrupted apply created.
    """
    from sliceworks.platform.cluster_contents import find_stack

    site = find_stack(read_environment(file), twin=twin)
    if not site.adopt(stage, address):
        raise SliceworksError(
            f"{address} does not exist, or is already in the state", hint="`sliceworks env plan` lists the addresses"
        )
    progress.say(f"{address} imported; `sliceworks env plan` shows its changes")
    return 0
