"""What every script of benchmarks does alike: it reads its command line, chooses its sizes, and prints what it found."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.measure.results import as_json, report

from sliceworks.base import progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.measure.results import Measure

Sizes = TypeVar("Sizes")


def arguments(
    description: str,
    benchmarks: Iterable[str] = (),
    flags: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> argparse.Namespace:
    """The command line: which benchmarks where there are several, how large, how much is said, and what a script has of its own."""
    names = tuple(benchmarks)
    parser = argparse.ArgumentParser(description=description)
    if names:
        parser.add_argument("benchmarks", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all unless some are named")
    parser.add_argument("--quick", action="store_true", help="less of everything: a minute or a few")
    parser.add_argument("--tiny", action="store_true", help="next to nothing: shows that it runs, measures nothing")
    parser.add_argument("--json-only", action="store_true", help="print the last line alone, and no progress")
    for flag, words in (flags or {}).items():
        parser.add_argument(flag, action="store_true", help=words)
    for flag, words in (files or {}).items():
        parser.add_argument(flag, type=Path, metavar="FILE", help=words)
    found = parser.parse_args()
    for name in found.benchmarks if names else ():
        if name not in names:
            parser.error(f"no such benchmark: {name}; there are {', '.join(names)}")
    if names:
        found.benchmarks = found.benchmarks or list(names)
    progress.set_quiet(found.json_only)
    return found


def chosen(given: argparse.Namespace, full: Sizes, quick: Sizes, tiny: Sizes) -> Sizes:
    """The sizes that the command line asks for."""
    return tiny if given.tiny else quick if given.quick else full


def tell(found: list[Measure], given: argparse.Namespace, sides: tuple[str, str] = ("real", "twin")) -> None:
    """A table for people, then one line for programs."""
    if not given.json_only:
        print(report(found, sides), end="")
    print(as_json(found))
