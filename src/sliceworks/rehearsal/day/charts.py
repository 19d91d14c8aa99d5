"""The pictures of a day's page: the time line, chips, waits and costs, each with the table that says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.pages import Safe, table, tag
from sliceworks.base.words import counted
from sliceworks.rehearsal.day import figures
from sliceworks.rehearsal.day.sections import folded, section
from sliceworks.rehearsal.day.view import STATES
from sliceworks.rehearsal.day.words import clock, lasting, share, usd

if TYPE_CHECKING:
    from sliceworks.rehearsal.day.figures import Bill, Waits
    from sliceworks.rehearsal.day.record import Day

_HELP = (
    "Up and down go from row to row, left and right from one span to the next, plus and minus zoom, Enter shows one span or opens "
    "a group, 0 shows the whole day. With the mouse: drag, and Ctrl with the wheel."
)


def timeline(day: Day, view: dict[str, Any]) -> Safe:
    """The whole day; the script draws it."""
    used = {span[0] for group in view["groups"] for row in group["rows"] for span in row["spans"]} - {"other", "done"}
    swatches = [tag("span", _swatch(name), STATES[name][0]) for name in STATES if name in used]
    buttons = [
        tag("button", label, type="button", data_zoom=name, aria_label=words, title=words)
        for name, label, words in (
            ("out", "−", "Show more time"),
            ("in", "+", "Show less time"),
            ("whole", "Whole day", "Show the whole day"),
        )
    ]
    find = tag("label", "Find ", Safe('<input id="filter" type="search" placeholder="job, team, type" autocomplete="off">'))
    rows = [
        (row["name"], group["name"], STATES[state][0] or note, clock(day, begin), clock(day, end), lasting(end - begin), note)
        for group in view["groups"]
        for row in group["rows"]
        for state, begin, end, note in row["spans"]
    ]
    columns = ("what", "of", "state", "from", "to", "for", "why")
    return section(
        "timeline",
        "The whole day",
        tag("div", find, tag("span", *buttons, class_="buttons"), class_="bar"),
        tag(
            "div",
            class_="board",
            tabindex=0,
            role="application",
            aria_label="Time line of the day",
            aria_describedby="timeline-help",
        ),
        tag("p", class_="heard unseen", aria_live="polite"),
        tag("div", *swatches, class_="legend states"),
        tag("p", _HELP, class_="note", id="timeline-help"),
        folded("The time line as a table", table(columns, rows, words=(0, 1, 2, 6))),
    )


def _swatch(state: str) -> Safe:
    shape = f'<rect x="1" y="1" width="22" height="12" rx="3" class="span {state}"/>'
    return Safe(f'<svg class="swatch" viewBox="0 0 24 14" aria-hidden="true">{shape}</svg>')


def chips(day: Day) -> Safe:
    """Chips in use over time, under the same stretch of time as the time line."""
    choice = Safe(
        '<fieldset><legend>Layers by</legend><label><input type="radio" name="by" value="team" checked> team</label>'
        '<label><input type="radio" name="by" value="type"> type of chip</label></fieldset>'
    )
    uses = [*figures.use_by_chip(day), figures.total_use(day)]
    rows = [(use.name, f"{use.used / 3600:,.1f}", f"{use.there / 3600:,.1f}", share(use.share)) for use in uses]
    by_team = [(team, *_team_hours(day, team)) for team in figures.teams(day)]
    return section(
        "chips",
        "Chips in use",
        tag("div", choice, class_="bar"),
        tag("div", class_="plot"),
        tag("div", class_="legend", aria_live="polite"),
        folded(
            "Chip hours as tables",
            tag(
                "div",
                table(("type of chip", "chip hours in use", "chip hours there", "in use"), rows),
                table(("team", "chip hours", "of all that was used"), by_team),
            ),
        ),
    )


def _team_hours(day: Day, team: str) -> tuple[str, str]:
    used = sum(figures.area(each.points, day.lasted) for each in day.usage if each.team == team)
    everything = figures.total_use(day).used
    return f"{used / 3600:,.1f}", share(used / everything if everything else None)


def waiting(day: Day) -> Safe:
    """How long jobs waited: a dot for each, team by team, and the longest waits with their reasons."""
    waits = figures.waits(day)
    longest = max((each for team in waits for each in team.seconds), default=0.0)
    strips = [_strip(each, longest) for each in waits]
    rows = [
        (
            each.team,
            each.jobs,
            lasting(each.quantile(0.5)),
            lasting(each.quantile(0.9)),
            lasting(each.quantile(1)),
            each.still or "–",
        )
        for each in waits
    ]
    worst = [
        (
            job.name,
            job.team or "no team",
            lasting(seconds),
            "still waits" if job.admitted is None else "",
            figures.reason(job) or "–",
        )
        for job, seconds in figures.longest_waits(day)
    ]
    parts: list[object] = [tag("div", *strips, class_="strips")] if longest >= 1 else [tag("p", "No job waited.")]
    parts.append(table(("team", "jobs", "half waited at most", "nine of ten", "longest", "never admitted"), rows))
    if worst:
        parts += [tag("h3", "The longest waits"), table(("job", "team", "waited", "", "why"), worst, words=(0, 1, 3, 4))]
    return section("waiting", "Waiting for admission, by team", tag("div", *parts, class_="wide"))


def _strip(waits: Waits, longest: float) -> Safe:
    """One team: a dot for each job, a line at the median, on one scale for all."""
    if longest < 1:
        return Safe("")
    dots = "".join(f'<circle cx="{1 + seconds / longest * 98:.2f}%" cy="14" r="5"/>' for seconds in waits.seconds)
    middle = waits.quantile(0.5)
    place = f"{1 + (middle or 0) / longest * 98:.2f}%"
    line = f'<line x1="{place}" x2="{place}" y1="2" y2="26"/>' if middle is not None else ""
    usual, most = lasting(middle), lasting(waits.quantile(1))
    label = f"{waits.team}: {counted(waits.jobs, 'job')}, half waited {usual} at most, the longest {most}"
    picture = Safe(f'<svg aria-hidden="true"><line class="axis" x1="0" x2="100%" y1="14" y2="14"/>{dots}{line}</svg>')
    return tag(
        "div", tag("span", waits.team, class_="who"), picture, tag("span", lasting(waits.quantile(1))), role="img", aria_label=label
    )


def cost(day: Day) -> Safe:
    """What chips cost, team by team, by what was had, and pool by pool."""
    bills = figures.bills(day)
    if not bills:
        return section("cost", "Cost", tag("p", "Nothing in this day has a price."))
    kinds = sorted({kind for bill in bills for kind, _ in bill.kinds})
    most = max(bill.usd or 0.0 for bill in bills) or 1.0
    rows = [(bill.team, f"{bill.chip_hours:,.1f}", *(_of_kind(bill, kind) for kind in kinds), usd(bill.usd)) for bill in bills]
    rows.append(("all", f"{sum(bill.chip_hours for bill in bills):,.1f}", *("" for _ in kinds), usd(figures.total_cost(day))))
    unpriced = sum(bill.unpriced for bill in bills)
    note = "List prices. Nobody's chips are those that stood idle."
    note += f" {unpriced:,.1f} chip hours have no list price." if unpriced else ""
    return section(
        "cost",
        "Cost by team",
        tag("div", *(_bar(bill, kinds, most) for bill in bills), class_="bars"),
        tag("div", *(tag("span", _kind_swatch(number), kind) for number, kind in enumerate(kinds)), class_="legend"),
        tag("div", table(("team", "chip hours", *kinds, "in all"), rows), class_="wide"),
        tag("p", note, class_="note"),
        folded("Cost by pool", _pools(day)),
    )


def _pools(day: Day) -> Safe:
    rows = [
        (each.pool, f"{each.chip}, {each.capacity}", each.team or figures.IDLE, f"{each.chip_hours:,.1f}", _price(each.usd))
        for each in sorted(day.costs, key=lambda each: (each.pool, each.team == "", each.team))
    ]
    return table(("pool", "of", "team", "chip hours", "cost"), rows, words=(0, 1, 2))


def _price(amount: float | None) -> str:
    return "no price" if amount is None else usd(amount)


def _of_kind(bill: Bill, kind: str) -> str:
    had = dict(bill.kinds)
    return _price(had[kind]) if kind in had else "–"


def _bar(bill: Bill, kinds: list[str], most: float) -> Safe:
    parts = [_part(kinds.index(kind), kind, amount, most) for kind, amount in bill.kinds if amount]
    told = ", ".join(f"{kind} {_price(amount)}" for kind, amount in bill.kinds)
    label, name = f"{bill.team}: {_price(bill.usd)}, of which {told}", tag("span", bill.team, class_="who")
    return tag("div", name, tag("span", *parts, class_="parts"), tag("b", _price(bill.usd)), role="img", aria_label=label)


def _part(number: int, kind: str, amount: float, most: float) -> Safe:
    style = f"width:{amount / most * 100:.2f}%;background-color:var(--c{number % 5})"
    return tag("i", class_=f"l{number % 5}", style=style, title=f"{kind}: {usd(amount)}")


def _kind_swatch(number: int) -> Safe:
    return tag("i", class_=f"swatch l{number % 5}", style=f"background-color:var(--c{number % 5})")
