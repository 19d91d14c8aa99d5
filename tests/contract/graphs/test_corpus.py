"""A corpus of graph definitions on the real kro and on our controller: both accept the same definitions and create the same
objects, on a real API server and on the twin's.

kro's outcomes are recorded in `goldens/graph_corpus.json` by a run on a real kube-apiserver (SLICEWORKS_REAL=1
SLICEWORKS_RECORD=1).
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from tests.support import goldens, graph_process, kro
from tests.support import graph_corpus as graphs
from tests.support.clusters import RealCluster, TwinCluster, real_enabled
from tests.support.graph_controller import run_with_controller

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.graph_controller import GraphHarness
    from tests.support.http import Api

pytestmark = pytest.mark.long(140)
Object = dict[str, Any]
GOLDENS = "graph_corpus"
_LOOKS = 7  # kro requeues after a second
FREE = frozenset({"omit-without-its-gate"})
"""What kro takes only with a feature gate, and we always do."""
EARLY = ".first.instance.metadata.annotations.applyset.kubernetes.io/contains-group-kinds"
"""We list all kinds of a graph before we create objects; kro adds each with its first object. The final lists are equal."""


@pytest.fixture(scope="module", params=[RealCluster, TwinCluster], ids=["real", "twin"])
def kro_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with kro."""
    folder = tmp_path_factory.mktemp("kro")
    cluster: Cluster = request.param(folder)
    try:
        with kro.running(cluster, folder):
            yield cluster
    finally:
        cluster.stop()


def request_function(api: Api) -> graphs.RequestFunction:
    """Send a player's requests through a blocking client; no other task runs on this loop."""

    async def ask(method: str, path: str, body: Any = None, /) -> tuple[int, Object]:
        path, _, query = path.partition("?")
        parameters = dict(pair.split("=", 1) for pair in query.replace("%2F", "/").replace("%3D", "=").split("&") if pair)
        if method == "GET":
            answer = api.get(path, parameters)
        else:
            answer = api.post(path, body) if method == "POST" else api.patch(path, body)
        return answer.status, answer.json

    return ask


def as_recorded(case: graphs.Case, part: str, now: Object) -> bool:
    """Whether kro's outcome of a case equals the recorded one; a recording run accepts any outcome."""
    return os.environ.get("SLICEWORKS_RECORD") == "1" or goldens.normalised(now, {}) == recorded(case)[part]


def as_kros(case: graphs.Case, part: str, now: Object) -> bool:
    """Whether our outcome of a case equals kro's."""
    return not differing(case, {part: recorded(case)[part]}, {part: now})


@cache
def _recorded() -> Object:
    return goldens.whole(GOLDENS)


def recorded(case: graphs.Case) -> Object:
    result: Object = _recorded()[f"{case.name}: objects"]
    return result


def differing(case: graphs.Case, theirs: Object, ours: Object) -> list[str]:
    """The differences between our outcome and kro's."""
    lines = graphs.differences(theirs, goldens.normalised(ours, {}))
    return [line for line in lines if case.ends == "ACTIVE" or not line.startswith(EARLY)]


def compared(verdict: Object) -> Object:
    """The compared part of a verdict: everything except the message of a rejection and its source."""
    return {name: value for name, value in verdict.items() if name not in ("message", "by")}


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("file", graphs.files())
def test_kro(kro_cluster: Cluster, file: str) -> None:
    real = kro_cluster.name == "real"
    player = graphs.Player(request_function(kro_cluster.api), asyncio.sleep, looks=_LOOKS, known=as_recorded)
    for case, verdict, served in asyncio.run(_run_cases(player, graphs.cases(file))):
        assert verdict["accepted"] != case.refused, f"{case.name}: {verdict.get('message', 'accepted')}"
        goldens.check(GOLDENS, f"{case.name}: definition", compared(verdict), real=real)
        if served is not None:
            goldens.check(GOLDENS, f"{case.name}: objects", served, real=real)


async def _run_cases(player: graphs.Player, cases: list[graphs.Case]) -> list[tuple[graphs.Case, Object, Object | None]]:
    """The outcome of each case; they run concurrently, because most of the time is spent waiting."""

    async def one(case: graphs.Case) -> tuple[graphs.Case, Object, Object | None]:
        verdict = await player.define(case)
        expected = verdict["accepted"] and case.instance is not None
        return case, verdict, await player.serve(case) if expected else None

    return list(await asyncio.gather(*map(one, cases)))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real cluster with our controller."""
    folder = tmp_path_factory.mktemp("ours")
    cluster = RealCluster(folder)
    try:
        with graph_process.running(cluster, folder):
            yield cluster
    finally:
        cluster.stop()


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs a real control plane: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("file", graphs.files())
def test_controller_matches_kro_on_real_cluster(ours: Cluster, file: str) -> None:
    asyncio.run(_compare_file(graphs.Player(request_function(ours.api), asyncio.sleep, looks=_LOOKS, known=as_kros), file))


@pytest.mark.parametrize("file", graphs.files())
def test_compiler_matches_kro(file: str) -> None:
    for case in graphs.cases(file):
        result = graphs.compiled(case)
        if case.name in FREE:
            assert result["accepted"], case.name
        else:
            assert list(graphs.differences(goldens.recorded(GOLDENS, f"{case.name}: definition"), result)) == [], case.name


@pytest.mark.parametrize("file", graphs.files())
def test_controller_matches_kro(file: str) -> None:
    async def main(harness: GraphHarness) -> None:
        async def ask(method: str, path: str, body: Any = None, /) -> tuple[int, Object]:
            return await harness.twin.ask(method, unquote(path), body)

        await _compare_file(graphs.Player(ask, clock.sleep), file)

    run_with_controller(main)


async def _compare_file(player: graphs.Player, file: str) -> None:
    """Run the cases of a file and compare their outcomes with kro's."""
    result: list[str] = []
    for case, verdict, served in await _run_cases(player, [case for case in graphs.cases(file) if case.name not in FREE]):
        reported = goldens.normalised(compared(verdict), {})
        lines = list(graphs.differences(goldens.recorded(GOLDENS, f"{case.name}: definition"), reported))
        if served is not None:
            lines += differing(case, recorded(case), served)
        result += [f"{case.name}: {line}" for line in lines]
    if result:
        pytest.fail("\n".join(result), pytrace=False)
