"""JobSets on an embedded cluster in virtual time; the tests set the status of their Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.jobset_objects import JOBS, JOBSETS, JobSetHarness, replicated

from sliceworks.base import clock
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def _run(main: Callable[[JobSetHarness], Awaitable[None]]) -> None:
    async def run(twin: EmbeddedTwin) -> None:
        await main(JobSetHarness(twin))

    run_on_twin(run, workloads=True)


def test_jobset_completes_when_all_jobs_complete() -> None:
    async def main(harness: JobSetHarness) -> None:
        await harness.create(replicated("a", 2), replicated("b"))
        assert sorted(await harness.jobs()) == ["js-a-0", "js-a-1", "js-b-0"]
        for job in await harness.jobs():
            await harness.end(job, "Complete")
        assert await harness.conditions() == [("Completed", "True", "AllJobsCompleted")]
        assert (await harness.get())["status"]["terminalState"] == "Completed"

    _run(main)


def test_restart_recreates_all_jobs() -> None:
    async def main(harness: JobSetHarness) -> None:
        await harness.create(replicated("a", 2), failurePolicy={"maxRestarts": 2})
        for attempt in (1, 2):
            before = {job["metadata"]["uid"] for job in (await harness.jobs()).values()}
            await harness.end("js-a-0", "Failed")
            jobs = await harness.jobs()
            assert {job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for job in jobs.values()} == {str(attempt)}
            assert not before & {job["metadata"]["uid"] for job in jobs.values()}
        await harness.end("js-a-1", "Failed")
        assert ("Failed", "True", "ReachedMaxRestarts") in await harness.conditions()
        assert sorted(await harness.jobs()) == ["js-a-1"]

    _run(main)


def test_ttl_counts_from_completion() -> None:
    async def main(harness: JobSetHarness) -> None:
        await harness.create(replicated("a"), ttlSecondsAfterFinished=3600)
        await harness.end("js-a-0", "Complete")
        await clock.sleep(3500)
        assert await harness.conditions()
        await clock.sleep(200)
        assert await harness.twin.gone(f"{JOBSETS}/js")
        assert not await harness.jobs()

    _run(main)


def test_reconcile_converges_after_an_interrupted_resume() -> None:
    async def main(harness: JobSetHarness) -> None:
        await harness.create(replicated("a", 3), replicated("b"), suspend=True)
        (controller,) = (item for item in harness.twin.cluster.controllers.controllers if type(item).__name__ == "JobSetReconciler")
        await harness.twin.do("DELETE", f"{JOBS}/js-a-1")
        await harness.twin.do("PATCH", f"{JOBSETS}/js", {"spec": {"suspend": False}})
        await controller.sync(("default", "js"))
        await harness.twin.quiet()
        jobs = await harness.jobs()
        assert sorted(jobs) == ["js-a-0", "js-a-1", "js-a-2", "js-b-0"]
        assert not any(job["spec"]["suspend"] for job in jobs.values())

    _run(main)


def test_invalid_restart_label_blocks_the_jobset_until_it_is_fixed() -> None:
    async def main(harness: JobSetHarness) -> None:
        await harness.create(replicated("a"))
        label = "jobset.sigs.k8s.io/restart-attempt"
        await harness.twin.do("PATCH", f"{JOBS}/js-a-0", {"metadata": {"labels": {label: "x"}}})
        await harness.end("js-a-0", "Complete")
        assert not await harness.conditions()
        await harness.twin.do("PATCH", f"{JOBS}/js-a-0", {"metadata": {"labels": {label: "0"}}})
        await harness.twin.quiet()
        assert await harness.conditions() == [("Completed", "True", "AllJobsCompleted")]

    _run(main)


def test_job_creation_failure_is_one_event_and_is_retried() -> None:
    async def main(harness: JobSetHarness) -> None:
        template = replicated("a")["template"]["spec"]["template"]
        job = {"metadata": {"name": "js-a-0"}, "spec": {"suspend": True, "template": template}}
        await harness.twin.do("POST", JOBS, job)
        await harness.create(replicated("a"))
        (event,) = [
            item
            for item in (await harness.twin.do("GET", "/api/v1/namespaces/default/events"))["items"]
            if item["reason"] == "JobCreationFailed"
        ]
        assert event["message"] == 'job "js-a-0" creation failed with error: jobs.batch "js-a-0" already exists'
        assert event["series"]["count"] == 2
        await harness.twin.do("DELETE", f"{JOBS}/js-a-0?propagationPolicy=Background")
        await clock.sleep(120)
        assert "ownerReferences" in (await harness.jobs())["js-a-0"]["metadata"]

    _run(main)


def test_history_is_deterministic() -> None:
    def history() -> list[Any]:
        changes: list[Any] = []

        async def main(harness: JobSetHarness) -> None:
            harness.twin.cluster.store.subscribe(lambda change: changes.append((change.type, change.resource, change.entry.data)))
            await harness.create(replicated("a", 3), failurePolicy={"maxRestarts": 1})
            await harness.end("js-a-2", "Failed")

        _run(main)
        return changes

    assert history() == history()


def test_definition_is_established_and_has_columns() -> None:
    async def main(harness: JobSetHarness) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
        definition = await harness.twin.do("GET", path)
        assert {condition["type"]: condition["status"] for condition in definition["status"]["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        await harness.create(replicated("a"))
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        shown = await harness.twin.do("GET", JOBSETS, accept=table)
        assert [column["name"] for column in shown["columnDefinitions"]] == [
            "Name", "TerminalState", "Restarts", "Completed", "Suspended", "Age",
        ]  # fmt: skip

    _run(main)


def test_jobset_continues_after_a_restart_of_the_twin(tmp_path: Path) -> None:
    async def before(twin: EmbeddedTwin) -> None:
        await JobSetHarness(twin).create(replicated("a", 2), failurePolicy={"maxRestarts": 1})
        await JobSetHarness(twin).end("js-a-0", "Failed")

    async def after(twin: EmbeddedTwin) -> None:
        harness = JobSetHarness(twin)
        assert sorted(await harness.jobs()) == ["js-a-0", "js-a-1"]
        for job in ("js-a-0", "js-a-1"):
            await harness.end(job, "Complete")
        assert ("Completed", "True", "AllJobsCompleted") in await harness.conditions()
        assert (await harness.get())["status"]["restarts"] == 1

    for part in (before, after):
        run_on_twin(part, Store(Journal(tmp_path / "store.db")), workloads=True)
