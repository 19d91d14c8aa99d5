"""kro's own end-to-end scenarios, read from its Go module and played with our controller in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import kro, our_graphs
from tests.support.clusters import real_wanted
from tests.support.scenarios import Scenario
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_wanted(), reason="the scenarios come with kro's Go module: SLICEWORKS_REAL=1"),
]
SCENARIOS = (
    "cel-random-namespaced-function",
    "check-arbitary-objects",
    "check-external-references",
    "check-instance-creation",
    "check-instance-update",
    "check-multi-resource-rgd",
    "check-required-default-interactions",
    "check-rgd-creation",
    "check-rgd-deletion",
    "check-unknown-fields",
    "check-validation-markers",
)


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Our controller, for the cases of this file."""
    with our_graphs.running(cluster, tmp_path_factory.mktemp("graphs")) as process:
        yield process


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize("name", SCENARIOS)
def test_own_scenario_of_kro(api: Api, ns: str, name: str) -> None:
    def scale_up() -> None:
        """What the autoscaler of the scenario would do: no such controller runs here."""
        deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/test-app-deployment"
        eventually(lambda: api.get(deployment).json["metadata"]["generation"] == 2, what="the change has come to the deployment")
        api.patch(f"{deployment}/scale", {"spec": {"replicas": 2}}).ok(200)

    before = {"deployment-update-assert.yaml": scale_up} if name == "check-multi-resource-rgd" else {}
    Scenario(kro.folder() / "test" / "e2e" / "chainsaw" / name, api, ns, before).play()
