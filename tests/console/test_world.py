"""The world that pages read: kept current, indexed, and honest about what it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from bench.measure.console_worlds import JOBSETS as STORED_JOBSETS
from bench.measure.console_worlds import PODS as STORED_PODS
from tests.console.test_views import said
from tests.support.small_worlds import Small, on_small

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unauthorized, Unreachable
from sliceworks.console import knowing
from sliceworks.console.kinds import EVENTS, JOBSETS, NODES, PODS, WORKLOADS
from sliceworks.console.looking import looking_only
from sliceworks.console.pages import overview as overview_page
from sliceworks.console.views.jobs import job_row
from sliceworks.console.views.overview import overview
from sliceworks.console.world import World
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Key, Resource
from sliceworks.kube.transport import Response
from sliceworks.kube.well_known import CONFIG_MAP
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.kube.transport import Request, Transport

Object = dict[str, Any]


def test_everything_is_read_and_found_by_its_indexes() -> None:
    async def main(small: Small) -> None:
        world, job = small.world, next(each for each in small.made.jobs if each.pools)
        assert {world.table(kind).state for kind in (JOBSETS, WORKLOADS, PODS, NODES, EVENTS)} == {"known"}
        assert len(world.table(JOBSETS).store) == 200
        pods = world.table(PODS).store
        assert len(pods.by_index("job", f"{job.team}/{job.name}")) == 4
        assert len(pods.by_index("node", f"gke-{job.pools[0]}-0")) == 1
        assert [each["metadata"]["name"] for each in world.table(WORKLOADS).store.by_index("owner", job.uid)] == [
            f"jobset-{job.name}"
        ]
        assert len(world.table(NODES).store.by_index("pool", job.pools[0])) == 4
        assert "managedFields" not in next(iter(pods))["metadata"]

    on_small(main)


def test_a_feed_tells_what_has_changed_since_one_looked_and_each_only_once() -> None:
    async def main(small: Small) -> None:
        job = next(each for each in small.made.jobs if each.state == "running")
        feed, other = small.world.feed(JOBSETS, PODS), small.world.feed(PODS)
        assert feed.take() == {}
        for restarts in range(3):
            small.put(STORED_PODS, small.made.pod(job, 1, restarts))
        small.remove(STORED_JOBSETS, job.name, job.team)
        await small.heard()
        assert feed.take() == {PODS: {Key(job.team, f"{job.name}-slice-0-1")}, JOBSETS: {Key(job.team, job.name)}}
        assert feed.take() == {}
        assert list(other.take()) == [PODS]

    on_small(main)


def test_whoever_looked_too_long_ago_is_told_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.tables._REMEMBERED", 3)

    async def main(small: Small) -> None:
        running = [each for each in small.made.jobs if each.state == "running"]
        feed = small.world.feed(PODS)
        for job in running[:5]:
            small.put(STORED_PODS, small.made.pod(job, 0, 9))
        await small.heard()
        assert len(feed.take()[PODS]) == len(small.world.table(PODS).store)

    on_small(main)


def test_rows_are_made_again_only_for_what_has_changed() -> None:
    async def main(small: Small) -> None:
        made: list[str] = []

        def row(obj: dict[str, object]) -> str:
            name: str = obj["metadata"]["name"]  # type: ignore[index]
            made.append(name)
            return name

        ledger = small.world.ledger(JOBSETS, row)
        assert ledger is small.world.ledger(JOBSETS, row)
        assert len(ledger.rows()) == len(made) == 200
        job = small.made.jobs[3]
        small.put(STORED_JOBSETS, small.made.jobset(job))
        small.remove(STORED_JOBSETS, small.made.jobs[4].name, small.made.jobs[4].team)
        await small.heard()
        assert len(ledger.rows()) == 199
        assert made[200:] == [job.name]

    on_small(main)


def test_an_odd_object_is_left_out_and_takes_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def main(small: Small) -> None:
        ledger = small.world.ledger(JOBSETS, job_row)
        assert len(ledger.rows()) == 20
        odd = small.made.jobset(small.made.jobs[0])
        small.put(STORED_JOBSETS, {**odd, "metadata": {**odd["metadata"], "name": "odd"}, "spec": {}})
        await small.heard()
        assert len(ledger.rows()) == 20
        small.put(STORED_JOBSETS, {**odd, "spec": {}})
        await small.heard()
        assert len(ledger.rows()) == 19
        assert overview(small.world).running > 0

    on_small(main, jobs=20, slices=8)
    assert "is left out" in caplog.text


def test_a_view_is_reckoned_once_for_all_and_again_after_a_change() -> None:
    async def main(small: Small) -> None:
        calls: list[int] = []

        def view(world: World) -> int:
            calls.append(1)
            return len(world.table(JOBSETS).store)

        world = small.world
        assert [world.once(view, JOBSETS) for _ in range(3)] == [200] * 3
        small.remove(STORED_JOBSETS, small.made.jobs[0].name, small.made.jobs[0].team)
        await clock.sleep(0.1)
        assert world.once(view, JOBSETS) == 200  # half a second is soon enough
        await small.heard()
        assert (world.once(view, JOBSETS), len(calls)) == (199, 2)

    on_small(main)


def test_a_kind_that_is_not_installed_is_no_error_and_is_found_when_it_comes() -> None:
    missing = Resource("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False)

    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster, World(Client(cluster.transport())) as world:
            await world.settled(60)
            assert world.table(JOBSETS).trouble == "JobSet is not installed in this cluster."
            assert world.table(WORKLOADS).trouble == "Kueue is not installed in this cluster."
            table = world.table(missing)
            assert table.trouble.startswith("Reading")
            await clock.sleep(5)
            assert (table.state, table.trouble) == ("missing", "The graph controller is not installed in this cluster.")
            assert world.table(PODS).trouble == ""
            await Client(cluster.transport()).create(definition(missing))
            await clock.sleep(90)
            assert world.table(missing).trouble == ""

    clock.run(main(), virtual=True)


def definition(resource: Resource) -> Object:
    """A kind that is installed later."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": resource.version, "served": True, "storage": True, "schema": schema}
    spec = {
        "group": resource.group,
        "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()},
        "scope": "Cluster",
        "versions": [version],
    }
    name = f"{resource.plural}.{resource.group}"
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": spec}


def test_a_cluster_that_does_not_answer_is_told_with_the_moment_it_fell_silent() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            line = Line(cluster.transport())
            async with World(Client(line)) as world:
                await clock.sleep(10)
                assert _stale(world) is None
                line.cut, fell = True, clock.now()
                await clock.sleep(10)
                since = _stale(world)
                assert since is not None
                assert abs((since - fell).total_seconds()) < 3
                await clock.sleep(700)  # watches last as long
                assert (world.behind, world.table(PODS).state) == (True, "known")
                line.cut = False
                await clock.sleep(10)
                assert (_stale(world), world.behind) == (None, False)

    clock.run(main(), virtual=True)


class Line:
    """A connection that can be cut."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.cut = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        if self.cut:
            raise Unreachable("no answer")
        return await self._transport.send(request, stream=stream)

    async def close(self) -> None:
        await self._transport.close()


def _stale(world: World) -> datetime | None:
    return world.stale_since


def test_a_console_that_only_looks_sends_nothing_but_reads() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            looking = looking_only(client)
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
            await client.create(made)
            assert (await looking.get(CONFIG_MAP, "a", "default"))["metadata"]["name"] == "a"
            writes = [
                looking.create(made),
                looking.delete(CONFIG_MAP, "a", "default"),
                looking.patch(CONFIG_MAP, "a", {"data": {"x": "1"}}, "default"),
                looking.using(namespace="default").apply(made),
            ]
            for write in writes:
                with pytest.raises(SliceworksError, match="this console only looks"):
                    await write
            assert "data" not in await client.get(CONFIG_MAP, "a", "default")

    clock.run(main(), virtual=True)


def test_one_namespace_alone_is_read_by_those_who_may_not_see_all() -> None:
    async def main(small: Small) -> None:
        async with World(Client(small.cluster.transport()), namespace="gemma") as world:
            await world.settled(60)
            wanted = {job.name for job in small.made.jobs if job.team == "gemma"}
            assert {each["metadata"]["name"] for each in world.table(JOBSETS).all()} == wanted
            assert len(world.table(NODES).store) == 4 * 64
            assert world.troubles(JOBSETS, WORKLOADS, NODES) == []

    on_small(main)


class Refusing:
    """A cluster that answers everything with one refusal, as long as it does."""

    def __init__(self, code: int, reason: str, transport: Transport | None = None) -> None:
        self._status = {"kind": "Status", "reason": reason, "message": reason, "code": code}
        self._code, self.transport = code, transport

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        if self.transport is not None:
            return await self.transport.send(request, stream=stream)
        return Response(self._code, {}, orjson.dumps(self._status))

    async def close(self) -> None:
        return


def test_what_one_may_not_see_is_said_in_words() -> None:
    async def main() -> None:
        async with World(Client(Refusing(403, "Forbidden"))) as world:
            await world.settled(60)
            assert world.troubles(JOBSETS, PODS, NODES) == ["You may not read the jobsets, pods and nodes of this cluster."]
            assert world.stale_since is None  # a refusal is an answer
            assert (world.shut_out, world.knows(PODS)) == (False, False)
            page = said(overview_page.nodes(overview(world), world.now(), world.knows))
            assert "Hosts ready – not known" in page
            assert "has no queues" not in page

    clock.run(main(), virtual=True)


def test_credentials_that_are_wrong_or_run_out_are_said_in_words() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            door = Refusing(401, "Unauthorized")
            async with World(Client(door)) as world:
                await world.settled(60)
                assert world.troubles(JOBSETS, PODS) == [knowing.SHUT_OUT]
                assert world.shut_out
                door.transport = cluster.transport()
                await clock.sleep(10)
                assert (world.shut_out, world.troubles(PODS), world.behind) == (False, [], False)
                door.transport = None
                await clock.sleep(700)  # watches last as long
                assert (world.shut_out, world.knows(PODS), world.behind) == (True, True, True)
                [told] = world.troubles(PODS)
                assert told == "You may no longer read the pods of this cluster: what is shown of them is old."
                assert knowing.said(Unauthorized("Unauthorized")) == knowing.SHUT_OUT

    clock.run(main(), virtual=True)
