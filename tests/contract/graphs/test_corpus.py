"""A corpus of definitions, given to the real kro controller and to ours: who accepts what, the same kinds, the same objects.

What kro says is recorded in `goldens/graph_corpus.json` by a run on a real kube-apiserver (SLICEWORKS_REAL=1 SLICEWORKS_RECORD=1).
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from tests.support import goldens, kro, our_graphs
from tests.support import graph_corpus as graphs
from tests.support.clusters import RealCluster, real_wanted
from tests.support.graphs import on_stage

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.graphs import Stage
    from tests.support.http import Api

pytestmark = pytest.mark.long(115)
Object = dict[str, Any]
GOLDENS = "graph_corpus"
_LOOKS = 7  # kro looks again after a second
FREE = frozenset({"omit-without-its-gate"})
"""What kro takes only with a feature gate, and we always do."""
EARLY = ".first.instance.metadata.annotations.applyset.kubernetes.io/contains-group-kinds"
"""We name all kinds of a graph before anything is made; kro adds each with its first object. In the end both say the same."""


@pytest.fixture(scope="module")
def kros(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real cluster on which kro serves graphs."""
    folder = tmp_path_factory.mktemp("kros")
    cluster = RealCluster(folder)
    try:
        with kro.running(cluster, folder):
            yield cluster
    finally:
        cluster.stop()


def asking(api: Api) -> graphs.Ask:
    """Requests of a player through a client that blocks: nothing else runs here."""

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
    """Whether kro has made of a case what it made of it when that was recorded; whoever records takes what comes."""
    return os.environ.get("SLICEWORKS_RECORD") == "1" or goldens.normalised(now, {}) == recorded(case)[part]


def as_kros(case: graphs.Case, part: str, now: Object) -> bool:
    """Whether we have made of a case what kro makes of it."""
    return not differing(case, {part: recorded(case)[part]}, {part: now})


@cache
def _recorded() -> Object:
    return goldens.whole(GOLDENS)


def recorded(case: graphs.Case) -> Object:
    found: Object = _recorded()[f"{case.name}: objects"]
    return found


def differing(case: graphs.Case, theirs: Object, ours: Object) -> list[str]:
    """Where what we made differs from what kro made."""
    lines = graphs.differences(theirs, goldens.normalised(ours, {}))
    return [line for line in lines if case.ends == "ACTIVE" or not line.startswith(EARLY)]


def compared(verdict: Object) -> Object:
    """What must be the same: everything but the words of a refusal, and who says them."""
    return {name: value for name, value in verdict.items() if name not in ("message", "by")}


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("file", graphs.files())
def test_what_kro_says(kros: Cluster, file: str) -> None:
    player = graphs.Player(asking(kros.api), asyncio.sleep, looks=_LOOKS, known=as_recorded)
    for case, verdict, served in asyncio.run(_played(player, graphs.cases(file))):
        assert verdict["accepted"] != case.refused, f"{case.name}: {verdict.get('message', 'accepted')}"
        goldens.check(GOLDENS, f"{case.name}: definition", compared(verdict), real=True)
        if served is not None:
            goldens.check(GOLDENS, f"{case.name}: objects", served, real=True)


async def _played(player: graphs.Player, cases: list[graphs.Case]) -> list[tuple[graphs.Case, Object, Object | None]]:
    """What comes of each case. They are played side by side: most of the time is waiting."""

    async def one(case: graphs.Case) -> tuple[graphs.Case, Object, Object | None]:
        verdict = await player.define(case)
        wanted = verdict["accepted"] and case.instance is not None
        return case, verdict, await player.serve(case) if wanted else None

    return list(await asyncio.gather(*map(one, cases)))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real cluster on which we serve graphs."""
    folder = tmp_path_factory.mktemp("ours")
    cluster = RealCluster(folder)
    try:
        with our_graphs.running(cluster, folder):
            yield cluster
    finally:
        cluster.stop()


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs a real control plane: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("file", graphs.files())
def test_ours_serve_alike_on_a_real_cluster(ours: Cluster, file: str) -> None:
    asyncio.run(_alike(graphs.Player(asking(ours.api), asyncio.sleep, looks=_LOOKS, known=as_kros), file))


@pytest.mark.parametrize("file", graphs.files())
def test_ours_compile_alike(file: str) -> None:
    for case in graphs.cases(file):
        found = graphs.compiled(case)
        if case.name in FREE:
            assert found["accepted"], case.name
        else:
            assert list(graphs.differences(goldens.recorded(GOLDENS, f"{case.name}: definition"), found)) == [], case.name


@pytest.mark.parametrize("file", graphs.files())
def test_ours_serve_alike(file: str) -> None:
    async def main(stage: Stage) -> None:
        async def ask(method: str, path: str, body: Any = None, /) -> tuple[int, Object]:
            return await stage.twin.ask(method, unquote(path), body)

        await _alike(graphs.Player(ask, clock.sleep), file)

    on_stage(main)


async def _alike(player: graphs.Player, file: str) -> None:
    """Play a file's cases, and compare all that comes of them with what came of them with kro."""
    found: list[str] = []
    for case, verdict, served in await _played(player, [each for each in graphs.cases(file) if each.name not in FREE]):
        told = goldens.normalised(compared(verdict), {})
        lines = list(graphs.differences(goldens.recorded(GOLDENS, f"{case.name}: definition"), told))
        if served is not None:
            lines += differing(case, recorded(case), served)
        found += [f"{case.name}: {line}" for line in lines]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
