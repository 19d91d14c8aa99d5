"""`sliceworks load search`: the highest rate that a server takes while its objectives hold, with every run that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.cli import options
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from sliceworks.cli.load_runs import Test
    from sliceworks.loadtest.searching import Search


workers_option = click.option("--workers", type=click.IntRange(1, 1000), help="So many send, not the document's number.")
senders_option = click.option(
    "--on", "senders", type=click.Choice(["here", "cluster"]), help="Where they are: processes here, or pods of the cluster."
)


@click.command()
@click.option("-f", "--file", type=click.Path(exists=True, path_type=Path), required=True, help="The LoadTest document.")
@click.option(
    "--slo", "objectives", multiple=True, metavar="TEXT", help="Such as `ttft p99 < 500ms`; the document's when left out."
)
@click.option("--url", default="", metavar="URL", help="Ask this address, not the document's.")
@click.option(
    "--from", "first", type=click.FloatRange(0.01), default=1.0, show_default=True, help="The rate to begin with, per second."
)
@click.option("--most", type=click.FloatRange(0.01), default=10_000.0, show_default=True, help="No rate above this is tried.")
@click.option("--for", "lasts", type=options.DURATION, default="30s", show_default=True, help="How long each rate is tried.")
@click.option(
    "--precision", type=click.FloatRange(0.001, 1), default=0.05, show_default=True, help="How close to come, as a share."
)
@workers_option
@senders_option
@options.namespace
@options.cluster
@options.output("table", "json")
@options.quiet
def search(*, file: Path, objectives: tuple[str, ...], url: str, output: str, **how: Any) -> int:
    """Find the highest rate at which the objectives hold: doubled until they do not, then halved in between.

    Exit code 1 when no rate held.
    """
    from sliceworks.cli import load_runs
    from sliceworks.loadtest.searching import Search
    from sliceworks.specs.objectives import parse

    where = load_runs.Where(*(how[key] for key in ("namespace", "kubeconfig", "context", "twin")))
    test = load_runs.aimed(load_runs.read(file, where, url=url, workers=how["workers"], on=how["senders"]))
    wanted = list(objectives) or test.spec.slo
    if not wanted:
        raise UsageError("what must hold? The document has no slo", hint="--slo 'ttft p99 < 500ms'")
    try:
        for each in wanted:
            parse(each)
        found = Search(how["first"], how["most"], how["precision"])
    except ValueError as error:
        raise UsageError(str(error)) from error
    whole = all(_probe(found, test, rate, how["lasts"], wanted) for rate in found.rates())
    _show(found, output)
    if not whole:
        progress.say("interrupted: this is what was found until then")
    return 0 if found.held and whole else 1


def _probe(found: Search, test: Test, rate: float, lasts: float, objectives: list[str]) -> bool:
    """Try a rate; False when somebody interrupted that, which says nothing about the rate."""
    from dataclasses import replace

    from sliceworks.cli import load_perform
    from sliceworks.loadtest.report import words
    from sliceworks.loadtest.running import INTERRUPTED, NotStarted
    from sliceworks.loadtest.searching import Probe
    from sliceworks.specs.load_test import Stage

    stage = Stage.model_validate({"poisson": rate, "for": lasts})
    warm = min(test.spec.warm_up, lasts / 4)
    spec = test.spec.model_copy(update={"stages": [stage], "slo": objectives, "warm_up": warm})
    named = replace(test, spec=spec, name=f"{test.name}-at-{_said(rate)}")
    try:
        run, folder = load_perform.performed(named, tags={"search": test.name})
    except NotStarted as error:
        if error.why != INTERRUPTED:
            raise
        return False
    load_perform.store(folder, test)
    if run["stopped"] == INTERRUPTED:
        return False
    held = bool(run["valid"] and run["kept"])
    found.add(Probe(rate, held, bool(run["valid"]), words.verdict(run), str(folder)))
    progress.say(f"{_said(rate):>8}/s  {'holds' if held else 'does not hold'}: {words.verdict(run)}")
    return True


def _show(found: Search, output: str) -> None:
    probes = sorted(found.probes, key=lambda probe: probe.rate)
    data = [{"rate": each.rate, "held": each.held, "valid": each.valid, "note": each.note, "run": each.folder} for each in probes]
    failed = None if found.failed == float("inf") else found.failed
    if output == "json":
        show_one({"held": found.held, "failed": failed, "probes": data}, "json")
        return
    show(
        Report(
            ("rate/s", "held", "why", "run"), [(_said(e.rate), "yes" if e.held else "no", e.note, e.folder) for e in probes], data
        ),
        "table",
    )
    if not found.held:
        click.echo("no rate held")
    elif failed is None:
        click.echo(f"{_said(found.held)} requests/s hold, the most that was tried")
    else:
        click.echo(f"{_said(found.held)} requests/s hold, {_said(failed)} do not")


def _said(rate: float) -> str:
    """A rate in four digits that count, and never with an exponent: it stands in names of folders and of pods too."""
    return f"{float(f'{rate:.4g}'):.15g}"
