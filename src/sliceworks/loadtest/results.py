"""Results of a run (`run.json`): summary, validity and objectives; and SQL over all runs of a folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import orjson

from sliceworks.base import files
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.loadtest.request_table import CHUNKS_FILE, REQUESTS_FILE, quote_sql
from sliceworks.loadtest.run_statistics import Window, summarize
from sliceworks.specs.objectives import parse_objective

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.loadtest.load_plan import Plan
    from sliceworks.loadtest.run_statistics import Summary
    from sliceworks.loadtest.runner import Outcome
    from sliceworks.specs.objectives import Objective

RUN_FILE = "run.json"
FORMAT_VERSION = 3
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectiveResult:
    """An objective, its measured value (None if nothing was measured) and whether it was met."""

    text: str
    value: float | None
    met: bool
    reason: str = ""


def find_problems(summary: Summary, plan: Plan, outcome: Outcome) -> list[str]:
    """Why the run is invalid; empty if it is valid."""
    problems, spec = [], plan.spec
    if outcome.stopped:
        problems.append(f"ended early: {outcome.stopped}")
    if outcome.lost_workers:
        lost, numbers = len(outcome.lost_workers), ", ".join(map(str, outcome.lost_workers))
        problems.append(f"{lost} of {spec.workers.count} workers did not finish: number {numbers}")
    problems += outcome.notes
    delivery = summary.delivery
    if delivery.share < spec.delivery.share:
        problems.append(
            f"only {delivery.share:.1%} of the {delivery.scheduled:,} scheduled requests were sent; "
            f"at least {spec.delivery.share:.0%} are required"
        )
    if delivery.delay is not None and delivery.delay.percentiles[99.0] > spec.delivery.delay:
        problems.append(
            f"requests were sent {delivery.delay.percentiles[99.0] * 1000:.0f} ms late (p99), "
            f"at most {spec.delivery.delay * 1000:.0f} ms are allowed: use more workers or a lower rate"
        )
    if not summary.requests:
        problems.append("no request was measured")
    return problems


def evaluate_objective(objective: Objective, summary: Summary) -> ObjectiveResult:
    """Whether an objective was met. Unmeasured counts as missed; a failed request has infinite latency."""
    if objective.measure == "errors":
        return ObjectiveResult(
            objective.text, summary.error_rate, summary.requests > 0 and summary.error_rate < max(objective.limit, 1e-12)
        )
    latency = summary.latencies.get(objective.measure)
    if latency is None:
        return ObjectiveResult(objective.text, None, False)
    value = summary.with_failures.get(objective.text, latency.at(objective.quantile))
    if value == float("inf"):
        return ObjectiveResult(objective.text, None, False, f"{summary.error_rate:.2%} of all requests failed")
    return ObjectiveResult(objective.text, value, value < objective.limit)


def write_results(
    name: str, plan: Plan, outcome: Outcome, folder: Path, tags: dict[str, str], *, tokens: dict[str, int] | None = None
) -> Data:
    """Compute the results and write them."""
    spec, schedule = plan.spec, plan.schedule
    objectives = tuple(map(parse_objective, spec.slo))
    due_times = schedule.due_times / 1e9
    counted = [phase for phase in schedule.phases if phase.ends > spec.warm_up]
    steady = len(counted) == 1 and counted[0].steady
    summary = summarize(folder, Window(spec.warm_up, schedule.duration, due_times, steady), objectives)
    parts = []
    for phase in counted:
        window = Window(max(phase.begins, spec.warm_up), phase.ends, due_times, phase.steady)
        parts.append({"name": phase.name, **_data(summarize(folder, window, objectives) if len(counted) > 1 else summary)})
    objective_results = [evaluate_objective(objective, summary) for objective in objectives]
    problems = find_problems(summary, plan, outcome)
    result = {
        "format": FORMAT_VERSION,
        "name": name,
        "started": outcome.started,
        "clocks": asdict(outcome.clocks) if outcome.clocks.senders else {},
        "tags": {**spec.tags, **tags},
        "stopped": outcome.stopped,
        "valid": not problems,
        "problems": problems,
        "objectives": [asdict(item) for item in objective_results],
        "met": all(result.met for result in objective_results),
        "summary": _data(summary),
        "phases": parts,
        "tokens": tokens or {},
        "spec": spec.model_dump(by_alias=True, exclude_defaults=True),
        "url": plan.url,
    }
    files.write_atomic(folder / RUN_FILE, orjson.dumps(result, option=orjson.OPT_INDENT_2))
    return result


def _data(summary: Summary) -> Data:
    """The summary as JSON, with named percentiles and rates."""
    latencies = {
        name: {
            "count": distribution.count,
            "mean": distribution.mean,
            "min": distribution.min,
            "max": distribution.max,
            **{f"p{at:g}": value for at, value in distribution.percentiles.items()},
            "confidence": {f"p{at:g}": bounds for at, bounds in distribution.confidence.items()},
        }
        for name, distribution in summary.latencies.items()
    }
    delivery = summary.delivery
    return {
        "seconds": summary.seconds,
        "requests": summary.requests,
        "succeeded": summary.succeeded,
        "errorRate": summary.error_rate,
        "failures": summary.failures,
        "requestsPerSecond": summary.per_second(summary.completed),
        "goodput": summary.per_second(summary.good),
        "tokensIn": summary.tokens_in,
        "tokensOut": summary.tokens_out,
        "tokensOutPerSecond": summary.per_second(summary.tokens_received),
        "bytesIn": summary.bytes_in,
        "coalesced": summary.coalesced,
        "delivery": {
            "scheduled": delivery.scheduled,
            "sent": delivery.sent,
            "share": delivery.share,
            "scheduledRate": delivery.scheduled_rate,
            "sentRate": delivery.sent_rate,
        },
        "latencies": latencies,
    }


def load(folder: Path) -> Data:
    """Read the results of a run."""
    try:
        result = orjson.loads((folder / RUN_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidDocument(f"no run found in {folder}", hint="see `sliceworks load list`") from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise InvalidDocument(f"the run cannot be read: {error}", place=str(folder / RUN_FILE)) from error
    return check_format(result, folder / RUN_FILE)


def check_format(document: Any, file: Path) -> Data:
    """The document; raises InvalidDocument if another version of Sliceworks wrote it."""
    version = document.get("format") if isinstance(document, dict) else None
    if version != FORMAT_VERSION:
        raise InvalidDocument(
            f"format: expected {FORMAT_VERSION}, got {version}: the run was written by another version",
            place=str(file),
            hint="move its folder elsewhere and run the test again",
        )
    result: Data = document
    return result


def run_query(folder: Path, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of a query over all runs, read-only and without other file access."""
    runs = sorted(item.parent.resolve() for item in folder.glob(f"*/{RUN_FILE}"))
    if not runs:
        raise SliceworksError(f"no runs found in {folder}", hint="create one with `sliceworks load run -f test.yaml`")
    for run in runs:
        load(run)
    with duckdb.connect() as connection:
        for table, file in (("requests", REQUESTS_FILE), ("chunks", CHUNKS_FILE)):
            _load(connection, table, [run_path / file for run_path in runs])
        _load_runs(connection, [run / RUN_FILE for run in runs])
        # From here on, the query can read only these files. Rows are read on demand: large runs need not fit into memory.
        readable = ", ".join(quote_sql(run_path / file) for run_path in runs for file in (REQUESTS_FILE, CHUNKS_FILE))
        connection.execute(f"SET allowed_paths = [{readable}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            # Other statements could write to readable files.
            if any(statement.type is not duckdb.StatementType.SELECT for statement in connection.extract_statements(query)):
                raise SliceworksError("only queries are allowed", hint="begin with SELECT, FROM, WITH or DESCRIBE")
            result = connection.execute(query)
            return [column[0] for column in result.description or ()], result.fetchall()
        except duckdb.Error as error:
            raise SliceworksError(f"query failed: {error}") from error


def _load(connection: duckdb.DuckDBPyConnection, table: str, files: list[Path]) -> None:
    parts = (f"SELECT {quote_sql(file.parent.name)} AS run, * FROM read_parquet({quote_sql(file)})" for file in files)
    connection.execute(f"CREATE VIEW {table} AS {' UNION ALL BY NAME '.join(parts)}")


def _load_runs(connection: duckdb.DuckDBPyConnection, files: list[Path]) -> None:
    connection.execute(
        "CREATE TABLE runs (run VARCHAR, name VARCHAR, started DOUBLE, valid BOOLEAN, met BOOLEAN, tags JSON, summary JSON)"
    )
    for file in files:
        fields = "name, started, valid, met, to_json(tags), to_json(summary)"
        connection.execute(
            f"INSERT INTO runs SELECT {quote_sql(file.parent.name)}, {fields} FROM read_json_auto({quote_sql(file)})"
        )
