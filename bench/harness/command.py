"""The command line of a benchmark script: sizes, repetition at ten times the size, output, and stored results."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from bench.harness import record
from bench.harness.metric import as_json, as_table, growth

from sliceworks.base import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bench.harness.metric import Metric

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Profiles(Generic[S]):
    """The sizes of one benchmark. `--large` compares `large` with `normal`, which is a tenth of it (default: the full size)."""

    full: S
    quick: S
    tiny: S
    large: S
    normal: S | None = None


@dataclass(frozen=True, slots=True)
class Script(Generic[S]):
    """One benchmark script: `measure` runs the named benchmarks at a size and returns their metrics."""

    name: str
    description: str
    profiles: Profiles[S]
    measure: Callable[[S, argparse.Namespace], list[Metric]]
    columns: tuple[str, str] = ("limit", "measured")
    """Headings of the baseline and of our values."""
    benchmarks: Iterable[str] = ()
    """Names of benchmarks that can be run alone."""
    peers: str = ""
    """The flag that leaves out the peers."""
    files: Mapping[str, str] | None = None
    """Further options that take a file, with their help."""

    def main(self) -> None:
        """Run it: progress on stderr, then a table and one line of JSON on stdout."""
        options = self._parse()
        metrics = self._compare_sizes(options) if options.large else self.measure(self._size(options), options)
        columns = ("limit", "measured") if options.large else self.columns
        if not options.json_only:
            print(as_table(metrics, columns), end="")
        if self._is_complete(options):
            self._store(metrics, columns, options)
        print(as_json(metrics))

    def _parse(self) -> argparse.Namespace:
        names = tuple(self.benchmarks)
        parser = argparse.ArgumentParser(description=self.description)
        if names:
            parser.add_argument("benchmarks", nargs="*", metavar="NAME", help=f"one of {', '.join(names)} (default: all)")
        size = parser.add_mutually_exclusive_group()
        size.add_argument("--quick", action="store_true", help="small sizes: under a minute")
        size.add_argument("--tiny", action="store_true", help="a smoke test: the figures mean nothing")
        size.add_argument("--large", action="store_true", help="compare the cost per unit at ten times the size; leaves out peers")
        parser.add_argument("--json-only", action="store_true", help="print only the JSON line")
        if self.peers:
            parser.add_argument(self.peers, action="store_true", dest="no_peers", help="leave out the peers")
        for flag, text in (self.files or {}).items():
            parser.add_argument(flag, type=Path, metavar="FILE", help=text)
        options = parser.parse_args()
        for name in options.benchmarks if names else ():
            if name not in names:
                parser.error(f"unknown benchmark {name!r} (known: {', '.join(names)})")
        options.subset = bool(names and options.benchmarks)
        options.benchmarks = list(options.benchmarks or names) if names else []
        options.no_peers = options.large or getattr(options, "no_peers", False)
        progress.set_quiet(options.json_only)
        return options

    def _size(self, options: argparse.Namespace) -> S:
        sizes = self.profiles
        return sizes.tiny if options.tiny else sizes.quick if options.quick else sizes.full

    def _compare_sizes(self, options: argparse.Namespace) -> list[Metric]:
        sizes = self.profiles
        progress.say("normal size")
        normal = self.measure(sizes.full if sizes.normal is None else sizes.normal, options)
        progress.say("ten times the size")
        return growth(normal, self.measure(sizes.large, options))

    def _is_complete(self, options: argparse.Namespace) -> bool:
        """Only complete runs are stored: all benchmarks, at full or large size, with all peers."""
        return not (options.quick or options.tiny or options.subset or (options.no_peers and not options.large))

    def _store(self, metrics: list[Metric], columns: tuple[str, str], options: argparse.Namespace) -> None:
        """Store the results. A full run is followed by a quick one, which `make bench-check` compares with later quick runs."""
        runs = {"large" if options.large else "full": metrics}
        if not options.large:
            progress.say("quick size, for later comparison")
            runs["quick"] = self.measure(self.profiles.quick, options)
        path = record.write(self.name, runs, columns)
        progress.say(f"stored in {path}")
