"""The parts of a day's page that are words and tables: what a reader finds without a script, too."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from sliceworks.base.pages import Safe, table, tag, text
from sliceworks.base.words import counted
from sliceworks.rehearsal.day import figures
from sliceworks.rehearsal.day.words import clock, lasting, share, usd, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.rehearsal.day.record import Day, Incident, Step


def header(day: Day) -> Safe:
    """The name of the day, how it went, and the figures to remember."""
    about = (
        f"{counted(len(day.jobs), 'job')} of {counted(len(figures.teams(day)), 'team')} in {lasting(day.lasted)} of the twin's time"
    )
    facts = (
        f"{about}, from {day.start.replace('T', ' ').removesuffix('Z')} UTC. Seed {day.seed}: the same documents give the same day."
    )
    mark = "✓ " if day.kept else "✗ "
    return tag(
        "header",
        tag("p", "A rehearsed day", class_="kicker"),
        tag("h1", day.name),
        tag("p", facts, class_="note"),
        tag("p", tag("a", f"{mark}{_capital(verdict(day))}", href="#expected"), class_=f"verdict {'good' if day.kept else 'bad'}"),
        tag("ul", *(tag("li", tag("b", figure), tag("span", name)) for figure, name in _tiles(day)), class_="tiles"),
    )


def _tiles(day: Day) -> Iterator[tuple[str, str]]:
    use, cost = figures.total_use(day), figures.total_cost(day)
    waited = sorted(each for waits in figures.waits(day) for each in waits.seconds)
    yield share(use.share), f"of chips in use, {use.used / 3600:,.0f} of {use.there / 3600:,.0f} chip hours"
    yield (
        lasting(waited[len(waited) // 2] if waited else None),
        "is what half of the jobs waited at most" if waited else "no job came",
    )
    yield usd(cost), "there are no prices" if cost is None else "at list prices"
    if day.incidents:
        yield f"{figures.mended(day)} of {len(day.incidents)}", "things that went wrong were mended"
    else:
        yield "0", "things went wrong"


def expected(day: Day) -> Safe:
    """The steps of the day, what was expected of each, and what was found."""
    rows = [row for step in day.steps for row in _expected_of(day, step)]
    columns = ("step", "at", "took", "expected", "found", "")
    body = tag("div", table(columns, rows, words=(0, 3, 4, 5)), class_="wide") if rows else tag("p", "There were no steps.")
    left = tag("p", f"Left in the cloud when everything had been removed: {', '.join(day.left)}.", class_="bad") if day.left else ""
    return section("expected", "Expected and found", body, left)


def _expected_of(day: Day, step: Step) -> Iterator[tuple[object, ...]]:
    began, took = clock(day, step.at), lasting(step.lasted) if step.lasted else ""
    if not step.checks or step.result == "failed":
        yield (
            step.title,
            began,
            took,
            "to be done",
            step.told or step.result,
            _mark(step.result != "failed", step.result == "skipped"),
        )
        began = took = ""
    for number, check in enumerate(step.checks):
        title = step.title if not number and step.result != "failed" else tag("span", step.title, class_="again")
        place = tag("small", check.place, class_="place") if check.place else ""
        wanted = tag("span", check.expected, " ", place)
        yield (title, began if not number else "", took if not number else "", wanted, check.actual, _mark(check.kept))


def _mark(good: bool, left_out: bool = False) -> Safe:
    if left_out:
        return tag("span", "– left out", class_="note")
    return tag("span", "✓ as expected" if good else "✗ not as expected", class_="good" if good else "bad")


def incidents(day: Day) -> Safe:
    """What went wrong, and what the platform did about it."""
    if not day.incidents:
        return section("wrong", "What went wrong", tag("p", "Nothing did."))
    items = [_incident(day, number, each) for number, each in enumerate(day.incidents)]
    return section("wrong", "What went wrong, and what the platform did about it", tag("ol", *items, class_="incidents"))


def _incident(day: Day, number: int, each: Incident) -> Safe:
    if each.mended is None:
        state = tag("span", "✗ not mended", class_="state bad")
    else:
        state = tag("span", f"✓ mended after {lasting(each.mended - each.at)}", class_="state good")
    acts = [tag("li", tag("time", clock(day, answer.at)), " ", answer.what) for answer in each.answers]
    where = tag("button", tag("time", clock(day, each.at)), " on the time line", type="button", data_show=number)
    about = tag("p", text(each.subject), class_="note") if each.subject and each.subject not in each.what else ""
    told = tag("ul", *acts) if acts else tag("p", "Nothing was done about it.", class_="note")
    return tag("li", tag("h3", f"{number + 1}. {_capital(each.what)}"), about, tag("p", state, where, class_="facts"), told)


def loads(day: Day) -> Safe | None:
    """The load tests of the day, measured on this machine."""
    if not day.measured.load_runs:
        return None
    columns = (
        "load test",
        "of",
        "requests",
        "failed",
        "a second",
        "good",
        "first token p50",
        "p99",
        "end to end p50",
        "p99",
        "objectives",
        "",
    )
    rows = []
    for run in day.measured.load_runs:
        times = [_milliseconds(run.times.get(name, {}).get(at)) for name in ("ttft", "e2e") for at in ("p50", "p99")]
        kept = tag(
            "span",
            *(tag("span", _mark(check.kept), f" {check.expected}: {check.actual}", class_="line") for check in run.objectives),
        )
        link = tag("a", "report", href=_address(run.report)) if run.report else ""
        counts = (f"{run.requests:,}", f"{run.failed:,}", f"{run.rate:,.1f}", f"{run.goodput:,.1f}")
        rows.append((run.name, f"{run.model} at {run.target}", *counts, *times, kept if run.objectives else "–", link))
    note = tag(
        "p", "Measured in real time on the machine of the rehearsal; all else on this page is the twin's time.", class_="note"
    )
    return section("loads", "Load tests", tag("div", table(columns, rows, words=(0, 1, 10, 11)), class_="wide"), note)


def _address(path: str) -> str:
    """The address of a file, seen from the page; never anything but a file's."""
    return PurePath(path).as_uri() if PurePath(path).is_absolute() else quote(path)


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:,.3g} ms"


def section(name: str, title: str, *inside: object) -> Safe:
    """A part of the page that can be linked to."""
    return tag("section", tag("h2", title, id=f"{name}-title"), *inside, id=name, aria_labelledby=f"{name}-title")


def folded(summary: str, inside: object) -> Safe:
    """Something to open: the figures behind a picture."""
    return tag("details", tag("summary", summary), tag("div", inside, class_="wide"))


def _capital(words: str) -> str:
    """A sentence's beginning; the name of a machine or a job stays as it is written."""
    first = words.partition(" ")[0]
    return words[:1].upper() + words[1:] if first.isalpha() else words
