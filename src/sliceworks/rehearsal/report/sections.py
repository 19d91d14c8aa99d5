"""Sections of the report page that are text and tables."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from sliceworks.base.html_page import SafeHtml, escape_html, table, tag
from sliceworks.base.names import pluralize
from sliceworks.rehearsal.report import figures
from sliceworks.rehearsal.report.figures import format_duration, format_percent, format_time, format_usd, format_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.rehearsal.record import Incident, RunRecord, StepRecord


def header(run: RunRecord) -> SafeHtml:
    """Name, result and key figures of the run."""
    jobs, teams = pluralize(len(run.jobs), "job"), pluralize(len(figures.teams(run)), "team")
    about = f"{jobs} of {teams} in {format_duration(run.duration)} of twin time"
    facts = f"{about}, from {run.start.replace('T', ' ').removesuffix('Z')} UTC. Seed {run.seed}."
    mark = "✓ " if run.passed else "✗ "
    return tag(
        "header",
        tag("p", "Rehearsal", class_="kicker"),
        tag("h1", run.name),
        tag("p", facts, class_="note"),
        tag(
            "p",
            tag("a", f"{mark}{_capitalize(format_verdict(run))}", href="#expected"),
            class_=f"verdict {'good' if run.passed else 'bad'}",
        ),
        tag("ul", *(tag("li", tag("b", figure), tag("span", name)) for figure, name in _tiles(run)), class_="tiles"),
    )


def _tiles(run: RunRecord) -> Iterator[tuple[str, str]]:
    use, cost = figures.total_use(run), figures.total_cost(run)
    waited = sorted(second for waits in figures.waits(run) for second in waits.seconds)
    yield format_percent(use.share), f"of chips in use, {use.used / 3600:,.0f} of {use.existing / 3600:,.0f} chip hours"
    yield (
        format_duration(waited[len(waited) // 2] if waited else None),
        "median wait of jobs" if waited else "no jobs submitted",
    )
    yield format_usd(cost), "no prices known" if cost is None else "at published prices"
    if run.incidents:
        yield f"{figures.count_recovered(run)} of {len(run.incidents)}", "incidents recovered"
    else:
        yield "0", "incidents"


def expectations(run: RunRecord) -> SafeHtml:
    """The steps with their expected and actual results."""
    rows = [row for step in run.steps for row in _expectation_rows(run, step)]
    columns = ("step", "at", "took", "expected", "found", "")
    body = tag("div", table(columns, rows, text_columns=(0, 3, 4, 5)), class_="wide") if rows else tag("p", "No steps.")
    left = tag("p", f"Left in the cloud after destroy: {', '.join(run.leftovers)}.", class_="bad") if run.leftovers else ""
    return section("expected", "Expectations", body, left)


def _expectation_rows(run: RunRecord, step: StepRecord) -> Iterator[tuple[object, ...]]:
    start, took = format_time(run, step.at), format_duration(step.duration) if step.duration else ""
    if not step.checks or step.result == "failed":
        yield (
            step.title,
            start,
            took,
            "done",
            step.summary or step.result,
            _mark(step.result != "failed", step.result == "skipped"),
        )
        start = took = ""
    for number, check in enumerate(step.checks):
        title = step.title if not number and step.result != "failed" else tag("span", step.title, class_="again")
        place = tag("small", check.place, class_="place") if check.place else ""
        expected = tag("span", check.expected, " ", place)
        yield (title, start if not number else "", took if not number else "", expected, check.actual, _mark(check.passed))


def _mark(good: bool, skipped: bool = False) -> SafeHtml:
    if skipped:
        return tag("span", "– skipped", class_="note")
    return tag("span", "✓ passed" if good else "✗ failed", class_="good" if good else "bad")


def incidents(run: RunRecord) -> SafeHtml:
    """Incidents and the platform's responses."""
    if not run.incidents:
        return section("wrong", "Incidents", tag("p", "No incidents."))
    items = [_incident(run, number, incident) for number, incident in enumerate(run.incidents)]
    return section("wrong", "Incidents", tag("ol", *items, class_="incidents"))


def _incident(run: RunRecord, number: int, incident: Incident) -> SafeHtml:
    if incident.recovered_at is None:
        state = tag("span", "✗ not recovered", class_="state bad")
    else:
        state = tag("span", f"✓ recovered after {format_duration(incident.recovered_at - incident.at)}", class_="state good")
    response_items = [tag("li", tag("time", format_time(run, answer.at)), " ", answer.what) for answer in incident.responses]
    link = tag("button", tag("time", format_time(run, incident.at)), " on the timeline", type="button", data_show=number)
    about = (
        tag("p", escape_html(incident.subject), class_="note") if incident.subject and incident.subject not in incident.what else ""
    )
    responses = tag("ul", *response_items) if response_items else tag("p", "No response.", class_="note")
    return tag(
        "li", tag("h3", f"{number + 1}. {_capitalize(incident.what)}"), about, tag("p", state, link, class_="facts"), responses
    )


def load_tests(run: RunRecord) -> SafeHtml | None:
    """Load tests, measured on this machine; None if none ran."""
    if not run.measured.load_runs:
        return None
    columns = (
        "load test",
        "target",
        "requests",
        "failed",
        "requests/s",
        "goodput/s",
        "first token p50",
        "p99",
        "end to end p50",
        "p99",
        "objectives",
        "",
    )
    rows = []
    for load_test in run.measured.load_runs:
        times = [_milliseconds(load_test.times.get(name, {}).get(at)) for name in ("ttft", "e2e") for at in ("p50", "p99")]
        objectives = tag(
            "span",
            *(
                tag("span", _mark(check.passed), f" {check.expected}: {check.actual}", class_="line")
                for check in load_test.objectives
            ),
        )
        link = tag("a", "report", href=_address(load_test.report)) if load_test.report else ""
        counts = (f"{load_test.requests:,}", f"{load_test.failed:,}", f"{load_test.rate:,.1f}", f"{load_test.goodput:,.1f}")
        rows.append(
            (
                load_test.name,
                f"{load_test.model} at {load_test.target}",
                *counts,
                *times,
                objectives if load_test.objectives else "–",
                link,
            )
        )
    note = tag("p", "Measured in real time on this machine; everything else on this page is twin time.", class_="note")
    return section("loads", "Load tests", tag("div", table(columns, rows, text_columns=(0, 1, 10, 11)), class_="wide"), note)


def _address(path: str) -> str:
    """URL of a file, relative to the page; never of any other scheme."""
    return PurePath(path).as_uri() if PurePath(path).is_absolute() else quote(path)


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:,.3g} ms"


def section(name: str, title: str, *inside: object) -> SafeHtml:
    """A section with a title and an anchor."""
    return tag("section", tag("h2", title, id=f"{name}-title"), *inside, id=name, aria_labelledby=f"{name}-title")


def collapsible(summary: str, inside: object) -> SafeHtml:
    """A collapsed block, such as the data of a chart."""
    return tag("details", tag("summary", summary), tag("div", inside, class_="wide"))


def _capitalize(sentence: str) -> str:
    """Capitalize a sentence, unless it starts with the name of an object."""
    first = sentence.partition(" ")[0]
    return sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence
