"""kro's example definitions, read from its Go module at test time, on kro and on our controller, each on a real cluster, and
(`make test-mixed`) on kro on the twin.

The ACK CRDs of kro's tests and those of Config Connector are installed on both; definitions that use other kinds are rejected by
both.
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
from tests.contract.graphs.test_corpus import compared, request_function
from tests.support import goldens, graph_process, kro
from tests.support import graph_corpus as graphs
from tests.support.clusters import RealCluster, TwinCluster, mixed_enabled, real_enabled
from tests.support.custom_resources import CRDS
from tests.support.polling import eventually

from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

Object = dict[str, Any]
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1"),
]
AT_LEAST = 59
_PATIENCE = 60.0  # seconds
WIDER = frozenset({"examples/gcp/gemma-on-tpu/rgd.yaml"})
"""Deprecated forms that are accepted with a warning, and that kro rejects."""
SEEDED = {"examples/kubernetes/cel-functions/rg.yaml": re.compile(rb"(?<=\"value\":\")[a-z0-9]{10}(?=\")")}
"""Strings that contain the instance's uid, which differs between clusters."""
EARLY = ".instance.metadata.annotations.applyset.kubernetes.io/contains-group-kinds"
"""We list all kinds of a graph before we create objects; kro adds each with its first object."""


@pytest.fixture(scope="module", params=["ours", *(["mixed"] if mixed_enabled() else [])])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters: kro runs on a real one; our controller runs on the other, or kro on a twin."""
    folder = tmp_path_factory.mktemp("examples")
    other = (RealCluster, graph_process.running) if request.param == "ours" else (TwinCluster, kro.running)
    with ExitStack() as stack:
        clusters = []
        for name, (kind, serve) in {"kro": (RealCluster, kro.running), request.param: other}.items():
            home = folder / name
            home.mkdir()
            cluster: Cluster = kind(home)
            stack.callback(cluster.stop)
            _install(cluster)
            stack.enter_context(serve(cluster, home))
            clusters.append(cluster)
        yield clusters[0], clusters[1]


def installed() -> list[Object]:
    """The available CRDs of kinds that examples use."""
    folder = kro.folder() / "test" / "integration" / "crds"
    shipped = [kro.load(path) for path in sorted(folder.rglob("*.yaml"))]
    return [crd for crd in shipped if crd.get("kind") == "CustomResourceDefinition"] + config_connector.definitions()


def _install(cluster: Cluster) -> None:
    expected = installed()
    for crd in expected:
        assert cluster.api.post(CRDS, crd).status in (201, 409), crd["metadata"]["name"]
    last = expected[-1]["spec"]
    eventually(lambda: cluster.api.get(f"/apis/{last['group']}/v1beta1/{last['names']['plural']}").status == 200)


def examples() -> list[tuple[Path, Object]]:
    """Every definition, sorted so that dependencies come first."""
    result = []
    for path in sorted((kro.folder() / "examples").rglob("*.yaml")):
        try:
            documents = list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
        except yaml.YAMLError:
            continue  # Helm templates
        result += [(path, body) for body in documents if body and body.get("kind") == "ResourceGraphDefinition"]
    return result


@pytest.mark.long(120)
@pytest.mark.timeout(900)
def test_examples(both: tuple[Cluster, Cluster]) -> None:
    are_ours = both[1].name == "real"
    paths = [
        f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}" for crd in installed()
    ]
    players = [graphs.Player(request_function(cluster.api), asyncio.sleep, paths) for cluster in both]
    differing: dict[str, list[str]] = {}
    given = examples()
    assert len(given) >= AT_LEAST
    for path, definition in given:
        schema = definition["spec"]["schema"]
        case = graphs.Case(definition["metadata"]["name"], schema["kind"], definition)
        theirs, ours = map(compared, _both(player.define(case) for player in players))
        name = str(path.relative_to(kro.folder()))
        if name in WIDER and are_ours:
            assert (theirs["accepted"], ours["accepted"]) == (False, True)
            continue
        differing[name] = list(graphs.differences(goldens.normalised(theirs, {}), goldens.normalised(ours, {})))
        for instance in instances(path.parent, case) if ours["accepted"] else ():
            created = [copy.deepcopy(instance) for _ in players]
            seen = _both(player.rest(case, item) for player, item in zip(players, created, strict=True))
            # One of the two may only have paused.
            end = time.monotonic() + _PATIENCE
            while (lines := _differing(name, *seen)) and "refused" not in seen[0] | seen[1] and time.monotonic() < end:
                seen = _both(player.rested(case, item) for player, item in zip(players, created, strict=True))
            differing[name] += lines
    result = [f"{name}: {line}" for name, lines in differing.items() for line in lines]
    if result:
        pytest.fail("\n".join(result), pytrace=False)


def _differing(name: str, theirs: Object, ours: Object) -> list[str]:
    """The differences between two outcomes of one instance."""
    if name in SEEDED:
        theirs, ours = (orjson.loads(SEEDED[name].sub(b"RANDOM", orjson.dumps(item))) for item in (theirs, ours))
    lines = graphs.differences(goldens.normalised(theirs, {}), goldens.normalised(ours, {}))
    done = theirs.get("instance", {}).get("status", {}).get("state") == "ACTIVE"
    return [line for line in lines if done or not line.startswith(EARLY)]


def _both(plays: Iterable[Coroutine[Any, Any, Object]]) -> tuple[Object, Object]:
    """Run on both clusters concurrently, because most of the time is spent waiting."""

    async def main() -> list[Object]:
        return await asyncio.gather(*plays)

    theirs, ours = asyncio.run(main())
    return theirs, ours


def instances(folder: Path, case: graphs.Case) -> list[Object]:
    """The instances next to a definition."""
    result = []
    for path in sorted(folder.rglob("*.yaml")):
        try:
            result += [body for body in yaml.load_all(path.read_text(), yaml.CSafeLoader) if isinstance(body, dict)]
        except yaml.YAMLError:
            continue
    return [body for body in result if body.get("kind") == case.kind and body.get("metadata", {}).get("name")]
