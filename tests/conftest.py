"""What holds for all tests: helpers whose assertions pytest explains, no verdict that depends on how busy the machine is, and no
skip where the real programs were asked for."""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import pytest

pytest.register_assert_rewrite("tests.support.goldens", "tests.support.http", "tests.support.watching")
hypothesis.settings.register_profile("sliceworks", deadline=None)
hypothesis.settings.load_profile("sliceworks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A run that asked for the real programs skips nothing: a skip there is a failure."""
    report = yield
    if os.environ.get("SLICEWORKS_REAL") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} was skipped although SLICEWORKS_REAL=1: {report.longrepr}"
    return report
