"""The overview, queues and jobs views of a small busy cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from bench.harness.synthetic_cluster import JOBSETS as STORED_JOBSETS
from bench.harness.synthetic_cluster import NODES as STORED_NODES
from bench.harness.synthetic_cluster import PODS as STORED_PODS
from bench.harness.synthetic_cluster import WORKLOADS as STORED_WORKLOADS
from tests.support.small_cluster import SmallCluster, run_on_small_cluster

from sliceworks.base import clock
from sliceworks.console.components import format_age, format_elapsed, format_usd
from sliceworks.console.kinds import NODES, PODS, WORKLOADS
from sliceworks.console.pages import job_detail
from sliceworks.console.pages import overview as overview_page
from sliceworks.console.pages import queues as queues_page
from sliceworks.console.slice_cache import get_slice_cache
from sliceworks.console.views.cluster_summary import build_overview
from sliceworks.console.views.incidents import EventRow, NodeRow, event_row, recent_incidents
from sliceworks.console.views.job_view import (
    PAGE_SIZE,
    JobQuery,
    JobRow,
    build_job_view,
    job_row,
    logs_url,
    query_jobs,
    tensorboard_url,
)
from sliceworks.console.views.queue_reason import PendingReasons
from sliceworks.console.views.queue_view import Queue, Quota, build_queues, current_queues, teams_by_namespace, workload_row
from sliceworks.console.views.start_forecast import KINDS as FORECAST_KINDS
from sliceworks.console.views.start_forecast import StartForecasts, format_start, predict_starts
from sliceworks.console.views.team_usage import JobRun, build_usage, current_usage, record_usage, usage_svg
from sliceworks.rehearsal.forecast import snapshot
from sliceworks.rehearsal.forecast.forecaster import JobForecast, Range
from sliceworks.rehearsal.forecast.jobs import trim
from sliceworks.rehearsal.forecast.snapshot import Snapshot
from sliceworks.training.diagnosis.analysis import diagnose
from sliceworks.training.diagnosis.collection import collect_evidence

if TYPE_CHECKING:
    from sliceworks.console.cluster_cache import ClusterCache

NOW = clock.now().replace(2026, 1, 5, 12, 0, 0, 0)


def minutes_ago(minutes: float) -> str:
    return clock.rfc3339(NOW - timedelta(minutes=minutes))


def visible_text(node: Any) -> str:
    """The text of nodes, separated by blanks."""
    if isinstance(node, str):
        return node
    children = node[2:] if node and isinstance(node[0], str) and len(node) > 1 and isinstance(node[1], dict) else node
    return " ".join(map(visible_text, children))


def test_overview_counts_chips_jobs_and_cost() -> None:
    async def main(small: SmallCluster) -> None:
        result = build_overview(small.cache)
        holding = [job for job in small.synthetic.jobs if job.pools]
        assert (result.admitted, result.running + result.starting) == (16 * len(holding), len(holding))
        assert result.running == sum(job.state == "running" for job in small.synthetic.jobs)
        assert result.used == result.admitted
        assert result.waiting == sum(job.state == "queued" for job in small.synthetic.jobs)
        assert sum(team.used for team in result.teams) == sum(item.used for item in result.types) == result.used
        assert result.quota is not None
        assert result.used <= result.quota
        prices = [view.usd for view in get_slice_cache(small.cache).all() if any(host.work for host in view.hosts)]
        assert result.usd == pytest.approx(sum(item or 0 for item in prices))
        assert result.unpriced == prices.count(None)
        assert result.usd > 1000
        assert {queue.name for queue in result.queues} == {team.name for team in result.teams}
        assert result.queues[0].waiting >= result.queues[-1].waiting
        page = visible_text(overview_page.overview_panels(result, small.cache.now(), small.cache.knows))
        assert "Chips in use" in page
        assert "stopped: Hold" in page

    run_on_small_cluster(main)


def test_servers_outside_of_queues_use_chips_and_unplaced_jobs_cost_nothing() -> None:
    async def main(small: SmallCluster) -> None:
        before = build_overview(small.cache)
        moved = next(job for job in small.synthetic.jobs if job.state == "running")
        for pod in [dict(pod) for pod in small.cache.table(PODS).store.by_index("job", f"{moved.team}/{moved.name}")]:
            small.remove(STORED_PODS, pod["metadata"]["name"], moved.team)
            server = {**pod, "metadata": {"name": f"server-{pod['metadata']['name']}", "namespace": "serving", "uid": "u"}}
            small.put(STORED_PODS, server)
        await small.wait_delivered()
        result = build_overview(small.cache)
        teams = {team.name: team for team in result.teams}
        old = {team.name: team for team in before.teams}
        assert (result.used, result.admitted) == (before.used, before.admitted)
        assert (teams["serving"].used, teams["serving"].quota) == (16, None)
        assert teams["serving"].usd > 0
        assert teams[moved.team].usd < old[moved.team].usd
        assert sum(item.used for item in result.types) == before.used + 16
        spent = {total.team: total.usd_per_hour for total in current_usage(small.cache).totals}
        assert spent["serving"] == teams["serving"].usd

    run_on_small_cluster(main)


def test_overview_of_empty_cluster_lists_what_is_missing() -> None:
    async def main(small: SmallCluster) -> None:
        result = build_overview(small.cache)
        assert (result.used, result.running, result.usd) == (0, 0, 0)
        page = visible_text(
            overview_page.overview_panels(replace(result, teams=(), queues=(), incidents=()), small.cache.now(), small.cache.knows)
        )
        assert "No team uses chips" in page
        assert "This cluster has no queues." in page
        assert "No failed jobs" in page

    run_on_small_cluster(main, jobs=0, slices=4)


def test_incidents_are_listed_once_and_latest_first() -> None:
    lately, long_ago = (clock.rfc3339(NOW - timedelta(minutes=item)) for item in (5, 500))
    row = JobRow("a", "j", "q", "", "v4-8", "failed", 1, 0, 1, 4, 0, long_ago, "", lately, None, "too many restarts")
    pods = [EventRow(lately, "FailedScheduling", "Pod", "a", f"p-{number}", "no room", 1) for number in range(3)]
    hosts = [NodeRow(f"h-{number}", "pool", number != 1, lately) for number in range(4)]
    result = recent_incidents(NOW, [row, replace(row, name="old", ended=long_ago)], [], pods, hosts)
    assert {(item.what, item.message, item.tone) for item in result} == {
        ("a/j failed", "too many restarts", "bad"),
        ("3 Pods in a: FailedScheduling", "no room", "wait"),
        ("1 of 4 hosts of pool not ready", "", "bad"),
    }


def test_dead_host_is_listed_before_newer_warnings() -> None:
    warnings = [EventRow(minutes_ago(n % 60), "BackOff", "Pod", "a", f"p-{n}", f"image {n}", 1) for n in range(40)]
    hosts = [NodeRow("h-0", "pool", False, minutes_ago(119)), NodeRow("h-1", "pool", True, "")]
    assert recent_incidents(NOW, [], [], warnings, hosts)[0].what == "1 of 2 hosts of pool not ready"


def test_placement_warnings_of_a_job_that_starts_or_runs_are_no_incidents() -> None:
    row = JobRow("a", "j", "q", "", "v4-8", "running", 1, 1, 1, 4, 0, minutes_ago(30), minutes_ago(30), "", None)
    race = EventRow(minutes_ago(2), "FailedCreate", "Job", "a", "j-slice-0", "follower pod node selector not found", 3)
    pending = EventRow(minutes_ago(2), "FailedScheduling", "Pod", "a", "j-slice-0-0-x", "no nodes", 3)

    def found(row: JobRow, *events: EventRow) -> list[str]:
        return [item.what for item in recent_incidents(NOW, [row], [], events, [])]

    assert found(row, race, pending) == []
    assert found(replace(row, state="starting", started=minutes_ago(1)), race, pending) == []
    assert found(replace(row, state="starting"), race, pending) == ["a/j: FailedCreate"]
    stockout = EventRow(minutes_ago(6), "NodePoolCreationFailed", "JobSet", "a", "j", "cannot create node pool", 1)
    assert found(replace(row, state="starting"), race, stockout, pending) == ["a/j: NodePoolCreationFailed"]
    restart = EventRow(minutes_ago(3), "RestartJobSetFailurePolicyAction", "JobSet", "a", "j", "first failed job: j-slice-0", 1)
    assert found(row, restart) == ["a/j restarted"]
    assert found(replace(row, name="other"), replace(race, at=minutes_ago(20))) == []
    assert found(replace(row, name="other"), race) == ["Job a/j-slice-0: FailedCreate"]


def test_missing_metrics_of_a_twin_are_no_incident() -> None:
    async def main(small: SmallCluster) -> None:
        about = {"kind": "HorizontalPodAutoscaler", "namespace": "default", "name": "web", "apiVersion": "autoscaling/v2"}
        for reason in ("FailedGetResourceMetric", "FailedGetScale"):
            event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": reason.lower(), "namespace": "default"}}
            at = clock.rfc3339(small.cache.now())
            await small.cache.client.create(
                {**event, "involvedObject": about, "reason": reason, "type": "Warning", "message": reason, "lastTimestamp": at}
            )
        await clock.sleep(5)
        assert small.cache.is_twin
        what = [item.what for item in build_overview(small.cache).incidents]
        assert what == ["HorizontalPodAutoscaler default/web: FailedGetScale"]

    run_on_small_cluster(main, jobs=0, slices=0)


def test_failures_of_autoscalers_are_one_incident() -> None:
    reasons = ("FailedGetResourceMetric", "FailedComputeMetricsReplicas")
    events = [
        EventRow(minutes_ago(n), reason, "HorizontalPodAutoscaler", "a", "gateway", reason, 1) for n, reason in enumerate(reasons)
    ]
    assert [item.what for item in recent_incidents(NOW, [], [], events, [])] == [
        "HorizontalPodAutoscaler a/gateway: FailedGetResourceMetric"
    ]


def test_preempted_job_is_an_incident_with_the_cause_of_the_queues_page() -> None:
    async def main(small: SmallCluster) -> None:
        first = next(item for queue in await read_queues(small.cache) for item in queue.first)
        job = next(job for job in small.synthetic.jobs if (job.team, job.name) == (first.namespace, first.name))
        workload = small.synthetic.workload(job)
        evicted = {"type": "Evicted", "status": "True", "lastTransitionTime": clock.timestamp(), "reason": "Preempted"}
        workload["status"]["conditions"].append({**evicted, "message": "Preempted to accommodate a workload (UID: 1)"})
        small.put(STORED_WORKLOADS, workload)
        await small.wait_delivered()
        [message] = [
            incident.message
            for incident in build_overview(small.cache).incidents
            if incident.what == f"{job.team}/{job.name} was evicted"
        ]
        shown = {(item.namespace, item.name): item.why for queue in current_queues(small.cache) for item in queue.first}
        assert message == shown[job.team, job.name]
        assert "UID" not in message

    run_on_small_cluster(main)


def test_event_has_its_last_timestamp() -> None:
    event = {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "lastTimestamp": "2026-01-02T00:00:00Z",
        "series": {"lastObservedTime": "2026-01-03T00:00:00Z", "count": 7},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "a"},
        "reason": "Failed",
        "message": "one\n  two",
    }
    assert event_row(event) == EventRow("2026-01-03T00:00:00Z", "Failed", "Pod", "a", "p", "one two", 7)


async def read_queues(cache: ClusterCache) -> tuple[Queue, ...]:
    """The queues after all kinds that reasons need have been read."""
    build_queues(cache)
    await cache.settled(60)
    return build_queues(cache)


def test_reasons_are_not_derived_from_half_read_objects() -> None:
    async def main(small: SmallCluster) -> None:
        first = [item for queue in build_queues(small.cache) for item in queue.first]
        assert small.cache.shared(PendingReasons).incomplete
        assert [item.why for item in first] == [""] * len(first)
        await small.cache.settled(60)
        assert any(item.why.startswith("It requests") for queue in current_queues(small.cache) for item in queue.first)

    run_on_small_cluster(main, jobs=40, slices=16)


def test_queues_show_borrowing_and_pending_jobs_with_reasons() -> None:
    async def main(small: SmallCluster) -> None:
        result = await read_queues(small.cache)
        assert [item.waiting for item in result] == sorted((item.waiting for item in result), reverse=True)
        assert sum(item.borrowed for queue in result for item in queue.chips) > 0
        for queue in result:
            waiting = [job for job in small.synthetic.jobs if job.team == queue.name and job.state == "queued"]
            first = sorted(waiting, key=lambda job: (-job.priority, job.created, f"jobset-{job.name}"))[: len(queue.first)]
            assert [item.name for item in queue.first] == [job.name for job in first]
            assert queue.waiting == len(waiting)
        longest = result[0]
        assert longest.first[0].why.startswith("It requests 16 TPU chips of ")
        assert next(item for item in result if item.name == "vision").stopped == "Hold"
        page = visible_text(queues_page.queue_panels(result, small.cache.now(), {}))
        assert longest.first[0].why in page
        assert f"and {longest.waiting - len(longest.first)} more" in page

    run_on_small_cluster(main)


def test_reasons_are_those_of_train_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.views.queue_reason._TIME_BUDGET", 600.0)

    async def main(small: SmallCluster) -> None:
        compared = set()
        for queue in await read_queues(small.cache):
            for item in queue.first:
                evidence = await collect_evidence(small.cache.client, item.namespace, item.name)
                first = diagnose(evidence).causes[0]
                assert item.why == first.message
                compared.add(first.kind.name)
        assert len(compared) > 1

    run_on_small_cluster(main)


def test_pending_jobs_have_priority_names_and_predicted_starts() -> None:
    async def main(small: SmallCluster) -> None:
        queued = next(job for job in small.synthetic.jobs if job.state == "queued" and job.team != "vision")
        workload = small.synthetic.workload(queued)
        workload["spec"] |= {"priority": 900, "priorityClassRef": {"name": "urgent"}}
        small.put(STORED_WORKLOADS, workload)
        await small.wait_delivered()
        waiting = [item for queue in build_queues(small.cache) for item in queue.first]
        assert [item.priority for item in waiting if item.name == queued.name] == ["urgent (900)"]
        forecasts = small.cache.shared(StartForecasts)
        assert forecasts.starts() == {}
        await small.cache.settled(60)
        assert forecasts.starts() == {}
        assert forecasts._task is not None
        await forecasts._task
        starts = forecasts.starts()
        assert {(item.namespace, item.name) for item in waiting} <= starts.keys()
        assert starts == predict_starts(await snapshot.take(small.cache.client))
        page = visible_text(queues_page.queue_panels(build_queues(small.cache), small.cache.now(), starts))
        assert starts[waiting[0].namespace, waiting[0].name] in page

    run_on_small_cluster(main, jobs=60, slices=16)


def test_predicted_starts_are_formatted() -> None:
    def start(verdict: str, *seconds: float) -> str:
        return format_start(JobForecast(cast("Any", None), verdict, Range(*seconds) if seconds else None, None, ""))

    assert start("starts", 1800, 7200, 10800) == "in 120m (90 %: 30m – 3h)"
    assert start("starts", 7200, 7200, 7200) == "in 120m"
    assert start("starts", 0, 0, 0) == "now"
    assert (start("never"), start("unknown")) == ("never", "unknown")


def test_forecast_of_a_full_cluster_is_skipped() -> None:
    async def main(small: SmallCluster) -> None:
        tables = {kind.kind: [trim(kind.kind, item) for item in small.cache.table(kind).all()] for kind in FORECAST_KINDS}
        workloads = tables["Workload"]
        assert predict_starts(Snapshot(small.cache.now(), tables))
        many = [{**workloads[0], "metadata": {**workloads[0]["metadata"], "name": f"more-{n}"}} for n in range(500)]
        assert predict_starts(Snapshot(small.cache.now(), {**tables, "Workload": [*workloads, *many]})) == {}

    run_on_small_cluster(main, jobs=40, slices=16)


def test_usage_by_team_over_time() -> None:
    runs = [
        JobRun("red", 16, 10.0, minutes_ago(120), minutes_ago(60)),
        JobRun("red", 8, 5.0, minutes_ago(30)),
        JobRun("blue", 4, 30.0, minutes_ago(60)),
    ]
    view = build_usage(runs, NOW)
    assert [(total.team, total.chip_hours, total.usd, total.usd_per_hour) for total in view.totals] == [
        ("blue", 4.0, 30.0, 30.0),
        ("red", 20.0, 12.5, 5.0),
    ]
    chips = dict(view.chips)
    assert (chips["red"][0], chips["red"][60], chips["red"][-1]) == (16, 0, 8)
    assert (chips["blue"][0], chips["blue"][60], chips["blue"][-1]) == (0, 4, 4)
    assert "at most 16" in usage_svg(view)
    page = visible_text(overview_page.usage_panel(view))
    assert "$12.50" in page
    assert overview_page.usage_panel(build_usage([], NOW)) is None


def test_usage_of_a_deleted_job_is_remembered() -> None:
    async def main(small: SmallCluster) -> None:
        before = current_usage(small.cache)
        job = next(job for job in small.synthetic.jobs if job.state == "running")
        small.remove(STORED_JOBSETS, job.name, job.team)
        for pod in small.cache.table(PODS).store.by_index("job", f"{job.team}/{job.name}"):
            small.remove(STORED_PODS, pod["metadata"]["name"], job.team)
        await small.wait_delivered()
        after = current_usage(small.cache)
        spent = {total.team: total for total in before.totals}[job.team]
        now = {total.team: total for total in after.totals}[job.team]
        assert now.chip_hours >= spent.chip_hours
        assert now.usd_per_hour < spent.usd_per_hour

    run_on_small_cluster(main)


def test_usage_ends_with_a_job_that_is_deleted_while_no_page_is_open() -> None:
    async def main(small: SmallCluster) -> None:
        recording = asyncio.create_task(record_usage(small.cache))
        job = next(job for job in small.synthetic.jobs if job.state == "running")
        await clock.sleep(10)
        before = current_usage(small.cache)
        small.remove(STORED_JOBSETS, job.name, job.team)
        for pod in small.cache.table(PODS).store.by_index("job", f"{job.team}/{job.name}"):
            small.remove(STORED_PODS, pod["metadata"]["name"], job.team)
        await clock.sleep(3600)
        after = current_usage(small.cache)
        recording.cancel()
        old, new = ({total.team: total for total in usage.totals}[job.team] for usage in (before, after))
        assert new.usd_per_hour < old.usd_per_hour
        assert new.usd - old.usd == pytest.approx(new.usd_per_hour, rel=0.02), "an hour without the job"

    run_on_small_cluster(main)


def test_links_to_tensorboard_and_logs() -> None:
    args = [
        "--tensorboard_resource_name=projects/p/locations/us-east1/tensorboards/7",
        "--logdir=gs://b",
        "--experiment_name=run 1",
    ]
    pod = {"containers": [{"name": "tensorboard", "args": args}]}
    jobset = {
        "metadata": {"name": "vit", "namespace": "vision"},
        "spec": {"replicatedJobs": [{"name": "tensorboard", "template": {"spec": {"template": {"spec": pod}}}}]},
    }
    address = "https://us-east1.tensorboard.googleusercontent.com/experiment/projects+p+locations+us-east1+tensorboards+7"
    assert tensorboard_url(jobset) == f"{address}+experiments+run%201"
    machine: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {"providerID": "gce://my-project/us-east1-b/n"}}
    link = logs_url(jobset, [machine])
    assert link.startswith("https://console.cloud.google.com/logs/query;query=resource.type%3D%22k8s_container%22")
    assert link.endswith("jobset-name%22%3D%22vit%22?project=my-project")
    simulated = {**machine, "metadata": {"name": "n", "labels": {"sliceworks.dev/node": "simulated"}}}
    assert logs_url(jobset, [simulated, {"metadata": {"name": "m"}, "spec": {}}]) == ""


def test_first_job_of_every_queue_gets_its_reason_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.views.queue_reason._TIME_BUDGET", -1.0)  # one reason per page

    async def main(small: SmallCluster) -> None:
        pending = [queue for queue in await read_queues(small.cache) if queue.first]
        for _ in pending:
            await clock.sleep(5)
            pending = [queue for queue in current_queues(small.cache) if queue.first]
        assert len(pending) > 1
        assert not [queue.name for queue in pending if queue.first[0].why.startswith("couldn't assign")]

    run_on_small_cluster(main)


def test_deferred_diagnoses_arrive_without_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.views.queue_reason._TIME_BUDGET", -1.0)  # no time at all

    async def main(small: SmallCluster) -> None:
        def foreign() -> int:
            return sum("couldn't assign flavors" in item.why for queue in current_queues(small.cache) for item in queue.first)

        await read_queues(small.cache)
        await clock.sleep(5)
        left = [foreign()]
        assert left[0] > 1
        while left[-1] and len(left) < 100:
            await clock.sleep(5)  # as often as a page is redrawn to update ages
            left.append(foreign())
        assert left[-1] == 0
        assert left == sorted(left, reverse=True)

    run_on_small_cluster(main)


def test_stopped_queue_is_a_pending_reason() -> None:
    async def main(small: SmallCluster) -> None:
        stopped = next(item for item in await read_queues(small.cache) if item.stopped)
        assert stopped.first
        assert all("is stopped (Hold)" in item.why for item in stopped.first)

    run_on_small_cluster(main)


def test_cluster_without_queues_has_a_hint() -> None:
    assert "sliceworks queues apply" in visible_text(queues_page.queue_panels((), NOW, {}))


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
            started="",
            ended=clock.rfc3339(NOW) if number % 4 in (0, 3) else "",
            usd=float(number) if number % 2 else None,
        )
        for number in range(count)
    ]


TEAMS = {"ns-0": "red", "ns-1": "green"}


def names(query: JobQuery, count: int = 12) -> list[str]:
    return [row.name for _, row in query_jobs(rows(count), TEAMS, query).rows]


def test_jobs_are_sorted_by_state() -> None:
    states = [row.state for _, row in query_jobs(rows(40), TEAMS, JobQuery()).rows]
    assert states == sorted(states, key=lambda word: ("running", "queued").index(word) if word in ("running", "queued") else 2)
    assert names(JobQuery())[:3] == ["job-009", "job-005", "job-001"]  # the oldest on top


def test_jobs_are_filtered_by_words_team_and_state() -> None:
    assert sorted(names(JobQuery("JOB-00 green"))) == ["job-001", "job-004", "job-007"]
    assert sorted(names(JobQuery(team="red"))) == ["job-000", "job-003", "job-006", "job-009"]
    assert sorted(names(JobQuery(state="failed"))) == ["job-003", "job-007", "job-011"]
    assert names(JobQuery("nothing of this name")) == []
    page = query_jobs(rows(12), TEAMS, JobQuery(team="ns-2", state="queued"))
    assert (page.matches, page.total, page.teams) == (1, 12, ("green", "ns-2", "red"))
    assert page.states == (("running", 3), ("queued", 3), ("failed", 3), ("completed", 3))


@pytest.mark.parametrize("column", ["name", "team", "state", "type", "chips", "restarts", "age", "cost"])
def test_every_column_sorts_both_ways(column: str) -> None:
    up, down = JobQuery().by(column), JobQuery().by(column).by(column)
    assert (up.sort, up.descending, down.descending, down.by(column).sort) == (column, False, True, "")
    first, last = query_jobs(rows(12), TEAMS, up).rows[0][1], query_jobs(rows(12), TEAMS, down).rows[0][1]
    if column in ("name", "chips", "age"):
        assert (first.name, last.name) == ("job-000", "job-011")
    if column == "restarts":
        assert (first.restarts, last.restarts) == (0, 4)


def test_page_beyond_the_end_is_the_last_one() -> None:
    page = query_jobs(rows(PAGE_SIZE + 3), TEAMS, JobQuery(page=99))
    assert (len(page.rows), page.first, page.pages, page.query.page) == (3, PAGE_SIZE, 2, 1)
    assert query_jobs([], TEAMS, JobQuery(page=-1)).pages == 1


def test_job_shows_timeline_hosts_and_price() -> None:
    async def main(small: SmallCluster) -> None:
        job = next(job for job in small.synthetic.jobs if job.state == "running")
        view = build_job_view(small.cache, job.team, job.name)
        assert view is not None
        assert [step.event for step in view.steps][:1] == ["submitted"]
        assert [(host.label, host.ready, host.node) for host in view.hosts] == [
            (f"slice-0/{index}", True, f"gke-{job.pools[0]}-{index}") for index in range(4)
        ]
        assert (view.cluster_queue, view.capacity, view.restarts_allowed, view.more_hosts) == (job.team, "on-demand", 3, 0)
        shown = visible_text(
            [*job_detail.job_header(view, None, True, small.cache.now()), job_detail.job_panels(view, small.cache.now())]
        )
        assert "4 of 4 ready" in shown
        assert "Restart" in shown
        assert "Restart" not in visible_text(job_detail.job_header(view, None, False, small.cache.now()))
        small.remove(STORED_JOBSETS, job.name, job.team)
        await small.wait_delivered()
        assert build_job_view(small.cache, job.team, job.name) is None
        assert f"Job {job.team}/{job.name} not found." in visible_text(job_detail.job_not_found(job.team, job.name, ""))

    run_on_small_cluster(main)


def test_job_shows_which_host_is_lost() -> None:
    """A kubelet that is not heard of leaves its pod running."""

    async def main(small: SmallCluster) -> None:
        job = next(job for job in small.synthetic.jobs if job.state == "running")
        name = f"gke-{job.pools[0]}-2"
        node = small.cache.table(NODES).get(name)
        assert node is not None
        silent = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
        small.put(STORED_NODES, {**node, "status": {**node["status"], "conditions": [silent]}})
        await small.wait_delivered()
        view = build_job_view(small.cache, job.team, job.name)
        assert view is not None
        assert view.lost_hosts == {name: "host is unreachable"}
        shown = visible_text(job_detail.job_panels(view, small.cache.now()))
        assert shown.count("host is unreachable") == 1

    run_on_small_cluster(main)


def test_finished_job_names_deleted_pods_and_repeated_events_are_one() -> None:
    async def main(small: SmallCluster) -> None:
        job = next(job for job in small.synthetic.jobs if job.state == "completed")
        small.remove(STORED_PODS, f"{job.name}-slice-0-3", job.team)
        await small.wait_delivered()
        subject = {"kind": "Pod", "namespace": job.team, "name": f"{job.name}-slice-0-0"}
        events = [
            {
                "metadata": {"uid": str(number), "creationTimestamp": minutes_ago(number)},
                "involvedObject": subject,
                "reason": "FailedScheduling",
                "message": f"attempt {number}",
                "count": 2,
            }
            for number in range(3)
        ]
        view = build_job_view(small.cache, job.team, job.name, events)
        assert view is not None
        assert [(event.message, event.times) for event in view.events if event.reason == "FailedScheduling"] == [("attempt 0", 6)]
        shown = visible_text(job_detail.job_panels(view, small.cache.now()))
        assert "3 of 4 succeeded" in shown
        assert "pod deleted" in shown
        assert "no pod yet" not in shown

    run_on_small_cluster(main)


def test_pending_job_can_be_cancelled_but_not_restarted() -> None:
    async def main(small: SmallCluster) -> None:
        job = next(job for job in small.synthetic.jobs if job.state == "queued")
        view = build_job_view(small.cache, job.team, job.name)
        assert view is not None
        shown = visible_text(job_detail.job_header(view, None, True, small.cache.now()))
        assert ("Cancel" in shown, "Restart" in shown) == (True, False)
        assert "Pods are created when the queue admits the job." in visible_text(job_detail.job_panels(view, small.cache.now()))
        assert "its pods and their logs are deleted" in job_detail.confirmation("cancel", view)[0]

    run_on_small_cluster(main)


def test_workload_row() -> None:
    async def main(small: SmallCluster) -> None:
        job = next(job for job in small.synthetic.jobs if job.pools)
        row = small.cache.row_cache(WORKLOADS, workload_row).rows()
        result = next(item for item in row.values() if item.job == job.name)
        assert (result.waits, result.chips, result.queue, result.priority) == (False, 16, "jobs", job.priority)
        assert teams_by_namespace(small.cache)[job.team] == job.team

    run_on_small_cluster(main)


def test_times_and_money_are_formatted() -> None:
    assert format_age("", NOW) == "–"
    assert format_age("2026-01-05T11:59:00Z", NOW) == "60s"
    assert format_elapsed("2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z", NOW) == "60m"
    assert format_elapsed("", "", NOW) == "–"
    assert [format_usd(item) for item in (None, 3.5, 1234.5)] == ["unknown", "$3.50", "$1,234"]


def test_foreign_jobset_gets_type_and_start_from_its_nodes() -> None:
    nodes = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology": "4x4"}
    pod = {"nodeSelector": nodes, "containers": [{"resources": {"limits": {"google.com/tpu": "4"}}}]}
    job = {"name": "workers", "template": {"spec": {"parallelism": 4, "template": {"spec": pod}}}}
    metadata = {"name": "a", "namespace": "b", "creationTimestamp": "2026-01-05T00:00:00Z"}
    row = job_row({"metadata": metadata, "spec": {"replicatedJobs": [job]}})
    assert (row.type, row.hosts, row.chips, row.started) == ("v5litepod-16", 4, 16, row.created)
    assert row.usd == pytest.approx(19.2)
    assert job_row({"metadata": metadata, "spec": {"suspend": True, "replicatedJobs": [job]}}).started == ""


def test_resource_with_zero_quota_has_no_bar() -> None:
    own, none = Quota("v4-32", "google.com/tpu", 32, 16, 0, 0), Quota("l4", "nvidia.com/gpu", 0, 0, 0, 0)
    queue = Queue("a", "", "", (), 0, (own, none), (), 0, ())
    page = queues_page.queue_panels((queue,), NOW, {})
    assert "no quota of l4" in visible_text(page)
    assert str(page).count("'meter'") == 2  # its class and its role
