"""JobSets on an embedded cluster in virtual time; the test says how their Jobs fare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import Embedded, on_twin
from tests.support.jobset_objects import JOBS, JOBSETS, Stage, replicated

from sliceworks.base import clock
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def _on_stage(main: Callable[[Stage], Awaitable[None]]) -> None:
    async def whole(twin: Embedded) -> None:
        await main(Stage(twin))

    on_twin(whole, workloads=True)


def test_from_creation_to_completion() -> None:
    async def main(stage: Stage) -> None:
        await stage.create(replicated("a", 2), replicated("b"))
        assert sorted(await stage.jobs()) == ["js-a-0", "js-a-1", "js-b-0"]
        for job in await stage.jobs():
            await stage.end(job, "Complete")
        assert await stage.conditions() == [("Completed", "True", "AllJobsCompleted")]
        assert (await stage.get())["status"]["terminalState"] == "Completed"

    _on_stage(main)


def test_every_restart_makes_all_jobs_anew() -> None:
    async def main(stage: Stage) -> None:
        await stage.create(replicated("a", 2), failurePolicy={"maxRestarts": 2})
        for attempt in (1, 2):
            before = {job["metadata"]["uid"] for job in (await stage.jobs()).values()}
            await stage.end("js-a-0", "Failed")
            jobs = await stage.jobs()
            assert {job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for job in jobs.values()} == {str(attempt)}
            assert not before & {job["metadata"]["uid"] for job in jobs.values()}
        await stage.end("js-a-1", "Failed")
        assert ("Failed", "True", "ReachedMaxRestarts") in await stage.conditions()
        assert sorted(await stage.jobs()) == ["js-a-1"]

    _on_stage(main)


def test_time_to_live_counts_from_the_end() -> None:
    async def main(stage: Stage) -> None:
        await stage.create(replicated("a"), ttlSecondsAfterFinished=3600)
        await stage.end("js-a-0", "Complete")
        await clock.sleep(3500)
        assert await stage.conditions()
        await clock.sleep(200)
        assert await stage.twin.gone(f"{JOBSETS}/js")
        assert not await stage.jobs()

    _on_stage(main)


def test_it_converges_wherever_it_was_stopped() -> None:
    async def main(stage: Stage) -> None:
        await stage.create(replicated("a", 3), replicated("b"), suspend=True)
        (controller,) = (each for each in stage.twin.cluster.controllers.all if type(each).__name__ == "JobSets")
        await stage.twin.do("DELETE", f"{JOBS}/js-a-1")
        await stage.twin.do("PATCH", f"{JOBSETS}/js", {"spec": {"suspend": False}})
        await controller.sync(("default", "js"))
        await stage.twin.quiet()
        jobs = await stage.jobs()
        assert sorted(jobs) == ["js-a-0", "js-a-1", "js-a-2", "js-b-0"]
        assert not any(job["spec"]["suspend"] for job in jobs.values())

    _on_stage(main)


def test_a_job_with_a_broken_label_stops_everything_until_it_is_mended() -> None:
    async def main(stage: Stage) -> None:
        await stage.create(replicated("a"))
        label = "jobset.sigs.k8s.io/restart-attempt"
        await stage.twin.do("PATCH", f"{JOBS}/js-a-0", {"metadata": {"labels": {label: "x"}}})
        await stage.end("js-a-0", "Complete")
        assert not await stage.conditions()
        await stage.twin.do("PATCH", f"{JOBS}/js-a-0", {"metadata": {"labels": {label: "0"}}})
        await stage.twin.quiet()
        assert await stage.conditions() == [("Completed", "True", "AllJobsCompleted")]

    _on_stage(main)


def test_a_name_that_is_taken_is_told_once_and_tried_again() -> None:
    async def main(stage: Stage) -> None:
        template = replicated("a")["template"]["spec"]["template"]
        job = {"metadata": {"name": "js-a-0"}, "spec": {"suspend": True, "template": template}}
        await stage.twin.do("POST", JOBS, job)
        await stage.create(replicated("a"))
        (event,) = [
            each
            for each in (await stage.twin.do("GET", "/api/v1/namespaces/default/events"))["items"]
            if each["reason"] == "JobCreationFailed"
        ]
        assert event["message"] == 'job "js-a-0" creation failed with error: jobs.batch "js-a-0" already exists'
        assert event["series"]["count"] == 2
        await stage.twin.do("DELETE", f"{JOBS}/js-a-0?propagationPolicy=Background")
        await clock.sleep(120)
        assert "ownerReferences" in (await stage.jobs())["js-a-0"]["metadata"]

    _on_stage(main)


def test_the_same_seed_gives_the_same_history() -> None:
    def history() -> list[Any]:
        seen: list[Any] = []

        async def main(stage: Stage) -> None:
            stage.twin.cluster.store.subscribe(lambda change: seen.append((change.type, change.resource, change.entry.data)))
            await stage.create(replicated("a", 3), failurePolicy={"maxRestarts": 1})
            await stage.end("js-a-2", "Failed")

        _on_stage(main)
        return seen

    assert history() == history()


def test_the_definition_is_an_ordinary_one() -> None:
    async def main(stage: Stage) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
        definition = await stage.twin.do("GET", path)
        assert {each["type"]: each["status"] for each in definition["status"]["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        await stage.create(replicated("a"))
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        shown = await stage.twin.do("GET", JOBSETS, accept=table)
        assert [column["name"] for column in shown["columnDefinitions"]] == [
            "Name", "TerminalState", "Restarts", "Completed", "Suspended", "Age",
        ]  # fmt: skip

    _on_stage(main)


def test_it_goes_on_where_another_process_ended(tmp_path: Path) -> None:
    async def before(twin: Embedded) -> None:
        await Stage(twin).create(replicated("a", 2), failurePolicy={"maxRestarts": 1})
        await Stage(twin).end("js-a-0", "Failed")

    async def after(twin: Embedded) -> None:
        stage = Stage(twin)
        assert sorted(await stage.jobs()) == ["js-a-0", "js-a-1"]
        for job in ("js-a-0", "js-a-1"):
            await stage.end(job, "Complete")
        assert ("Completed", "True", "AllJobsCompleted") in await stage.conditions()
        assert (await stage.get())["status"]["restarts"] == 1

    for part in (before, after):
        on_twin(part, Store(Journal(tmp_path / "store.db")), workloads=True)
