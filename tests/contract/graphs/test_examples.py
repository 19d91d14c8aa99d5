"""kro's own example definitions, read from its Go module when the test runs: given to kro and to ours, each on a real cluster.

The kinds of ACK that kro's tests ship and those of Config Connector are there on both; what uses others is refused by both.
"""

from __future__ import annotations

import asyncio
import copy
import re
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml
from tests.contract.graphs.test_corpus import asking, compared
from tests.support import goldens, kro, our_graphs
from tests.support import graph_corpus as graphs
from tests.support.clusters import RealCluster, real_wanted
from tests.support.custom import CRDS
from tests.support.waiting import eventually

from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

Object = dict[str, Any]
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_wanted(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1"),
]
AT_LEAST = 59
_PATIENCE = 60.0  # seconds
WIDER = frozenset({"examples/gcp/gemma-on-tpu/rgd.yaml"})
"""What we take in an old form, with a warning, and kro refuses."""
SEEDED = {"examples/kubernetes/cel-functions/rg.yaml": re.compile(rb"(?<=\"value\":\")[a-z0-9]{10}(?=\")")}
"""Texts that are made of the instance's uid, and differ from cluster to cluster."""
EARLY = ".instance.metadata.annotations.applyset.kubernetes.io/contains-group-kinds"
"""We name all kinds of a graph before anything is made; kro adds each with its first object."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters: kro serves one, we the other."""
    folder = tmp_path_factory.mktemp("examples")
    with ExitStack() as stack:
        clusters = []
        for name, serve in (("kro", kro.running), ("ours", our_graphs.running)):
            home = folder / name
            home.mkdir()
            cluster = RealCluster(home)
            stack.callback(cluster.stop)
            _install(cluster)
            stack.enter_context(serve(cluster, home))
            clusters.append(cluster)
        yield clusters[0], clusters[1]


def installed() -> list[Object]:
    """The definitions of kinds that examples use and that are to be had."""
    folder = kro.folder() / "test" / "integration" / "crds"
    shipped = [kro.load(path) for path in sorted(folder.rglob("*.yaml"))]
    return [crd for crd in shipped if crd.get("kind") == "CustomResourceDefinition"] + config_connector.definitions()


def _install(cluster: Cluster) -> None:
    wanted = installed()
    for crd in wanted:
        assert cluster.api.post(CRDS, crd).status in (201, 409), crd["metadata"]["name"]
    last = wanted[-1]["spec"]
    eventually(lambda: cluster.api.get(f"/apis/{last['group']}/v1beta1/{last['names']['plural']}").status == 200)


def examples() -> list[tuple[Path, Object]]:
    """Every definition, those that others use first."""
    found = []
    for path in sorted((kro.folder() / "examples").rglob("*.yaml")):
        try:
            documents = list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
        except yaml.YAMLError:
            continue  # templates of charts
        found += [(path, body) for body in documents if body and body.get("kind") == "ResourceGraphDefinition"]
    return found


@pytest.mark.long(120)
@pytest.mark.timeout(900)
def test_examples(both: tuple[Cluster, Cluster]) -> None:
    paths = [
        f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}" for crd in installed()
    ]
    players = [graphs.Player(asking(cluster.api), asyncio.sleep, paths) for cluster in both]
    differing: dict[str, list[str]] = {}
    given = examples()
    assert len(given) >= AT_LEAST
    for path, definition in given:
        schema = definition["spec"]["schema"]
        case = graphs.Case(definition["metadata"]["name"], schema["kind"], definition)
        theirs, ours = map(compared, _both(player.define(case) for player in players))
        name = str(path.relative_to(kro.folder()))
        if name in WIDER:
            assert (theirs["accepted"], ours["accepted"]) == (False, True)
            continue
        differing[name] = list(graphs.differences(goldens.normalised(theirs, {}), goldens.normalised(ours, {})))
        for instance in instances(path.parent, case) if ours["accepted"] else ():
            made = [copy.deepcopy(instance) for _ in players]
            seen = _both(player.rest(case, each) for player, each in zip(players, made, strict=True))
            # One of the two may only have paused in the middle of its work.
            end = time.monotonic() + _PATIENCE
            while (lines := _differing(name, *seen)) and "refused" not in seen[0] | seen[1] and time.monotonic() < end:
                seen = _both(player.rested(case, each) for player, each in zip(players, made, strict=True))
            differing[name] += lines
    found = [f"{name}: {line}" for name, lines in differing.items() for line in lines]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def _differing(name: str, theirs: Object, ours: Object) -> list[str]:
    """Where two outcomes of one instance differ."""
    if name in SEEDED:
        theirs, ours = (orjson.loads(SEEDED[name].sub(b"RANDOM", orjson.dumps(each))) for each in (theirs, ours))
    lines = graphs.differences(goldens.normalised(theirs, {}), goldens.normalised(ours, {}))
    done = theirs.get("instance", {}).get("status", {}).get("state") == "ACTIVE"
    return [line for line in lines if done or not line.startswith(EARLY)]


def _both(plays: Iterable[Coroutine[Any, Any, Object]]) -> tuple[Object, Object]:
    """What came of a play on each cluster: most of the time is waiting, on both at once."""

    async def main() -> list[Object]:
        return await asyncio.gather(*plays)

    theirs, ours = asyncio.run(main())
    return theirs, ours


def instances(folder: Path, case: graphs.Case) -> list[Object]:
    """The instances that lie beside a definition."""
    found = []
    for path in sorted(folder.rglob("*.yaml")):
        try:
            found += [body for body in yaml.load_all(path.read_text(), yaml.CSafeLoader) if isinstance(body, dict)]
        except yaml.YAMLError:
            continue
    return [body for body in found if body.get("kind") == case.kind and body.get("metadata", {}).get("name")]
