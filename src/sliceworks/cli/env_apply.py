"""`sliceworks env apply` and `env destroy`: make an environment, and remove it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.cli import options
from sliceworks.cli.env_cluster import STAGE
from sliceworks.cli.env_images import REGISTRY_STAGE, Images, builder, sources_option
from sliceworks.cli.env_sites import Stages, file_option, inside_of, read_environment, skip_option, sound, twin_option
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from sliceworks.cli.env_cluster import Inside
    from sliceworks.infra.building import Begun, Builder
    from sliceworks.infra.cluster.outcomes import Outcome
    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

_SECRETS = "secrets"
_CLUSTER = "cluster"
manifests_option = click.option(
    "--manifests",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with the release files of JobSet, Kueue and Config Connector.  [default: fetched from where they are published]",
)


@click.command()
@file_option
@skip_option
@twin_option
@manifests_option
@sources_option
@options.yes
@options.timeout(600)
@options.output("table", "json", "yaml")
@options.quiet
def apply(
    *,
    file: Path,
    skipped: tuple[str, ...],
    twin: bool,
    manifests: Path | None,
    sources: Path | None,
    yes: bool,
    timeout: float,
    output: str,
) -> int:
    """Make the environment as the document says, stage by stage, and put into its cluster what belongs there.

    Images that it wants and its registry does not have are built by Cloud Build meanwhile. Started again, it goes on where it
    stopped. At the end it tells the names of everything there is. Credentials of model registries are read from their files;
    with --skip secrets, those in the cluster stay as they are.
    """
    from sliceworks.base.yamls import folder_of

    environment = sound(file, tuple(name for name in skipped if name != _SECRETS))
    _need_files(environment, folder_of(file), lenient=twin or _SECRETS in skipped)
    inside = inside_of(environment, file, twin=twin, manifests=manifests, patience=timeout, graphs="sound")
    name = environment.metadata.name
    options.confirm(f"Apply {name} to {'the twin' if twin else f'project {environment.spec.project}'}?", yes or twin)
    images = builder(inside.site, sources)
    rows, made, outcomes = _applied(inside, images)
    if output == "table":
        show(Report(("stage", "made", "changed", "removed"), rows, []), "table")
        click.echo()
    _tell_names(inside, made, outcomes, images.names(), output)
    if not twin:
        progress.say(f"For kubectl and other commands: {way_in(environment.spec.project, made[STAGE]['cluster'])}")
    return 0


def way_in(project: str, cluster: dict[str, Any]) -> str:
    """What makes a kubeconfig know the cluster. People do that themselves: theirs is not ours to write."""
    return f"gcloud container clusters get-credentials {cluster['name']} --project {project} --location {cluster['location']}"


def _applied(inside: Inside, images: Builder) -> tuple[list[tuple[object, ...]], dict[str, Any], list[Outcome]]:
    """Counts by stage, what each stage gives, and what became of each object in the cluster."""
    made: dict[str, Any] = {}
    rows: list[tuple[object, ...]] = []
    outcomes: list[Outcome] = []
    building: Begun | None = None
    stages = Stages("Applying")
    with stages as begun:
        for stage, changes, outputs in inside.site.apply(begun):
            made[stage.name] = outputs
            rows.append((stage.name, _count(changes, "create"), _count(changes, "update", "replace"), _count(changes, "delete")))
            if stage.name == REGISTRY_STAGE:
                building = images.begin()
            if stage.name == STAGE:
                if building is not None:  # what comes into the cluster runs from them
                    rows.append((Images().name, len(images.finish(building, begun(Images()))), 0, 0))
                outcomes = inside.apply(outputs, stages.within)
                counts = [sum(each.action == action for each in outcomes) for action in ("create", "update", "delete")]
                rows.append((_CLUSTER, *counts))
    for each in outcomes:
        if each.action == "keep":
            progress.say(f"{each.who} is no longer asked for, and stays: {each.reason}")
    return rows, made, outcomes


def _tell_names(inside: Inside, made: dict[str, Any], outcomes: list[Outcome], images: list[str], output: str) -> None:
    """The names of everything: of what Terraform made, of images, and of what is in the cluster."""
    listed = [(stage.name, kind, name) for stage, found in inside.site.names() for kind, name in found]
    listed += [(Images().name, "image", name) for name in images]
    listed += [
        (f"{_CLUSTER}/{each.step}", each.who.kind, f"{each.who.namespace}/{each.who.name}" if each.who.namespace else each.who.name)
        for each in outcomes
        if each.action != "delete"
    ]
    if output == "table":
        show(Report(("stage", "kind", "name"), listed, []), "table")
        return
    names = [{"stage": stage, "kind": kind, "name": name} for stage, kind, name in listed]
    show_one({**made, _CLUSTER: [_as_data(each) for each in outcomes], "names": names}, output)


def _as_data(each: Outcome) -> dict[str, str]:
    return {"step": each.step, **each.who._asdict(), "action": each.action}


def _need_files(environment: Environment, folder: Path, *, lenient: bool) -> None:
    """Nothing is begun when the credentials that a Secret is to have are not there. On a twin nobody needs them."""
    from sliceworks.infra.cluster import secrets

    for path in secrets.missing(environment, folder):
        if not lenient:
            raise InvalidDocument(
                "there is no such file: a model registry's credentials are read from it",
                place=str(path),
                hint=f"put it there; or --skip {_SECRETS}, when they are in the cluster already",
            )
        progress.say(f"{path} is not here: its Secret has no values, or stays as it is")
    secrets.read(environment, folder)


@click.command()
@file_option
@twin_option
@click.option("--abandon", is_flag=True, help="Do not clear up in the cluster first: what is in it goes with it.")
@options.yes
@options.timeout(300)
@options.quiet
def destroy(*, file: Path, twin: bool, abandon: bool, yes: bool, timeout: float) -> int:
    """Remove the environment: what is in its cluster first, then the last stage first. A person confirms by its name.

    What stays behind is listed at the end.
    """
    from sliceworks.infra.cluster import notes

    environment = read_environment(file)
    inside = inside_of(environment, file, twin=twin, patience=timeout, graphs="none")
    if not yes:
        _confirm_by_name(environment.metadata.name)
    rows: list[tuple[object, ...]] = []
    stays: list[str] = []
    stages = Stages("Removing")
    with stages as begun:
        outputs = {} if abandon else inside.site.made(STAGE)
        if outputs.get("cluster"):
            count, stays = inside.remove(outputs, stages.within)
            rows.append((_CLUSTER, count))
        for stage, changes in inside.site.destroy(begun):
            rows.append((stage.name, _count(changes, "delete")))
    show(Report(("stage", "removed"), rows, []), "table")
    for each in (*stays, *notes.staying(environment)):
        progress.say(f"stays: {each}")
    return 0


def _count(changes: list[Change], *actions: str) -> int:
    return sum(change.action in actions for change in changes)


def _confirm_by_name(name: str) -> None:
    import sys

    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", hint="say yes with -y")
    given = click.prompt(f"This removes everything of {name}. Type its name to go on", err=True, default="", show_default=False)
    if given != name:
        raise UsageError(f"{given!r} is not {name!r}: nothing was removed")
