"""`sliceworks env`: the command group, `check` and `cloudbuild`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.env_apply import adopt, apply, destroy, unlock
from sliceworks.cli.env_init import init
from sliceworks.cli.env_plan import plan, print_unsupported, show_environment
from sliceworks.cli.env_resize import resize
from sliceworks.cli.env_site import check_environment, file_option, read_graphs, require_valid, skip_option, twin_option
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_report

if TYPE_CHECKING:
    from sliceworks.infra.cloudbuild import TritonService
    from sliceworks.infra.preflight import Finding
    from sliceworks.specs.environment import Environment


def check_project(
    environment: Environment, skipped: tuple[str, ...], file: Path, *, twin: bool, live: bool
) -> list[tuple[Finding, str]]:
    """Return findings about the project, each with its place in the document: quotas, and with `live` everything else."""
    from sliceworks.base import yaml_documents
    from sliceworks.infra import live_preflight, preflight
    from sliceworks.platform.cluster_contents import find_target

    findings: list[Finding] = []
    try:
        if preflight.QUOTA_CHECK not in skipped:
            findings += preflight.check_quotas(environment, find_target(twin=twin), known=twin)
    except preflight.QuotaCheckSkipped as error:
        progress.say(f"{error.message}{f': {error.hint}' if error.hint else ''}")
    if live:
        findings += live_preflight.check_live(environment, find_target(twin=twin))
    if not findings:
        return []
    document = next(candidate for candidate in yaml_documents.load_path(file) if candidate.data.get("kind") == "Environment")
    return [(item, document.place(*item.path)) for item in findings]


@click.group(cls=Group)
def env() -> None:
    """Plan, apply, inspect and destroy an environment."""


for _command in (init, plan, apply, show_environment, resize, unlock, adopt, destroy):
    env.add_command(_command)


@env.command()
@file_option
@skip_option
@twin_option
@click.option("--live", is_flag=True, help="Also read the project: what it lacks, and the command that provides it.")
@options.output("table", "json", "yaml")
@options.quiet
def check(file: Path, skipped: tuple[str, ...], twin: bool, live: bool, output: str) -> int:
    """Validate the whole document: fields, types, zones, versions, sizes, IP ranges, names, teams, quota shares and graphs.

    With Google Cloud credentials, or with --twin, quotas are checked too. With --live, so are the project's services, your
    permissions, machine types of zones, GKE's versions, and existing networks, accounts and reservations; it only reads. Parts
    of the document that `apply` does not support are listed. Exit code 1 if a check fails.
    """
    from sliceworks.platform.cluster_contents import add_graph_roles

    environment, findings = check_environment(file, skipped)
    if environment is not None:
        findings = findings or check_project(environment, skipped, file, twin=twin, live=live)
        add_graph_roles(environment, read_graphs(environment, file))
    if output != "table" or findings:
        columns = ("check", "place", "problem", "remedy")
        rows = [(finding.check, place, finding.message, finding.hint) for finding, place in findings]
        print_report(Report(columns, rows, [dict(zip(columns, row, strict=True)) for row in rows]), output)
    if environment is not None and not findings:
        progress.say(f"{environment.metadata.name}: all checks passed")
    if environment is not None:
        print_unsupported(environment)
    return 1 if findings else 0


@env.command()
@file_option
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write to.")
@click.option(
    "--model", "models", type=click.Path(exists=True, dir_okay=False, path_type=Path), multiple=True,
    help="ModelService for Triton that the build deploys and checks; may be repeated.",
)  # fmt: skip
@options.quiet
def cloudbuild(file: Path, folder: Path, models: tuple[Path, ...]) -> int:
    """Write Cloud Build files that apply and destroy the environment: Terraform modules, variables, and two builds.

    With teams, the build also installs JobSet and Kueue and creates the queues. With addons.mesh, it also deploys the ingress
    gateway. Triton services of --model are deployed after it; the build fails unless their servers and models are ready.

    A subfolder holds the same for Infrastructure Manager: one deployment per stage, and the commands to create them.
    """
    from sliceworks.infra import infrastructure_manager
    from sliceworks.infra.cloudbuild import builds, commands
    from sliceworks.infra.stack import Workspace, write_deployments
    from sliceworks.infra.stages import compile_stages
    from sliceworks.platform.cluster_contents import add_graph_roles
    from sliceworks.training.queues import build_manifests

    environment = require_valid(file)
    environment = add_graph_roles(environment, read_graphs(environment, file))
    workspace = Workspace(folder)
    workspace.copy_modules()
    for stage in compile_stages(environment):
        workspace.write_for_builds(stage)
    services = [_read_triton_service(model) for model in models]
    queues = build_manifests(environment) if environment.spec.teams and environment.spec.addons.kueue else []
    for name, text in builds(environment, services, queues).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    write_deployments(folder / infrastructure_manager.FOLDER, environment)
    click.echo(commands(environment), nl=False)
    return 0


def _read_triton_service(file: Path) -> TritonService:
    """The objects of a ModelService for Triton."""
    from sliceworks.base import yaml_documents
    from sliceworks.base.errors import InvalidDocument
    from sliceworks.infra.cloudbuild import TritonService
    from sliceworks.serving.compiler import manifests
    from sliceworks.serving.validation import parse_valid

    service = parse_valid(yaml_documents.load_one(file, "ModelService"))
    if service.spec.triton is None:
        raise InvalidDocument(
            f"{file}: spec.engine: must be triton, got {service.spec.engine}", hint="deploy it with `sliceworks models deploy`"
        )
    models = [model.name for model in service.spec.triton.models]
    namespace = service.metadata.namespace or "default"
    service = service.model_copy(update={"metadata": service.metadata.model_copy(update={"namespace": namespace})})
    return TritonService(service.metadata.name, namespace, manifests(service), models)
