"""`slices list`, `show` and `drain` beside the controller and a twin's cloud, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import texts
from tests.support.slices import Rig, jobset, on_rig

from sliceworks.base import clock, tables
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import clouds, main, slices
from sliceworks.cli.slice_page import page
from sliceworks.cli.slice_sources import Sources
from sliceworks.controllers.slices.settings import Settings
from sliceworks.controllers.slices.views import Ref

if TYPE_CHECKING:
    from pathlib import Path


async def listed(sources: Sources, namespace: str | None = "default") -> str:
    found = slices._wanted(await sources.slices(), namespace)
    return tables.render(slices._WIDE, [slices._row(view, "wide") for view in found])


def test_a_jobset_from_waiting_to_gone() -> None:
    async def course(rig: Rig) -> None:
        sources = Sources(rig.client, rig.container)
        await rig.client.create(jobset("train", 2, seconds=600))
        told = []
        for seconds in (5, 100):
            await clock.sleep(seconds)
            told += [await listed(sources), page(await sources.named("train"))]
        name = (await sources.slices())[0].name
        told.append(page(await sources.named(name)))
        texts.check("slices", "\n\n".join(text.rstrip("\n") for text in told) + "\n")
        assert (await sources.named(name)).data()["ownerConditions"]
        await clock.sleep(900)
        assert await sources.slices() == []
        assert "It has no slices." in page(await sources.named("train"))

    on_rig(course)


def test_a_drained_jobset_gives_its_slices_back_and_gets_none() -> None:
    async def course(rig: Rig) -> None:
        sources = Sources(rig.client, rig.container)
        await rig.client.create(jobset("train", 2, seconds=6000, failurePolicy={"maxRestarts": 9}))
        await rig.client.create(jobset("other", 1, seconds=6000, failurePolicy={"maxRestarts": 9}))
        await clock.sleep(120)
        owners = await sources.owners((await sources.slices())[-1].name)
        assert dict(owners) == {("default", "train"): 2}
        assert await sources.owners("train") == owners
        assert sum((await sources.owners(None)).values()) == 3
        for owner in owners:
            await sources.drain(owner, undo=False)
        await clock.sleep(300)
        # The two may have taken each other's slices: what is left is the one that the other sits on.
        assert len(await sources.slices()) == 1
        running = {pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] for pod in await rig.pods("Running")}
        assert running == {"other"}
        for owner in owners:
            await sources.drain(owner, undo=True)
        await rig.until(lambda: _ready(sources, 3), 600)

    on_rig(course)


def test_a_drained_cluster_holds_jobsets_made_later_until_all_are_freed() -> None:
    async def course(rig: Rig) -> None:
        sources = Sources(rig.client, rig.container)
        await rig.client.create(jobset("early", 1, seconds=6000))
        await clock.sleep(120)
        assert len(await sources.slices()) == 1
        await sources.drain(Ref("default", "early"), undo=False)
        await sources.drain_everything(undo=False)
        await clock.sleep(300)
        await rig.client.create(jobset("later", 1, seconds=6000))
        await clock.sleep(300)
        assert await sources.slices() == []
        assert await sources.drained() == [("default", "early")]
        assert "Draining: 0 of 1 slices are ready" in page(await sources.named("later"))
        await sources.drain_everything(undo=True)
        for owner in await sources.drained():
            await sources.drain(owner, undo=True)
        assert await sources.drained() == []
        await rig.until(lambda: _ready(sources, 1), 600)

    on_rig(course)


async def _ready(sources: Sources, count: int) -> bool:
    return [view.state for view in await sources.slices()] == ["ready"] * count


def test_why_a_slice_cannot_be_had_is_shown() -> None:
    async def course(rig: Rig) -> None:
        sources = Sources(rig.client, rig.container)
        rig.cluster.cloud.faults.add({"fault": "Stockout"})
        await rig.client.create(jobset("train", 1))

        async def told() -> bool:
            return "does not have enough resources available" in page(await sources.named("train"))

        await rig.until(told, 600)

    on_rig(course)


def test_pools_of_others_are_listed_and_left_alone() -> None:
    async def course(rig: Rig) -> None:
        sources = Sources(rig.client, rig.container)
        gpu = {"name": "gpus", "initialNodeCount": 1, "locations": ["us-central2-b"], "config": {"machineType": "a3-highgpu-8g"}}
        cpu = {"name": "cpus", "initialNodeCount": 1, "config": {"machineType": "e2-standard-4"}}
        await rig.container.create(gpu)
        await rig.container.create(cpu)
        await clock.sleep(120)
        assert "gpus" in await listed(sources, None)
        assert "cpus" not in await listed(sources, None)
        assert "gpus" not in await listed(sources)
        with pytest.raises(SliceworksError, match="gpus was not made for a JobSet"):
            await sources.owners("gpus")
        with pytest.raises(SliceworksError, match="there is no slice and no JobSet 'nothing' in default"):
            await sources.named("nothing")

    on_rig(course)


def test_which_cluster_of_the_cloud_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GCP_PROJECT_ID", "GCP_CLUSTER", "GCP_CLUSTER_LOCATION"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text("current-context: gke_p_us-central1_c\n")
    monkeypatch.setenv("KUBECONFIG", str(config))

    def names(**flags: str) -> tuple[str, ...]:
        found = clouds.settings_for(flags, twin=False)
        return found.project, found.location, found.cluster

    assert names() == ("p", "us-central1", "c")
    assert names(cluster="mine") == ("p", "us-central1", "mine")
    monkeypatch.setenv("GCP_PROJECT_ID", "from-the-environment")
    assert names() == ("from-the-environment", "us-central1", "c")
    assert names(project="a", location="b", cluster="d") == ("a", "b", "d")
    config.write_text("current-context: kind-kind\n")
    assert names(project="a") == ("a", "", "")
    config.unlink()  # as in a pod, where the metadata server tells the rest
    assert names(project="a") == ("a", "", "")


def test_a_cluster_that_nobody_names_is_asked_for() -> None:
    async def course() -> None:
        async with clouds.open_container(Settings(project="p", token="t")):
            raise AssertionError("unreachable")

    with pytest.raises(UsageError, match="the location is not known"):
        clock.run(course())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["drain"], "error: name a slice or a JobSet, or say --all\n"),
        (["drain", "x", "--all"], "error: name a slice or a JobSet, or say --all\n"),
        (["list", "--twin", "--context", "c"], "error: --twin and --kubeconfig or --context name two clusters\n"),
        (["list", "--twin"], "error: the twin 'default' does not run\nhint: sliceworks twin start --name default\n"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path))
    assert main.run(["slices", *arguments]) in (1, 2)
    assert capsys.readouterr().err.startswith(message)
