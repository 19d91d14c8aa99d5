"""What the pages of chips, queues and jobs say of a small busy cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from bench.measure.console_worlds import JOBSETS as STORED_JOBSETS
from bench.measure.console_worlds import WORKLOADS as STORED_WORKLOADS
from tests.support.small_worlds import Small, on_small

from sliceworks.base import clock
from sliceworks.console.kinds import JOBSETS, WORKLOADS
from sliceworks.console.pages import job_nodes
from sliceworks.console.pages import overview as overview_page
from sliceworks.console.pages import queues as queues_page
from sliceworks.console.views.job import job_view
from sliceworks.console.views.jobs import PAGE, JobRow, Query, job_row, jobs_page
from sliceworks.console.views.overview import overview
from sliceworks.console.views.queues import Queue, Quota, current, queues
from sliceworks.console.views.teams import team_of
from sliceworks.console.views.times import age, between, dollars
from sliceworks.console.views.troubles import Host, Told, told, troubles
from sliceworks.console.views.work import work_row

NOW = clock.now().replace(2026, 1, 5, 12, 0, 0, 0)


def said(node: Any) -> str:
    """All texts of nodes, with a blank between."""
    if isinstance(node, str):
        return node
    children = node[2:] if node and isinstance(node[0], str) and len(node) > 1 and isinstance(node[1], dict) else node
    return " ".join(map(said, children))


def test_the_overview_counts_chips_jobs_and_money() -> None:
    async def main(small: Small) -> None:
        found = overview(small.world)
        holding = [job for job in small.made.jobs if job.pools]
        assert (found.used, found.running) == (16 * len(holding), len(holding))
        assert found.waiting == sum(job.state == "queued" for job in small.made.jobs)
        assert sum(each.used for each in found.teams) == sum(each.used for each in found.types) == found.used
        assert found.quota is not None
        assert found.used <= found.quota
        prices = [row.usd for row in small.world.ledger(JOBSETS, job_row).rows().values() if row.holds]
        assert found.usd == pytest.approx(sum(each or 0 for each in prices))
        assert found.usd > 1000
        assert {each.name for each in found.queues} == {each.name for each in found.teams}
        assert found.queues[0].waiting >= found.queues[-1].waiting
        page = said(overview_page.nodes(found, small.world.now(), small.world.knows))
        assert "Chips in use" in page
        assert "stopped: Hold" in page

    on_small(main)


def test_the_overview_of_an_empty_cluster_says_what_is_missing() -> None:
    async def main(small: Small) -> None:
        found = overview(small.world)
        assert (found.used, found.running, found.usd) == (0, 0, 0)
        page = said(overview_page.nodes(replace(found, teams=(), queues=(), troubles=()), small.world.now(), small.world.knows))
        assert "No team has chips" in page
        assert "This cluster has no queues." in page
        assert "No job failed" in page

    on_small(main, jobs=0, slices=4)


def test_what_went_wrong_is_told_in_words_once_and_the_latest_first() -> None:
    lately, long_ago = (clock.rfc3339(NOW - timedelta(minutes=each)) for each in (5, 500))
    row = JobRow("a", "j", "q", "", "v4-8", "failed", 1, 0, 1, 4, 0, long_ago, "", lately, None, "too many restarts")
    pods = [Told(lately, "FailedScheduling", "Pod", "a", f"p-{number}", "no room", 1) for number in range(3)]
    hosts = [Host(f"h-{number}", "pool", number != 1, lately) for number in range(4)]
    found = troubles(NOW, [row, replace(row, name="old", ended=long_ago)], [], pods, hosts)
    assert {(each.what, each.said, each.tone) for each in found} == {
        ("a/j has failed", "too many restarts", "bad"),
        ("3 Pods in a: FailedScheduling", "no room", "wait"),
        ("1 of 4 hosts of pool not ready", "", "bad"),
    }


def test_a_preempted_job_is_trouble() -> None:
    async def main(small: Small) -> None:
        job = next(each for each in small.made.jobs if each.state == "queued")
        workload = small.made.workload(job)
        moved = clock.timestamp()
        evicted = {
            "type": "Evicted",
            "status": "True",
            "lastTransitionTime": moved,
            "reason": "Preempted",
            "message": "for another",
        }
        workload["status"]["conditions"].append(evicted)
        small.put(STORED_WORKLOADS, workload)
        await small.heard()
        assert (f"{job.team}/{job.name} lost its place", "for another") in [
            (each.what, each.said) for each in overview(small.world).troubles
        ]

    on_small(main)


def test_an_event_is_dated_by_what_happened_last() -> None:
    event = {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "lastTimestamp": "2026-01-02T00:00:00Z",
        "series": {"lastObservedTime": "2026-01-03T00:00:00Z", "count": 7},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "a"},
        "reason": "Failed",
        "message": "one\n  two",
    }
    assert told(event) == Told("2026-01-03T00:00:00Z", "Failed", "Pod", "a", "p", "one two", 7)


def test_queues_show_loans_and_who_waits_in_order_and_why() -> None:
    async def main(small: Small) -> None:
        found = queues(small.world)
        assert [each.waiting for each in found] == sorted((each.waiting for each in found), reverse=True)
        assert sum(each.borrowed for queue in found for each in queue.chips) > 0
        for queue in found:
            waiting = [job for job in small.made.jobs if job.team == queue.name and job.state == "queued"]
            first = sorted(waiting, key=lambda job: (-job.priority, job.born, f"jobset-{job.name}"))[: len(queue.first)]
            assert [each.name for each in queue.first] == [job.name for job in first]
            assert queue.waiting == len(waiting)
        longest = found[0]
        assert longest.first[0].why.startswith("It asks for 16 TPU chips of ")
        assert next(each for each in found if each.name == "vision").stopped == "Hold"
        page = said(queues_page.nodes(found, small.world.now()))
        assert longest.first[0].why in page
        assert f"and {longest.waiting - len(longest.first)} more" in page

    on_small(main)


def test_answers_for_which_there_was_no_time_come_soon_although_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.views.whys._AT_ONCE", -1.0)  # no time at all

    async def main(small: Small) -> None:
        def foreign() -> int:
            return sum("couldn't assign flavors" in each.why for queue in current(small.world) for each in queue.first)

        left = [foreign()]
        assert left[0] > 1
        while left[-1] and len(left) < 100:
            await clock.sleep(5)  # as often as a page is drawn for the sake of its ages
            left.append(foreign())
        assert left[-1] == 0
        assert left == sorted(left, reverse=True)

    on_small(main)


def test_a_stopped_queue_is_the_reason_to_wait_in_it() -> None:
    async def main(small: Small) -> None:
        stopped = next(each for each in queues(small.world) if each.stopped)
        assert stopped.first
        assert all("is stopped (Hold)" in each.why for each in stopped.first)

    on_small(main)


def test_a_cluster_without_queues_says_how_to_make_some() -> None:
    assert "sliceworks queues apply" in said(queues_page.nodes((), NOW))


def rows(count: int) -> list[JobRow]:
    states = ("completed", "running", "queued", "failed")
    return [
        JobRow(
            namespace=f"ns-{number % 3}",
            name=f"job-{number:03}",
            queue="q",
            priority="high",
            type="v4-8",
            state=states[number % 4],
            slices=1,
            ready=0,
            hosts=1,
            chips=number,
            restarts=number % 5,
            created=clock.rfc3339(NOW - timedelta(minutes=number)),
            began="",
            ended=clock.rfc3339(NOW) if number % 4 in (0, 3) else "",
            usd=float(number) if number % 2 else None,
        )
        for number in range(count)
    ]


TEAMS = {"ns-0": "red", "ns-1": "green"}


def names(query: Query, count: int = 12) -> list[str]:
    return [row.name for _, row in jobs_page(rows(count), TEAMS, query).rows]


def test_what_runs_comes_first_then_what_waits_then_what_has_ended() -> None:
    states = [row.state for _, row in jobs_page(rows(40), TEAMS, Query()).rows]
    assert states == sorted(states, key=lambda word: ("running", "queued").index(word) if word in ("running", "queued") else 2)
    assert names(Query())[:3] == ["job-009", "job-005", "job-001"]  # the oldest on top


def test_jobs_are_found_by_words_team_and_state() -> None:
    assert sorted(names(Query("JOB-00 green"))) == ["job-001", "job-004", "job-007"]
    assert sorted(names(Query(team="red"))) == ["job-000", "job-003", "job-006", "job-009"]
    assert sorted(names(Query(state="failed"))) == ["job-003", "job-007", "job-011"]
    assert names(Query("nothing of this name")) == []
    page = jobs_page(rows(12), TEAMS, Query(team="ns-2", state="queued"))
    assert (page.found, page.total, page.teams) == (1, 12, ("green", "ns-2", "red"))
    assert page.states == (("running", 3), ("queued", 3), ("failed", 3), ("completed", 3))


@pytest.mark.parametrize("column", ["name", "team", "state", "type", "chips", "restarts", "age", "cost"])
def test_every_column_sorts_both_ways(column: str) -> None:
    up, down = Query().by(column), Query().by(column).by(column)
    assert (up.sort, up.descending, down.descending, down.by(column).sort) == (column, False, True, "")
    first, last = jobs_page(rows(12), TEAMS, up).rows[0][1], jobs_page(rows(12), TEAMS, down).rows[0][1]
    if column in ("name", "chips", "age"):
        assert (first.name, last.name) == ("job-000", "job-011")
    if column == "restarts":
        assert (first.restarts, last.restarts) == (0, 4)


def test_a_page_too_far_is_the_last_one() -> None:
    page = jobs_page(rows(PAGE + 3), TEAMS, Query(page=99))
    assert (len(page.rows), page.first, page.pages, page.query.page) == (3, PAGE, 2, 1)
    assert jobs_page([], TEAMS, Query(page=-1)).pages == 1


def test_a_job_tells_its_life_hosts_and_price() -> None:
    async def main(small: Small) -> None:
        job = next(each for each in small.made.jobs if each.state == "running")
        view = job_view(small.world, job.team, job.name)
        assert view is not None
        assert [step.what for step in view.steps][:1] == ["submitted"]
        assert [(host.label, host.ready, host.node) for host in view.hosts] == [
            (f"slice-0/{index}", True, f"gke-{job.pools[0]}-{index}") for index in range(4)
        ]
        assert (view.leads_to, view.capacity, view.restarts_allowed, view.more_hosts) == (job.team, "on-demand", 3, 0)
        shown = said([*job_nodes.top(view, None, True, small.world.now()), job_nodes.parts(view, small.world.now())])
        assert "4 of 4 ready" in shown
        assert "Restart" in shown
        assert "Restart" not in said(job_nodes.top(view, None, False, small.world.now()))
        small.remove(STORED_JOBSETS, job.name, job.team)
        await small.heard()
        assert job_view(small.world, job.team, job.name) is None
        assert f"There is no job {job.name} in {job.team}." in said(job_nodes.nothing(job.team, job.name, ""))

    on_small(main)


def test_what_waits_can_be_cancelled_but_not_restarted() -> None:
    async def main(small: Small) -> None:
        job = next(each for each in small.made.jobs if each.state == "queued")
        view = job_view(small.world, job.team, job.name)
        assert view is not None
        shown = said(job_nodes.top(view, None, True, small.world.now()))
        assert ("Cancel" in shown, "Restart" in shown) == (True, False)
        assert "They are made when its queue lets it through." in said(job_nodes.parts(view, small.world.now()))
        assert "with its pods and their logs" in job_nodes.question("cancel", view)[0]

    on_small(main)


def test_a_workload_in_a_row() -> None:
    async def main(small: Small) -> None:
        job = next(each for each in small.made.jobs if each.pools)
        row = small.world.ledger(WORKLOADS, work_row).rows()
        found = next(each for each in row.values() if each.job == job.name)
        assert (found.waits, found.chips, found.queue, found.priority) == (False, 16, "jobs", job.priority)
        assert team_of(small.world)[job.team] == job.team

    on_small(main)


def test_times_and_money_as_people_read_them() -> None:
    assert age("", NOW) == "–"
    assert age("2026-01-05T11:59:00Z", NOW) == "60s"
    assert between("2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z", NOW) == "60m"
    assert between("", "", NOW) == "–"
    assert [dollars(each) for each in (None, 3.5, 1234.5)] == ["unknown", "$3.50", "$1,234"]


def test_a_jobset_of_others_tells_by_its_nodes_what_it_runs_on_and_began_at_once_if_nobody_held_it() -> None:
    nodes = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology": "4x4"}
    pod = {"nodeSelector": nodes, "containers": [{"resources": {"limits": {"google.com/tpu": "4"}}}]}
    job = {"name": "workers", "template": {"spec": {"parallelism": 4, "template": {"spec": pod}}}}
    metadata = {"name": "a", "namespace": "b", "creationTimestamp": "2026-01-05T00:00:00Z"}
    row = job_row({"metadata": metadata, "spec": {"replicatedJobs": [job]}})
    assert (row.type, row.hosts, row.chips, row.began) == ("v5litepod-16", 4, 16, row.created)
    assert row.usd == pytest.approx(19.2)
    assert job_row({"metadata": metadata, "spec": {"suspend": True, "replicatedJobs": [job]}}).began == ""


def test_a_queue_names_what_it_has_none_of_without_a_bar() -> None:
    own, none = Quota("v4-32", "google.com/tpu", 32, 16, 0, 0), Quota("l4", "nvidia.com/gpu", 0, 0, 0, 0)
    queue = Queue("a", "", "", (), 0, (own, none), (), 0, ())
    page = queues_page.nodes((queue,), NOW)
    assert "none of its own of l4" in said(page)
    assert str(page).count("'meter'") == 2  # its class and its role
