"""The report as one HTML file: charts, each with a table of its data, and the sections between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.html_page import SafeHtml, read_asset, render_page, table, tag
from sliceworks.base.names import pluralize
from sliceworks.rehearsal.report import figures, sections
from sliceworks.rehearsal.report.chart_data import STATES, build_chart_data
from sliceworks.rehearsal.report.figures import format_duration, format_percent, format_time, format_usd
from sliceworks.rehearsal.report.sections import collapsible, section

if TYPE_CHECKING:
    from sliceworks.rehearsal.record import RunRecord
    from sliceworks.rehearsal.report.figures import Bill, Waits

_HELP = (
    "Keys: Up and Down select a row, Left and Right a span, + and − zoom, Enter shows a span or opens a group, 0 shows the "
    "whole run. Mouse: drag to pan, Ctrl and wheel to zoom."
)


def render_timeline(run: RunRecord, view: dict[str, Any]) -> SafeHtml:
    """The timeline with its controls and table; the script draws it."""
    used = {span[0] for group in view["groups"] for row in group["rows"] for span in row["spans"]} - {"other", "done"}
    swatches = [tag("span", _swatch(name), STATES[name][0]) for name in STATES if name in used]
    buttons = [
        tag("button", label, type="button", data_zoom=name, aria_label=description, title=description)
        for name, label, description in (
            ("out", "−", "Show more time"),
            ("in", "+", "Show less time"),
            ("whole", "Whole run", "Show the whole run"),
        )
    ]
    find = tag("label", "Find ", SafeHtml('<input id="filter" type="search" placeholder="job, team, type" autocomplete="off">'))
    rows = [
        (
            row["name"],
            group["name"],
            STATES[state][0] or note,
            format_time(run, begin),
            format_time(run, end),
            format_duration(end - begin),
            note,
        )
        for group in view["groups"]
        for row in group["rows"]
        for state, begin, end, note in row["spans"]
    ]
    columns = ("name", "group", "state", "from", "to", "duration", "note")
    return section(
        "timeline",
        "Timeline",
        tag("div", find, tag("span", *buttons, class_="buttons"), class_="bar"),
        tag(
            "div",
            class_="board",
            tabindex=0,
            role="application",
            aria_label="Timeline of the run",
            aria_describedby="timeline-help",
        ),
        tag("p", class_="announcer unseen", aria_live="polite"),
        tag("div", *swatches, class_="legend states"),
        tag("p", _HELP, class_="note", id="timeline-help"),
        collapsible("Timeline as a table", table(columns, rows, text_columns=(0, 1, 2, 6))),
    )


def _swatch(state: str) -> SafeHtml:
    shape = f'<rect x="1" y="1" width="22" height="12" rx="3" class="span {state}"/>'
    return SafeHtml(f'<svg class="swatch" viewBox="0 0 24 14" aria-hidden="true">{shape}</svg>')


def render_chips(run: RunRecord) -> SafeHtml:
    """Chips in use over the time range of the timeline."""
    choice = SafeHtml(
        '<fieldset><legend>Layers by</legend><label><input type="radio" name="by" value="team" checked> team</label>'
        '<label><input type="radio" name="by" value="type"> chip type</label></fieldset>'
    )
    uses = [*figures.use_by_chip(run), figures.total_use(run)]
    rows = [(use.name, f"{use.used / 3600:,.1f}", f"{use.existing / 3600:,.1f}", format_percent(use.share)) for use in uses]
    by_team = [(team, *_team_hours(run, team)) for team in figures.teams(run)]
    return section(
        "chips",
        "Chips in use",
        tag("div", choice, class_="bar"),
        tag("div", class_="plot"),
        tag("div", class_="legend", aria_live="polite"),
        collapsible(
            "Chip hours as tables",
            tag(
                "div",
                table(("chip type", "chip hours used", "chip hours available", "utilization"), rows),
                table(("team", "chip hours", "share of used"), by_team),
            ),
        ),
    )


def _team_hours(run: RunRecord, team: str) -> tuple[str, str]:
    used = sum(figures.integrate(item.points, run.duration) for item in run.usage if item.team == team)
    everything = figures.total_use(run).used
    return f"{used / 3600:,.1f}", format_percent(used / everything if everything else None)


def render_waits(run: RunRecord) -> SafeHtml:
    """Waits of jobs by team: a dot for each, and the longest with their reasons."""
    waits = figures.waits(run)
    longest = max((seconds for team in waits for seconds in team.seconds), default=0.0)
    strips = [_strip(wait, longest) for wait in waits]
    rows = [
        (
            item.team,
            item.jobs,
            format_duration(item.quantile(0.5)),
            format_duration(item.quantile(0.9)),
            format_duration(item.quantile(1)),
            item.never_admitted or "–",
        )
        for item in waits
    ]
    longest_rows = [
        (
            job.name,
            job.team or "no team",
            format_duration(seconds),
            "pending" if job.admitted is None else "",
            figures.wait_reason(job) or "–",
        )
        for job, seconds in figures.longest_waits(run)
    ]
    parts: list[object] = [tag("div", *strips, class_="strips")] if longest >= 1 else [tag("p", "No job waited.")]
    parts.append(table(("team", "jobs", "median", "p90", "max", "never admitted"), rows))
    if longest_rows:
        parts += [tag("h3", "Longest waits"), table(("job", "team", "wait", "", "reason"), longest_rows, text_columns=(0, 1, 3, 4))]
    return section("waiting", "Wait for admission by team", tag("div", *parts, class_="wide"))


def _strip(waits: Waits, longest: float) -> SafeHtml:
    """One team: a dot for each job and a line at the median, on a common scale."""
    if longest < 1:
        return SafeHtml("")
    dots = "".join(f'<circle cx="{1 + seconds / longest * 98:.2f}%" cy="14" r="5"/>' for seconds in waits.seconds)
    median = waits.quantile(0.5)
    position = f"{1 + (median or 0) / longest * 98:.2f}%"
    line = f'<line x1="{position}" x2="{position}" y1="2" y2="26"/>' if median is not None else ""
    median_text, max_value = format_duration(median), format_duration(waits.quantile(1))
    label = f"{waits.team}: {pluralize(waits.jobs, 'job')}, median wait {median_text}, max {max_value}"
    picture = SafeHtml(f'<svg aria-hidden="true"><line class="axis" x1="0" x2="100%" y1="14" y2="14"/>{dots}{line}</svg>')
    return tag(
        "div",
        tag("span", waits.team, class_="who"),
        picture,
        tag("span", format_duration(waits.quantile(1))),
        role="img",
        aria_label=label,
    )


def render_cost(run: RunRecord) -> SafeHtml:
    """Cost of chips by team, capacity type and pool."""
    bills = figures.bills(run)
    if not bills:
        return section("cost", "Cost", tag("p", "No prices known."))
    kinds = sorted({kind for bill in bills for kind, _ in bill.kinds})
    max_value = max(bill.usd or 0.0 for bill in bills) or 1.0
    rows = [
        (bill.team, f"{bill.chip_hours:,.1f}", *(_cost_of_kind(bill, kind) for kind in kinds), format_usd(bill.usd))
        for bill in bills
    ]
    rows.append(
        ("total", f"{sum(bill.chip_hours for bill in bills):,.1f}", *("" for _ in kinds), format_usd(figures.total_cost(run)))
    )
    unpriced = sum(bill.unpriced for bill in bills)
    note = 'List prices. The row "idle" is the cost of unused chips.'
    note += f" {unpriced:,.1f} chip hours have no published price." if unpriced else ""
    return section(
        "cost",
        "Cost by team",
        tag("div", *(_bar(bill, kinds, max_value) for bill in bills), class_="bars"),
        tag("div", *(tag("span", _kind_swatch(number), kind) for number, kind in enumerate(kinds)), class_="legend"),
        tag("div", table(("team", "chip hours", *kinds, "total"), rows), class_="wide"),
        tag("p", note, class_="note"),
        collapsible("Cost by pool", _pools(run)),
    )


def _pools(run: RunRecord) -> SafeHtml:
    rows = [
        (cost.pool, f"{cost.chip}, {cost.capacity}", cost.team or figures.IDLE, f"{cost.chip_hours:,.1f}", _price(cost.usd))
        for cost in sorted(run.costs, key=lambda cost: (cost.pool, cost.team == "", cost.team))
    ]
    return table(("pool", "type", "team", "chip hours", "cost"), rows, text_columns=(0, 1, 2))


def _price(amount: float | None) -> str:
    return "no price" if amount is None else format_usd(amount)


def _cost_of_kind(bill: Bill, kind: str) -> str:
    costs = dict(bill.kinds)
    return _price(costs[kind]) if kind in costs else "–"


def _bar(bill: Bill, kinds: list[str], max_value: float) -> SafeHtml:
    parts = [_part(kinds.index(kind), kind, amount, max_value) for kind, amount in bill.kinds if amount]
    details = ", ".join(f"{kind} {_price(amount)}" for kind, amount in bill.kinds)
    label, name = f"{bill.team}: {_price(bill.usd)}, of which {details}", tag("span", bill.team, class_="who")
    return tag("div", name, tag("span", *parts, class_="parts"), tag("b", _price(bill.usd)), role="img", aria_label=label)


def _part(number: int, kind: str, amount: float, max_value: float) -> SafeHtml:
    style = f"width:{amount / max_value * 100:.2f}%;background-color:var(--c{number % 5})"
    return tag("i", class_=f"l{number % 5}", style=style, title=f"{kind}: {format_usd(amount)}")


def _kind_swatch(number: int) -> SafeHtml:
    return tag("i", class_=f"swatch l{number % 5}", style=f"background-color:var(--c{number % 5})")


_SCRIPTS = ("view.js", "rows.js", "timeline.js", "interaction.js", "chips.js")

_SECTIONS = (
    ("timeline", "Timeline"),
    ("wrong", "Incidents"),
    ("chips", "Chips"),
    ("waiting", "Waits"),
    ("cost", "Cost"),
    ("loads", "Load tests"),
    ("expected", "Expectations"),
)


def render(run: RunRecord) -> str:
    """The report as an HTML document."""
    data = build_chart_data(run)
    loads = sections.load_tests(run)
    links = [tag("a", title, href=f"#{name}") for name, title in _SECTIONS if name != "loads" or loads is not None]
    body = [
        SafeHtml(read_asset(__package__, "patterns.svg")),
        sections.header(run),
        tag("nav", *links, aria_label="Parts of this page"),
        render_timeline(run, data),
        sections.incidents(run),
        render_chips(run),
        render_waits(run),
        render_cost(run),
        *([loads] if loads is not None else ()),
        sections.expectations(run),
    ]
    script = "\n".join(read_asset(__package__, name) for name in _SCRIPTS)
    return render_page(f"{run.name}: rehearsal", body, data=data, style=read_asset(__package__, "page.css"), script=script)
