"""Runs all benchmark scripts, or compares quick runs with the stored results.

python -m bench [NAME …]            full runs; complete ones are stored in bench/results/
python -m bench --large [NAME …]    cost per unit at ten times the size; stored too
python -m bench --check [NAME …]    quick runs; fails if a ratio is more than 20 % lower than the stored one
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from bench.harness import record
from bench.harness.record import Comparison, compare

from sliceworks.base import progress, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FOLDER = Path(__file__).parent
Ratios = dict[str, float | None]


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benchmarks, or check quick runs for regressions.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(record.scripts())} (default: all)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="run with --quick and compare with the stored results")
    mode.add_argument("--large", action="store_true", help="compare the cost per unit at ten times the size")
    options = parser.parse_args()
    for name in options.names:
        if name not in record.scripts():
            parser.error(f"unknown benchmark {name!r} (known: {', '.join(record.scripts())})")
    names = options.names or record.scripts()
    if options.check:
        return check(names, run_quick)
    flags = ["--large"] if options.large else []
    failed = [name for name in names if _run(name, *flags).returncode]
    if failed:
        print(f"benchmarks failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _run(name: str, *flags: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / f"{name}.py"), *flags]
    return subprocess.run(command, stdout=subprocess.PIPE if capture else None, text=True, check=False)


def run_quick(name: str) -> Ratios | None:
    """The ratios of a quick run; None if the script fails."""
    progress.say(f"bench/{name}.py --quick")
    done = _run(name, "--quick", "--json-only", capture=True)
    if done.returncode:
        return None
    return {metric: result["ratio"] for metric, result in orjson.loads(done.stdout.splitlines()[-1]).items()}


def check(names: Iterable[str], run: Callable[[str], Ratios | None], folder: Path = record.FOLDER) -> int:
    """Compare quick runs with stored ones and print a table; returns 1 after a regression or a failed script.

    The baseline is the quick run that was stored with the last full run, or else the full run. A script with a regression runs a
    second time, and the better ratio counts, so that a short disturbance of the machine is not a regression.
    """
    rows, problems = [], []
    for name in names:
        runs = record.read(name, folder)
        baseline = runs.get("quick") or runs.get("full")
        if baseline is None:
            rows.append((name, "-", "-", "-", "no stored results"))
            continue
        ratios = run(name)
        if ratios is None:
            problems.append(f"bench/{name}.py failed")
            continue
        comparisons = compare(baseline.ratios, ratios)
        if _regressions(comparisons) and (again := run(name)) is not None:
            comparisons = compare(baseline.ratios, _better(ratios, again))
        rows += [(f"{name}.{item.name}", _text(item.stored), _text(item.now), _change(item), item.result) for item in comparisons]
        problems += [f"{name}.{item} regressed" for item in _regressions(comparisons)]
    print(tables.render(("metric", "stored ratio", "ratio", "change", "result"), rows), end="")
    print(f"Failed: {', '.join(problems)}." if problems else "No regressions.")
    return int(bool(problems))


def _regressions(comparisons: list[Comparison]) -> list[str]:
    return [item.name for item in comparisons if item.result == "REGRESSION"]


def _better(first: Ratios, second: Ratios) -> Ratios:
    pairs = {name: [ratio for ratio in (first.get(name), second.get(name)) if ratio is not None] for name in {**first, **second}}
    return {name: max(ratios, default=None) for name, ratios in pairs.items()}


def _text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _change(item: Comparison) -> str:
    return f"{item.now / item.stored - 1:+.0%}" if item.now is not None and item.stored else "-"


if __name__ == "__main__":
    sys.exit(main())
