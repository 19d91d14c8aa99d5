"""What pages decide without a browser: when to draw, what the table of jobs shows, how logs are read, which pages there are."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.test_views import NOW, TEAMS, rows, said

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, NotFound, Unreachable
from sliceworks.console import following
from sliceworks.console.kinds import PODS
from sliceworks.console.pace import Pace
from sliceworks.console.pages import jobs_nodes
from sliceworks.console.registry import page_of, pages
from sliceworks.console.views.jobs import Query, jobs_page
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from sliceworks.console.tables import Changes

CHANGE = {PODS: {Key("a", "b")}}


class Scripted:
    """A feed that tells what it was given, once."""

    def __init__(self) -> None:
        self.changes: Changes = {}

    def take(self) -> Changes:
        taken, self.changes = self.changes, {}
        return taken


def test_a_page_is_drawn_after_changes_and_for_the_sake_of_ages() -> None:
    async def main() -> None:
        feed = Scripted()
        drawn: list[Changes] = []
        pace = Pace(feed, drawn.append, ages=5.0)  # type: ignore[arg-type]
        pace.draw({})
        pace.look()
        assert drawn == [{}]
        feed.changes = CHANGE
        pace.look()
        assert drawn == [{}, CHANGE]
        await clock.sleep(5)
        pace.look()
        assert drawn == [{}, CHANGE, {}]

    clock.run(main(), virtual=True)


def test_a_page_that_takes_long_to_draw_is_drawn_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second of work for a drawing: the next is 0.8 seconds later, and nothing that changed meanwhile is lost."""

    async def main() -> None:
        effort = iter(range(100))
        monkeypatch.setattr(clock, "effort", lambda: next(effort) * 0.1)
        feed = Scripted()
        drawn: list[Changes] = []
        pace = Pace(feed, drawn.append, ages=60.0)  # type: ignore[arg-type]
        pace.draw({})
        feed.changes = CHANGE
        await clock.sleep(0.7)
        pace.look()
        assert drawn == [{}]
        await clock.sleep(0.2)
        pace.look()
        assert drawn == [{}, CHANGE]

    clock.run(main(), virtual=True)


def test_however_long_it_takes_a_page_is_never_much_older(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        effort = iter(range(100))
        monkeypatch.setattr(clock, "effort", lambda: next(effort) * 60.0)
        feed = Scripted()
        drawn: list[Changes] = []
        pace = Pace(feed, drawn.append, ages=60.0)  # type: ignore[arg-type]
        pace.draw({})
        feed.changes = CHANGE
        await clock.sleep(2.1)
        pace.look()
        assert drawn == [{}, CHANGE]

    clock.run(main(), virtual=True)


def find(node: Any, **wanted: str) -> Iterator[Any]:
    """Elements that have these attributes."""
    if isinstance(node, list):
        if (
            len(node) > 1
            and isinstance(node[1], dict)
            and all(node[1].get(name.replace("_", "-")) == value for name, value in wanted.items())
        ):
            yield node
        for child in node:
            yield from find(child, **wanted)


def test_the_table_has_a_row_for_each_job_and_buttons_that_sort_it() -> None:
    page = jobs_page(rows(60), TEAMS, Query(sort="chips", descending=True))
    made = jobs_nodes.nodes(page, NOW)
    assert len([each for each in find(made) if each[0] == "tr"]) == 51
    assert [said(each) for each in find(made, aria_sort="descending")] == ["Chips ↓"]
    assert len(list(find(made, data_act="sort:team"))) == 1
    assert "1–50 of 60" in said(made)
    assert next(find(made, data_act="page:-1"))[1]["disabled"] == ""
    assert "disabled" not in next(find(made, data_act="page:1"))[1]


def test_no_jobs_and_none_like_that_are_two_things() -> None:
    nothing, missing = jobs_page([], TEAMS, Query()), jobs_page(rows(3), TEAMS, Query("nowhere"))
    assert "sliceworks train submit" in said(jobs_nodes.nodes(nothing, NOW))
    assert "JobSet is not installed." in said(jobs_nodes.nodes(nothing, NOW, "JobSet is not installed."))
    assert "No job is like that." in said(jobs_nodes.nodes(missing, NOW))


def test_what_was_chosen_stays_to_be_seen_when_nothing_is_like_that() -> None:
    made = jobs_nodes.tools(jobs_page(rows(3), TEAMS, Query(team="gone", state="restarting")))
    assert [each[1]["value"] for each in find(made) if each[0] == "select"] == ["restarting", "gone"]
    assert "gone (0)" in said(made)
    assert "0 of 3 jobs" in said(made)


@pytest.mark.parametrize("query", [Query(), Query("a b", "red", "failed", "age", True, 3), Query(sort="cost")])
def test_an_address_says_what_is_looked_for(query: Query) -> None:
    assert Query.read(query.written()) == query


@pytest.mark.parametrize("asked", [{"page": "-3"}, {"page": "x"}, {"page": "0"}, {"sort": "evil"}, {"other": "1"}])
def test_what_an_address_has_wrong_is_left_out(asked: dict[str, str]) -> None:
    assert Query.read(asked) == Query()


class Logs:
    """A client whose logs come in these pieces, after these errors."""

    def __init__(self, *script: Any) -> None:
        self._script = list(script)

    async def follow_logs(self, pod: str, namespace: str, **options: Any) -> AsyncGenerator[bytes, None]:
        assert (pod, namespace, options) == ("p", "a", {"container": "c", "tail_lines": following.LAST_LINES})
        now = self._script.pop(0)
        if isinstance(now, Exception):
            raise now
        for piece in now:
            yield piece


def read(*script: Any) -> list[str]:
    async def main() -> list[str]:
        async with aclosing(following.patiently(Logs(*script), "a", "p", "c")) as found:  # type: ignore[arg-type]
            return [line async for lines in found for line in lines]

    return clock.run(main(), virtual=True)


def test_lines_are_whole_however_they_arrive() -> None:
    assert read([b"one\ntw", b"o\nthr", "ee ☃".encode()[:5], "ee ☃".encode()[5:]]) == ["one", "two", "three ☃"]
    assert read([b"\xff\n"]) == ["\N{REPLACEMENT CHARACTER}"]


def test_a_log_that_is_not_there_yet_is_waited_for_with_a_word() -> None:
    waiting = BadRequest("container is waiting to start")
    assert read(waiting, waiting, Unreachable("no answer"), [b"hello\n"]) == [
        "– container is waiting to start –",
        "– no answer –",
        "hello",
    ]


def test_a_pod_that_is_gone_and_one_that_is_only_played_end_the_waiting() -> None:
    assert read(NotFound("gone", details={"name": "p"})) == ["– the pod is gone –"]
    assert "--processes" in read(NotFound("no such page"))[0]


def test_pages_are_in_the_order_of_the_navigation_with_their_own_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.registry._pages", {})
    for name, parent in (("odd", ""), ("job", "jobs"), ("jobs", ""), ("overview", "")):
        page_of(name, title=name.title(), parent=parent)(lambda _here: None)
    assert [(page.name, page.path) for page in pages()] == [
        ("overview", "/overview"),
        ("jobs", "/jobs"),
        ("job", "/job"),
        ("odd", "/odd"),
    ]
