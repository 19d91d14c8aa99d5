"""Page logic without a browser: refresh timing, the jobs table, log streams, and registered pages."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.test_views import NOW, TEAMS, rows, visible_text

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, NotFound, Unreachable
from sliceworks.console.kinds import PODS
from sliceworks.console.page import RefreshThrottle, register_page, registered_pages
from sliceworks.console.pages import job_logs, jobs
from sliceworks.console.views.job_view import JobQuery, query_jobs
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from sliceworks.console.cluster_cache import Changes

CHANGE = {PODS: {Key("a", "b")}}


class Scripted:
    """A feed that returns each of its changes once."""

    def __init__(self) -> None:
        self.changes: Changes = {}

    def take(self) -> Changes:
        taken, self.changes = self.changes, {}
        return taken


def test_page_is_drawn_after_changes_and_periodically() -> None:
    async def main() -> None:
        feed = Scripted()
        drawn: list[Changes] = []
        pace = RefreshThrottle(feed, drawn.append, ages=5.0)  # type: ignore[arg-type]
        pace.draw({})
        pace.poll()
        assert drawn == [{}]
        feed.changes = CHANGE
        pace.poll()
        assert drawn == [{}, CHANGE]
        await clock.sleep(5)
        pace.poll()
        assert drawn == [{}, CHANGE, {}]

    clock.run(main(), virtual=True)


def test_slow_page_is_drawn_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes a tenth of a second: the next one is 0.8 seconds later, and no change is lost."""

    async def main() -> None:
        effort = iter(range(100))
        monkeypatch.setattr(clock, "perf_counter", lambda: next(effort) * 0.1)
        feed = Scripted()
        drawn: list[Changes] = []
        pace = RefreshThrottle(feed, drawn.append, ages=60.0)  # type: ignore[arg-type]
        pace.draw({})
        feed.changes = CHANGE
        await clock.sleep(0.7)
        pace.poll()
        assert drawn == [{}]
        await clock.sleep(0.2)
        pace.poll()
        assert drawn == [{}, CHANGE]

    clock.run(main(), virtual=True)


def test_page_age_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        effort = iter(range(100))
        monkeypatch.setattr(clock, "perf_counter", lambda: next(effort) * 60.0)
        feed = Scripted()
        drawn: list[Changes] = []
        pace = RefreshThrottle(feed, drawn.append, ages=60.0)  # type: ignore[arg-type]
        pace.draw({})
        feed.changes = CHANGE
        await clock.sleep(2.1)
        pace.poll()
        assert drawn == [{}, CHANGE]

    clock.run(main(), virtual=True)


def find(node: Any, **wanted: str) -> Iterator[Any]:
    """Elements with these attributes."""
    if isinstance(node, list):
        if (
            len(node) > 1
            and isinstance(node[1], dict)
            and all(node[1].get(name.replace("_", "-")) == value for name, value in wanted.items())
        ):
            yield node
        for child in node:
            yield from find(child, **wanted)


def test_jobs_table_has_rows_and_sort_buttons() -> None:
    page = query_jobs(rows(60), TEAMS, JobQuery(sort="chips", descending=True))
    created = jobs.jobs_table(page, NOW)
    assert len([item for item in find(created) if item[0] == "tr"]) == 51
    assert [visible_text(item) for item in find(created, aria_sort="descending")] == ["Chips ↓"]
    assert len(list(find(created, data_act="sort:team"))) == 1
    assert "1–50 of 60" in visible_text(created)
    assert next(find(created, data_act="page:-1"))[1]["disabled"] == ""
    assert "disabled" not in next(find(created, data_act="page:1"))[1]


@pytest.mark.parametrize(("ready", "ran", "cost"), [(0, "–", "–"), (1, "60m", "$9.00")])
def test_job_whose_slices_do_not_exist_yet_has_no_cost(ready: int, ran: str, cost: str) -> None:
    started = clock.rfc3339(NOW - timedelta(hours=1))
    row = replace(rows(1)[0], state="starting", slices=2, ready=ready, started=started, ended="", usd=9.0)
    created = jobs.jobs_table(query_jobs([row], TEAMS, JobQuery()), NOW)
    cells = [visible_text(next(find(created, data_label=label))) for label in ("Ran", "USD/h")]
    assert cells == [ran, cost]


def test_no_jobs_differs_from_no_matching_jobs() -> None:
    nothing, missing = query_jobs([], TEAMS, JobQuery()), query_jobs(rows(3), TEAMS, JobQuery("nowhere"))
    assert "sliceworks train submit" in visible_text(jobs.jobs_table(nothing, NOW))
    assert "JobSet is not installed." in visible_text(jobs.jobs_table(nothing, NOW, "JobSet is not installed."))
    assert "No matching jobs." in visible_text(jobs.jobs_table(missing, NOW))


def test_selected_filter_is_shown_without_matches() -> None:
    created = jobs.filter_bar(query_jobs(rows(3), TEAMS, JobQuery(team="gone", state="restarting")))
    assert [item[1]["value"] for item in find(created) if item[0] == "select"] == ["restarting", "gone"]
    assert "gone (0)" in visible_text(created)
    assert "0 of 3 jobs" in visible_text(created)


@pytest.mark.parametrize("query", [JobQuery(), JobQuery("a b", "red", "failed", "age", True, 3), JobQuery(sort="cost")])
def test_url_holds_the_query(query: JobQuery) -> None:
    assert JobQuery.read(query.to_params()) == query


@pytest.mark.parametrize("requests", [{"page": "-3"}, {"page": "x"}, {"page": "0"}, {"sort": "evil"}, {"other": "1"}])
def test_invalid_url_parameters_are_ignored(requests: dict[str, str]) -> None:
    assert JobQuery.read(requests) == JobQuery()


class Logs:
    """A client whose logs consist of these chunks, after these errors."""

    def __init__(self, *script: Any) -> None:
        self._script = list(script)

    async def follow_logs(self, pod: str, namespace: str, **options: Any) -> AsyncGenerator[bytes, None]:
        assert (pod, namespace, options) == ("p", "a", {"container": "c", "tail_lines": job_logs.LAST_LINES})
        now = self._script.pop(0)
        if isinstance(now, Exception):
            raise now
        for piece in now:
            yield piece


def read(*script: Any) -> list[str]:
    async def main() -> list[str]:
        async with aclosing(job_logs.follow_when_started(Logs(*script), "a", "p", "c")) as result:  # type: ignore[arg-type]
            return [line async for lines in result for line in lines]

    return clock.run(main(), virtual=True)


def test_log_lines_are_reassembled() -> None:
    assert read([b"one\ntw", b"o\nthr", "ee ☃".encode()[:5], "ee ☃".encode()[5:]]) == ["one", "two", "three ☃"]
    assert read([b"\xff\n"]) == ["\N{REPLACEMENT CHARACTER}"]


def test_missing_log_is_awaited_with_a_message() -> None:
    waiting = BadRequest("container is waiting to start")
    assert read(waiting, waiting, Unreachable("no answer"), [b"hello\n"]) == [
        "– container is waiting to start –",
        "– no answer –",
        "hello",
    ]


def test_deleted_or_simulated_pod_ends_the_log() -> None:
    assert read(NotFound("gone", details={"name": "p"})) == ["– pod not found –"]
    assert "--processes" in read(NotFound("no such page"))[0]


def test_pages_are_registered_in_navigation_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.page._pages", {})
    for name, parent in (("odd", ""), ("job", "jobs"), ("jobs", ""), ("overview", "")):
        register_page(name, title=name.title(), parent=parent)(lambda _here: None)
    assert [(page.name, page.path) for page in registered_pages()] == [
        ("overview", "/overview"),
        ("jobs", "/jobs"),
        ("job", "/job"),
        ("odd", "/odd"),
    ]


def test_log_of_a_pod_without_a_node_is_awaited() -> None:
    assert job_logs.is_unscheduled({"spec": {}})
    assert not job_logs.is_unscheduled({"spec": {"nodeName": "n"}})
    assert not job_logs.is_unscheduled(None)
