"""`load search`: find the highest rate that meets the objectives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options
from sliceworks.cli.output import Report, print_object, print_report

if TYPE_CHECKING:
    from sliceworks.cli.load_test import ResolvedTest
    from sliceworks.loadtest.rate_search import Search

workers_option = click.option("--workers", type=click.IntRange(1, 1000), help="Number of workers, instead of the document's.")
senders_option = click.option(
    "--on", "senders", type=click.Choice(["here", "cluster"]), help="Where workers run: local processes, or pods in the cluster."
)

_MIN_REQUESTS = 10
"""Expected requests of the lowest rate to try: with fewer, a random arrival process may send none."""


@click.command()
@click.option("-f", "--file", type=click.Path(exists=True, path_type=Path), required=True, help="The LoadTest document.")
@click.option(
    "--slo", "objectives", multiple=True, metavar="TEXT", help="Objective, such as `ttft p99 < 500ms`.  [default: the document's]"
)
@click.option("--url", default="", metavar="URL", help="Send requests to this URL instead of the document's target.")
@click.option(
    "--from", "first", type=click.FloatRange(0.01), default=1.0, show_default=True, help="Initial rate, in requests per second."
)
@click.option("--max", type=click.FloatRange(0.01), default=10_000.0, show_default=True, help="Maximum rate to try.")
@click.option("--for", "lasts", type=options.DURATION, default="30s", show_default=True, help="How long to test each rate.")
@click.option(
    "--precision", type=click.FloatRange(0.001, 1), default=0.05, show_default=True, help="Precision of the result, as a fraction."
)
@workers_option
@senders_option
@options.namespace
@options.cluster
@options.output("table", "json")
@options.quiet
def search(*, file: Path, objectives: tuple[str, ...], url: str, output: str, **how: Any) -> int:
    """Find the highest rate that meets the objectives: double the rate until one is missed, then bisect.

    Exit code 1 if no rate meets them.
    """
    from sliceworks.cli import load_test
    from sliceworks.loadtest.rate_search import Search
    from sliceworks.specs.objectives import parse_objective

    where = load_test.ClusterOptions(*(how[key] for key in ("namespace", "kubeconfig", "context", "twin")))
    test = load_test.resolve_target(load_test.read(file, where, url=url, workers=how["workers"], on=how["senders"]))
    objective_texts = list(objectives) or test.spec.slo
    if not objective_texts:
        raise UsageError("no objective to search for: the document has no slo", hint="pass --slo 'ttft p99 < 500ms'")
    try:
        for item in objective_texts:
            parse_objective(item)
        rate_search = Search(how["first"], how["max"], how["precision"], _MIN_REQUESTS / how["lasts"])
    except ValueError as error:
        raise UsageError(str(error)) from error
    try:
        complete = all(_probe(rate_search, test, rate, how["lasts"], objective_texts) for rate in rate_search.rates())
    except SliceworksError:
        if rate_search.probes:
            _show(rate_search, output)
        raise
    _show(rate_search, output)
    if not complete:
        progress.say("interrupted; showing the result so far")
    return 0 if rate_search.passed and complete else 1


def _probe(rate_search: Search, test: ResolvedTest, rate: float, seconds: float, objectives: list[str]) -> bool:
    """Test a rate; False if the run was interrupted, which says nothing about the rate."""
    from dataclasses import replace

    from sliceworks.cli import load_runner
    from sliceworks.loadtest.rate_search import Probe
    from sliceworks.loadtest.report import formatter
    from sliceworks.loadtest.runner import INTERRUPTED, NotStarted
    from sliceworks.specs.load_test import Stage

    stage = Stage.model_validate({"poisson": rate, "for": seconds})
    warm = min(test.spec.warm_up, seconds / 4)
    spec = test.spec.model_copy(update={"stages": [stage], "slo": objectives, "warm_up": warm})
    named = replace(test, spec=spec, name=f"{test.name}-at-{_format_rate(rate)}")
    try:
        run, folder = load_runner.run_test(named, tags={"search": test.name})
    except NotStarted as error:
        if error.why != INTERRUPTED:
            raise
        return False
    load_runner.upload_results(folder, test)
    if run["stopped"] == INTERRUPTED:
        return False
    held = bool(run["valid"] and run["met"])
    rate_search.add(Probe(rate, held, bool(run["valid"]), formatter.verdict(run), str(folder)))
    progress.say(
        f"{_format_rate(rate):>8}/s  {'meets the objectives' if held else 'misses an objective'}: {formatter.verdict(run)}"
    )
    return True


def _show(rate_search: Search, output: str) -> None:
    probes = sorted(rate_search.probes, key=lambda probe: probe.rate)
    data = [{"rate": item.rate, "held": item.passed, "valid": item.valid, "note": item.note, "run": item.folder} for item in probes]
    failed = None if rate_search.failed == float("inf") else rate_search.failed
    if output == "json":
        print_object({"held": rate_search.passed, "failed": failed, "probes": data}, "json")
        return
    print_report(
        Report(
            ("rate/s", "met", "result", "run"),
            [(_format_rate(e.rate), "yes" if e.passed else "no", e.note, e.folder) for e in probes],
            data,
        ),
        "table",
    )
    if not rate_search.passed:
        click.echo(
            f"none: no rate from {_format_rate(probes[0].rate)} to {_format_rate(probes[-1].rate)} requests/s meets the objectives"
        )
    elif failed is None:
        click.echo(f"{_format_rate(rate_search.passed)} requests/s meet the objectives (the highest rate tested)")
    else:
        click.echo(f"{_format_rate(rate_search.passed)} requests/s meet the objectives, {_format_rate(failed)} do not")


def _format_rate(rate: float) -> str:
    """Format a rate with four significant digits and no exponent: it is part of folder and pod names."""
    return f"{float(f'{rate:.4g}'):.15g}"
