"""What a run comes to: its figures as a whole and phase by phase, whether they count, and whether its objectives were kept.

A folder holds one run: `run.json` with all of this, `requests.parquet` and `pieces.parquet` with the raw rows behind it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import files
from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest.statistics import Window, summarise
from sliceworks.specs.objectives import parse

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.running import Outcome
    from sliceworks.loadtest.statistics import Summary
    from sliceworks.specs.objectives import Objective

RUN = "run.json"
FORMAT = 2
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """An objective, what was found, and whether it was kept. None: nothing was measured."""

    text: str
    found: float | None
    kept: bool
    why: str = ""


def judge(summary: Summary, plan: Plan, outcome: Outcome) -> list[str]:
    """Why the figures do not count; nothing when they do."""
    found, spec = [], plan.spec
    if outcome.stopped:
        found.append(f"ended early: {outcome.stopped}")
    if outcome.lost_workers:
        many, numbers = len(outcome.lost_workers), ", ".join(map(str, outcome.lost_workers))
        whose = "its" if many == 1 else "their"
        found.append(f"{many} of {spec.workers.count} senders did not come to {whose} end: number {numbers}")
    found += outcome.notes
    delivery = summary.delivery
    if delivery.share < spec.delivery.share:
        found.append(
            f"only {delivery.share:.1%} of the {delivery.asked:,} requests that were to be sent were sent; "
            f"{spec.delivery.share:.0%} would count"
        )
    if delivery.delay is not None and delivery.delay.percentiles[99.0] > spec.delivery.delay:
        found.append(
            f"requests left {delivery.delay.percentiles[99.0] * 1000:.0f} ms later than they should (p99); "
            f"up to {spec.delivery.delay * 1000:.0f} ms would count: more workers, or a lower rate"
        )
    if not summary.requests:
        found.append("no request was measured")
    return found


def keeps(objective: Objective, summary: Summary) -> Kept:
    """Whether an objective was kept. What was not measured was not kept; a request that failed took for ever."""
    if objective.measure == "errors":
        return Kept(objective.text, summary.error_rate, summary.requests > 0 and summary.error_rate < max(objective.limit, 1e-12))
    spread = summary.spreads.get(objective.measure)
    if spread is None:
        return Kept(objective.text, None, False)
    found = summary.of_all.get(objective.text, spread.at(objective.quantile))
    if found == float("inf"):
        return Kept(objective.text, None, False, f"{summary.error_rate:.2%} of all requests were never answered well")
    return Kept(objective.text, found, found < objective.limit)


def conclude(
    name: str, plan: Plan, outcome: Outcome, folder: Path, tags: dict[str, str], *, tokens: dict[str, int] | None = None
) -> Data:
    """Work out everything, and write it down."""
    spec, schedule = plan.spec, plan.schedule
    objectives = tuple(map(parse, spec.slo))
    moments = schedule.moments / 1e9
    counted = [phase for phase in schedule.phases if phase.ends > spec.warm_up]
    steady = len(counted) == 1 and counted[0].steady
    whole = summarise(folder, Window(spec.warm_up, schedule.lasts, moments, steady), objectives)
    parts = []
    for phase in counted:
        window = Window(max(phase.begins, spec.warm_up), phase.ends, moments, phase.steady)
        parts.append({"name": phase.name, **_data(summarise(folder, window, objectives) if len(counted) > 1 else whole)})
    kept = [keeps(each, whole) for each in objectives]
    problems = judge(whole, plan, outcome)
    found = {
        "format": FORMAT,
        "name": name,
        "began": outcome.began,
        "clocks": asdict(outcome.clocks) if outcome.clocks.senders else {},
        "tags": {**spec.tags, **tags},
        "stopped": outcome.stopped,
        "valid": not problems,
        "problems": problems,
        "objectives": [asdict(each) for each in kept],
        "kept": all(each.kept for each in kept),
        "summary": _data(whole),
        "phases": parts,
        "tokens": tokens or {},
        "spec": spec.model_dump(by_alias=True, exclude_defaults=True),
        "url": plan.url,
    }
    files.put(folder / RUN, orjson.dumps(found, option=orjson.OPT_INDENT_2))
    return found


def _data(summary: Summary) -> Data:
    """For JSON: percentiles have names, and rates are worked out."""
    spreads = {
        name: {
            "count": each.count,
            "mean": each.mean,
            "min": each.least,
            "max": each.most,
            **{f"p{at:g}": value for at, value in each.percentiles.items()},
            "within": {f"p{at:g}": bounds for at, bounds in each.within.items()},
        }
        for name, each in summary.spreads.items()
    }
    delivery = summary.delivery
    return {
        "seconds": summary.seconds,
        "requests": summary.requests,
        "succeeded": summary.succeeded,
        "errorRate": summary.error_rate,
        "failures": summary.failures,
        "requestsPerSecond": summary.per_second(summary.answered),
        "goodput": summary.per_second(summary.good),
        "tokensIn": summary.tokens_in,
        "tokensOut": summary.tokens_out,
        "tokensOutPerSecond": summary.per_second(summary.tokens_meanwhile),
        "bytesIn": summary.bytes_in,
        "coalesced": summary.coalesced,
        "delivery": {
            "asked": delivery.asked,
            "sent": delivery.sent,
            "share": delivery.share,
            "rateAsked": delivery.rate_asked,
            "rateSent": delivery.rate_sent,
        },
        "times": spreads,
    }


def load(folder: Path) -> Data:
    """A run that was written down."""
    try:
        found = orjson.loads((folder / RUN).read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidDocument(f"there is no run in {folder}", hint="sliceworks load list shows what there is") from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise InvalidDocument(f"the run cannot be read: {error}", place=str(folder / RUN)) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidDocument("the run was written by another version", place=str(folder / RUN))
    return found
