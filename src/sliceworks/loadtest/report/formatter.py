"""Formats results for people: durations, latencies, objectives and the verdict. Imports nothing heavy."""

from __future__ import annotations

from typing import Any

METRIC_NAMES = {
    "e2e": "end to end",
    "service": "end to end, from sending",
    "ttft": "first token",
    "ttft service": "first token, from sending",
    "tpot": "per output token",
    "itl": "between chunks",
    "delay": "sent later than scheduled",
}
_COALESCED = 0.01
COLUMNS = ("mean", "p50", "p90", "p99", "p99.9", "max")


def format_seconds(seconds: float | None) -> str:
    """Three significant digits with a suitable unit."""
    if seconds is None:
        return "–"
    if abs(seconds) >= 100:
        return f"{seconds:,.0f} s"
    if abs(seconds) >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1000:.3g} ms" if abs(seconds) >= 1e-4 else f"{seconds * 1e6:.2g} µs"


def verdict(run: dict[str, Any]) -> str:
    """One line: whether the run is valid and met its objectives."""
    if not run["valid"]:
        return "INVALID: " + "; ".join(run["problems"])
    missed = [objective["text"] for objective in run["objectives"] if not objective["met"]]
    if missed:
        return "missed: " + ", ".join(missed)
    return "all objectives met" if run["objectives"] else "valid"


def latency_rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row per latency metric, with confidence intervals."""
    return [
        (METRIC_NAMES.get(name, name), *(_cell(latency, column) for column in COLUMNS))
        for name, latency in summary["latencies"].items()
    ]


def _cell(times: dict[str, Any], column: str) -> str:
    value, bounds = times.get(column), times["confidence"].get(column)
    return format_seconds(value) + (f" ±{(bounds[1] - value) / value:.1%}" if bounds and value else "")


def facts(run: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures other than latencies."""
    summary = run["summary"]
    delivery = summary["delivery"]
    throughput = f"{summary['requestsPerSecond']:,.1f} requests/s"
    if summary["tokensOutPerSecond"] or not (run.get("tokens") or {}).get("unknown"):
        throughput += f", {summary['tokensOutPerSecond']:,.0f} tokens/s out"
    result = [
        ("requests", f"{summary['requests']:,} in {summary['seconds']:.0f} s, {summary['succeeded']:,} succeeded"),
        ("delivered", f"{delivery['share']:.2%} of {delivery['scheduledRate']:,.1f} requests/s scheduled"),
        ("throughput", throughput),
        ("errors", f"{summary['errorRate']:.2%}" + "".join(f", {count:,} × {kind}" for kind, count in summary["failures"].items())),
    ]
    if counted := format_token_sources(run.get("tokens") or {}):
        result.append(("tokens", counted))
    if summary["coalesced"] >= _COALESCED:
        share = f"{summary['coalesced']:.0%} of chunks arrived together with the previous one"
        result.append(("coalesced", f"{share}: times between chunks show how they were sent, not how they were generated"))
    if any(stage.get("users") for stage in run["spec"]["stages"]):
        result.append(("users", "wait for their responses: requests that a stall delayed are not counted as late"))
    if clocks := run.get("clocks"):
        drift = f", and drifted by up to {format_seconds(clocks['drift'])}" if clocks["drift"] else ""
        uncertain, apart = format_seconds(clocks["uncertain"]), format_seconds(clocks["apart"])
        known = f"synchronized to within {uncertain}; offsets up to {apart}"
        whose = f"of {clocks['senders']} senders" if clocks["senders"] > 1 else "of one sender"
        result.append(("clocks", f"{whose}, {known}{drift}"))
    if run["objectives"]:
        result.insert(3, ("goodput", f"{summary['goodput']:,.1f} requests/s within all objectives"))
    return result


def format_token_sources(sources: dict[str, int]) -> str:
    """How output tokens were counted; empty if the run does not say."""
    known = [
        f"{count:,} responses {how}"
        for key, how in (("server", "as reported by the server"), ("tokenizer", "counted with the tokenizer"))
        if (count := sources.get(key, 0))
    ]
    if unknown := sources.get("unknown", 0):
        known.append(f"{unknown:,} responses in chunks, because the server reports no token counts")
    return "; ".join(known)


def format_objective(objective: dict[str, Any]) -> str:
    """An objective and its measured value."""
    if objective["reason"]:
        return f"MISSED: {objective['text']} ({objective['reason']})"
    return f"{'met' if objective['met'] else 'MISSED'}: {objective['text']} (found {format_value(objective)})"


def format_value(objective: dict[str, Any]) -> str:
    """The measured value of an objective, or why there is none."""
    value = objective["value"]
    return objective["reason"] or (
        f"{value:.2%}" if value is not None and objective["text"].startswith("errors") else format_seconds(value)
    )
