"""What holds for all tests: helpers whose assertions pytest explains, no verdict that depends on how busy the machine is, and no
skip where the real programs were asked for."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from tests.support.xdist_scheduler import Spread, by_length

if TYPE_CHECKING:
    from pathlib import Path

_GC_THRESHOLD = (20_000, 10, 10)
"""Python's own is 700: a third of the time of tests with a twin in their process would be garbage collection."""

pytest.register_assert_rewrite("tests.support.goldens", "tests.support.http", "tests.support.watch_stream")
# The same examples in every run, so that a change never fails by chance; `make test-heavy` tries others.
hypothesis.settings.register_profile("sliceworks", deadline=None, derandomize="SLICEWORKS_FUZZ" not in os.environ)
hypothesis.settings.load_profile("sliceworks")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What takes long to build or install is tested by `make test-heavy` alone. A run of the real programs reads only files that
    have such cases: the contract's, and those that say so."""
    if collection_path.name == "heavy" and collection_path.is_dir():
        return os.environ.get("SLICEWORKS_HEAVY") != "1" or None
    if config.getoption("markexpr") != "real" or collection_path.suffix != ".py" or "contract" in collection_path.parts:
        return None
    return b"mark.real" not in collection_path.read_bytes() or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Nothing that is collected is garbage: looking for some would take a fifth of the time, now and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLD)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first."""
    by_length(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files go to workers as `tests.support.xdist_scheduler` says."""
    if config.getvalue("dist") != "loadfile":
        return None
    return Spread(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A run that asked for the real programs skips nothing: a skip there is a failure."""
    report = yield
    if os.environ.get("SLICEWORKS_REAL") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} was skipped although SLICEWORKS_REAL=1: {report.longrepr}"
    return report
