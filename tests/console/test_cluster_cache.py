"""The console's cluster cache: kept current, indexed, and explicit about stale and missing data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from bench.harness.synthetic_cluster import JOBSETS as STORED_JOBSETS
from bench.harness.synthetic_cluster import PODS as STORED_PODS
from tests.console.test_views import visible_text
from tests.support.small_cluster import SmallCluster, run_on_small_cluster

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unauthorized, Unreachable
from sliceworks.base.transport import Response
from sliceworks.console import cluster_cache
from sliceworks.console.auth import read_only
from sliceworks.console.cluster_cache import ClusterCache
from sliceworks.console.kinds import EVENTS, JOBSETS, NODES, PODS, WORKLOADS
from sliceworks.console.pages import overview as overview_page
from sliceworks.console.views.cluster_summary import build_overview
from sliceworks.console.views.job_view import job_row
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP, Key, Resource
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.base.transport import Request, Transport

Object = dict[str, Any]


def test_objects_are_listed_and_indexed() -> None:
    async def main(small: SmallCluster) -> None:
        cache, job = small.cache, next(job for job in small.synthetic.jobs if job.pools)
        assert {cache.table(kind).state for kind in (JOBSETS, WORKLOADS, PODS, NODES, EVENTS)} == {"known"}
        assert len(cache.table(JOBSETS).store) == 200
        pods = cache.table(PODS).store
        assert len(pods.by_index("job", f"{job.team}/{job.name}")) == 4
        assert len(pods.by_index("node", f"gke-{job.pools[0]}-0")) == 1
        assert [item["metadata"]["name"] for item in cache.table(WORKLOADS).store.by_index("owner", job.uid)] == [
            f"jobset-{job.name}"
        ]
        assert len(cache.table(NODES).store.by_index("pool", job.pools[0])) == 4
        assert "managedFields" not in next(iter(pods))["metadata"]

    run_on_small_cluster(main)


def test_feed_returns_each_change_once() -> None:
    async def main(small: SmallCluster) -> None:
        job = next(job for job in small.synthetic.jobs if job.state == "running")
        feed, other = small.cache.feed(JOBSETS, PODS), small.cache.feed(PODS)
        assert feed.take() == {}
        for restarts in range(3):
            small.put(STORED_PODS, small.synthetic.pod(job, 1, restarts))
        small.remove(STORED_JOBSETS, job.name, job.team)
        await small.wait_delivered()
        assert feed.take() == {PODS: {Key(job.team, f"{job.name}-slice-0-1")}, JOBSETS: {Key(job.team, job.name)}}
        assert feed.take() == {}
        assert list(other.take()) == [PODS]

    run_on_small_cluster(main)


def test_feed_that_lags_returns_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.console.cluster_cache._MAX_CHANGES", 3)

    async def main(small: SmallCluster) -> None:
        running = [job for job in small.synthetic.jobs if job.state == "running"]
        feed = small.cache.feed(PODS)
        for job in running[:5]:
            small.put(STORED_PODS, small.synthetic.pod(job, 0, 9))
        await small.wait_delivered()
        assert len(feed.take()[PODS]) == len(small.cache.table(PODS).store)

    run_on_small_cluster(main)


def test_rows_are_rebuilt_only_for_changed_objects() -> None:
    async def main(small: SmallCluster) -> None:
        built: list[str] = []

        def row(obj: dict[str, object]) -> str:
            name: str = obj["metadata"]["name"]  # type: ignore[index]
            built.append(name)
            return name

        row_cache = small.cache.row_cache(JOBSETS, row)
        assert row_cache is small.cache.row_cache(JOBSETS, row)
        assert len(row_cache.rows()) == len(built) == 200
        job = small.synthetic.jobs[3]
        small.put(STORED_JOBSETS, small.synthetic.jobset(job))
        small.remove(STORED_JOBSETS, small.synthetic.jobs[4].name, small.synthetic.jobs[4].team)
        await small.wait_delivered()
        assert len(row_cache.rows()) == 199
        assert built[200:] == [job.name]

    run_on_small_cluster(main)


def test_malformed_object_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def main(small: SmallCluster) -> None:
        row_cache = small.cache.row_cache(JOBSETS, job_row)
        assert len(row_cache.rows()) == 20
        odd = small.synthetic.jobset(small.synthetic.jobs[0])
        small.put(STORED_JOBSETS, {**odd, "metadata": {**odd["metadata"], "name": "odd"}, "spec": {}})
        await small.wait_delivered()
        assert len(row_cache.rows()) == 20
        small.put(STORED_JOBSETS, {**odd, "spec": {}})
        await small.wait_delivered()
        assert len(row_cache.rows()) == 19
        assert build_overview(small.cache).running > 0

    run_on_small_cluster(main, jobs=20, slices=8)
    assert "skipping malformed" in caplog.text


def test_view_is_cached_until_a_change() -> None:
    async def main(small: SmallCluster) -> None:
        calls: list[int] = []

        def view(cache: ClusterCache) -> int:
            calls.append(1)
            return len(cache.table(JOBSETS).store)

        cache = small.cache
        assert [cache.compute(view, JOBSETS) for _ in range(3)] == [200] * 3
        small.remove(STORED_JOBSETS, small.synthetic.jobs[0].name, small.synthetic.jobs[0].team)
        await clock.sleep(0.1)
        assert cache.compute(view, JOBSETS) == 200  # half a second is soon enough
        await small.wait_delivered()
        assert (cache.compute(view, JOBSETS), len(calls)) == (199, 2)

    run_on_small_cluster(main)


def test_missing_kind_is_not_an_error_and_is_found_later() -> None:
    missing = Resource("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False)

    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster, ClusterCache(Client(cluster.transport())) as cache:
            await cache.settled(60)
            assert cache.table(JOBSETS).problem == "JobSet is not installed in this cluster."
            assert cache.table(WORKLOADS).problem == "Kueue is not installed in this cluster."
            table = cache.table(missing)
            assert table.problem.startswith("Loading")
            await clock.sleep(5)
            assert (table.state, table.problem) == ("missing", "The graph controller is not installed in this cluster.")
            assert cache.table(PODS).problem == ""
            await Client(cluster.transport()).create(definition(missing))
            await clock.sleep(90)
            assert cache.table(missing).problem == ""

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


def test_unreachable_cluster_is_reported_with_its_time() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            line = CuttableTransport(cluster.transport())
            async with ClusterCache(Client(line)) as cache:
                await clock.sleep(10)
                assert _stale(cache) is None
                line.cut, fell = True, clock.now()
                await clock.sleep(10)
                since = _stale(cache)
                assert since is not None
                assert abs((since - fell).total_seconds()) < 3
                await clock.sleep(700)  # watches last as long
                assert (cache.is_stale, cache.table(PODS).state) == (True, "known")
                line.cut = False
                await clock.sleep(10)
                assert (_stale(cache), cache.is_stale) == (None, False)

    clock.run(main(), virtual=True)


class CuttableTransport:
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


def _stale(cache: ClusterCache) -> datetime | None:
    return cache.stale_since


def test_read_only_console_sends_only_reads() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            reader = read_only(client)
            config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
            await client.create(config_map)
            assert (await reader.get(CONFIG_MAP, "a", "default"))["metadata"]["name"] == "a"
            writes = [
                reader.create(config_map),
                reader.delete(CONFIG_MAP, "a", "default"),
                reader.patch(CONFIG_MAP, "a", {"data": {"x": "1"}}, "default"),
                reader.using(namespace="default").apply(config_map),
            ]
            for write in writes:
                with pytest.raises(SliceworksError, match="this console is read-only"):
                    await write
            assert "data" not in await client.get(CONFIG_MAP, "a", "default")

    clock.run(main(), virtual=True)


def test_single_namespace_is_read_without_cluster_permissions() -> None:
    async def main(small: SmallCluster) -> None:
        async with ClusterCache(Client(small.cluster.transport()), namespace="gemma") as cache:
            await cache.settled(60)
            expected = {job.name for job in small.synthetic.jobs if job.team == "gemma"}
            assert {item["metadata"]["name"] for item in cache.table(JOBSETS).all()} == expected
            assert len(cache.table(NODES).store) == 4 * 64
            assert cache.problems(JOBSETS, WORKLOADS, NODES) == []

    run_on_small_cluster(main)


class RejectingTransport:
    """A cluster that answers every request with the same error while it is active."""

    def __init__(self, code: int, reason: str, upstream: Transport | None = None) -> None:
        self._status = {"kind": "Status", "reason": reason, "message": reason, "code": code}
        self._code, self.upstream = code, upstream

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        if self.upstream is not None:
            return await self.upstream.send(request, stream=stream)
        return Response(self._code, {}, orjson.dumps(self._status))

    async def close(self) -> None:
        return


def test_forbidden_kinds_are_reported() -> None:
    async def main() -> None:
        async with ClusterCache(Client(RejectingTransport(403, "Forbidden"))) as cache:
            await cache.settled(60)
            assert cache.problems(JOBSETS, PODS, NODES) == ["You are not allowed to list jobsets, pods and nodes in this cluster."]
            assert cache.stale_since is None  # a rejection is a response
            assert (cache.is_unauthorized, cache.knows(PODS)) == (False, False)
            page = visible_text(overview_page.overview_panels(build_overview(cache), cache.now(), cache.knows))
            assert "Ready hosts – unknown" in page
            assert "has no queues" not in page

    clock.run(main(), virtual=True)


def test_invalid_or_expired_credentials_are_reported() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            transport = RejectingTransport(401, "Unauthorized")
            async with ClusterCache(Client(transport)) as cache:
                await cache.settled(60)
                assert cache.problems(JOBSETS, PODS) == [cluster_cache.UNAUTHORIZED]
                assert cache.is_unauthorized
                transport.upstream = cluster.transport()
                await clock.sleep(10)
                assert (cache.is_unauthorized, cache.problems(PODS), cache.is_stale) == (False, [], False)
                transport.upstream = None
                await clock.sleep(700)  # watches last as long
                assert (cache.is_unauthorized, cache.knows(PODS), cache.is_stale) == (True, True, True)
                [message] = cache.problems(PODS)
                assert message == "You are no longer allowed to list pods in this cluster; the data shown is stale."
                assert cluster_cache.format_error(Unauthorized("Unauthorized")) == cluster_cache.UNAUTHORIZED

    clock.run(main(), virtual=True)
