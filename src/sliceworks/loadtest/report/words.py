"""Figures as people read them."""

from __future__ import annotations

from typing import Any

NAMES = {
    "e2e": "end to end",
    "service": "end to end, from sending",
    "ttft": "first token",
    "ttft service": "first token, from sending",
    "tpot": "per output token",
    "itl": "between pieces",
    "delay": "left later than intended",
}
_COALESCED = 0.01
COLUMNS = ("mean", "p50", "p90", "p99", "p99.9", "max")


def time(seconds: float | None) -> str:
    """Three digits, and the unit that suits."""
    if seconds is None:
        return "–"
    if abs(seconds) >= 100:
        return f"{seconds:,.0f} s"
    if abs(seconds) >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1000:.3g} ms" if abs(seconds) >= 1e-4 else f"{seconds * 1e6:.2g} µs"


def verdict(run: dict[str, Any]) -> str:
    """One line: does it count, and was it good enough."""
    if not run["valid"]:
        return "INVALID: " + "; ".join(run["problems"])
    missed = [each["text"] for each in run["objectives"] if not each["kept"]]
    if missed:
        return "missed: " + ", ".join(missed)
    return "all objectives kept" if run["objectives"] else "valid"


def rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row of times for each measure, with how far each may be off."""
    return [(NAMES.get(name, name), *(_cell(each, column) for column in COLUMNS)) for name, each in summary["times"].items()]


def _cell(times: dict[str, Any], column: str) -> str:
    found, bounds = times.get(column), times["within"].get(column)
    return time(found) + (f" ±{(bounds[1] - found) / found:.1%}" if bounds and found else "")


def facts(run: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures that are no times."""
    summary = run["summary"]
    delivery = summary["delivery"]
    found = [
        ("requests", f"{summary['requests']:,} in {summary['seconds']:.0f} s, {summary['succeeded']:,} succeeded"),
        ("delivered", f"{delivery['share']:.2%} of {delivery['rateAsked']:,.1f} requests/s asked for"),
        ("throughput", f"{summary['requestsPerSecond']:,.1f} requests/s, {summary['tokensOutPerSecond']:,.0f} tokens/s out"),
        ("errors", f"{summary['errorRate']:.2%}" + "".join(f", {many:,} × {kind}" for kind, many in summary["failures"].items())),
    ]
    if counted := tokens(run.get("tokens") or {}):
        found.append(("tokens", counted))
    if summary["coalesced"] >= _COALESCED:
        share = f"{summary['coalesced']:.0%} of pieces came with the one before"
        found.append(("together", f"{share}: times between pieces say how they were sent, not how they were made"))
    if any(stage.get("users") for stage in run["spec"]["stages"]):
        found.append(("users", "wait for their answers: what a stall kept them from sending is in none of these times"))
    if clocks := run.get("clocks"):
        drift = f", and drifted by up to {time(clocks['drift'])}" if clocks["drift"] else ""
        known = f"set by one to within {time(clocks['uncertain'])}; their own were up to {time(clocks['apart'])} apart"
        whose = f"of {clocks['senders']} senders" if clocks["senders"] > 1 else "of one sender"
        found.append(("clocks", f"{whose}, {known}{drift}"))
    if run["objectives"]:
        found.insert(3, ("goodput", f"{summary['goodput']:,.1f} requests/s within all objectives"))
    return found


def tokens(who: dict[str, int]) -> str:
    """Who counted them; nothing where there were no answers, or where a run does not say."""
    known = [
        f"{many:,} answers {how}"
        for key, how in (("server", "as the server reports"), ("tokenizer", "counted with the tokenizer"))
        if (many := who.get(key, 0))
    ]
    if nobody := who.get("nobody", 0):
        known.append(f"{nobody:,} answers in chunks, not tokens: the server reports none")
    return "; ".join(known)


def objective(each: dict[str, Any]) -> str:
    """An objective and what was found."""
    if each["why"]:
        return f"MISSED: {each['text']} ({each['why']})"
    return f"{'kept' if each['kept'] else 'MISSED'}: {each['text']} (found {found(each)})"


def found(each: dict[str, Any]) -> str:
    """What was found of an objective; why nothing was."""
    value = each["found"]
    return each["why"] or (f"{value:.2%}" if value is not None and each["text"].startswith("errors") else time(value))
