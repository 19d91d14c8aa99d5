"""A console for whoever may see little of a cluster, or is not known to it, and on one without JobSet: it says so in words."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import access
from tests.support.waiting import eventually

from sliceworks.base import clock
from sliceworks.console import knowing
from sliceworks.console.kinds import CLUSTER_QUEUES, JOBSETS, NODES, PODS
from sliceworks.console.world import World
from sliceworks.kube import open_client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api

Told = dict[str, Any]


@pytest.fixture
def as_token(cluster: Cluster, tmp_path: Path) -> Callable[[str], Path]:
    """The kubeconfig of whoever has a token."""

    def write(token: str) -> Path:
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": cluster.url, "certificate-authority": str(cluster.authority)}}],
            "users": [{"name": "robot", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "robot"}}],
            "current-context": "here",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(found))
        return path

    return write


def _robot(api: Api, ns: str) -> str:
    """The token of one who may read the pods and jobs of a namespace, and nothing else."""
    path = f"/api/v1/namespaces/{ns}/serviceaccounts"
    api.post(path, {"metadata": {"name": "robot"}}).ok(201)
    jobs = access.rule("get list watch", "jobsets", "jobset.x-k8s.io")
    access.grant(api, ns, access.rule("get list watch", "pods"), jobs)
    token = str(api.post(f"{path}/robot/token", {"spec": {}}).ok(201).json["status"]["token"])
    robot = api.as_token(token)
    eventually(lambda: robot.get(f"/api/v1/namespaces/{ns}/pods").status == 200, what="the rights are in force")
    return token


def _looked(kubeconfig: Path, namespace: str = "") -> Told:
    """What a console knows a moment after its start."""

    async def main() -> Told:
        async with open_client(kubeconfig) as client, World(client, namespace=namespace) as world:
            world.table(CLUSTER_QUEUES)
            await world.settled(90)
            while not (answered := world.shut_out or world.knows(PODS)):
                await clock.sleep(0.05)
            kinds = (JOBSETS, PODS, NODES, CLUSTER_QUEUES)
            return {"told": world.troubles(*kinds), "shut out": world.shut_out, "answered": answered, "since": world.stale_since}

    return clock.run(main())


def test_what_may_not_be_read_and_what_is_not_installed_are_two_things(
    cluster: Cluster, api: Api, ns: str, as_token: Callable[[str], Path]
) -> None:
    kubeconfig = as_token(_robot(api, ns))
    found = _looked(kubeconfig, ns)
    assert found["told"] == [
        "You may not read the nodes and clusterqueues of this cluster.",
        "JobSet is not installed in this cluster.",
    ]
    assert (found["shut out"], found["since"]) == (False, None)
    if cluster.name == "real":  # pages of a twin are looked at elsewhere
        _pages_say_so(kubeconfig, ns)


def test_whoever_the_cluster_does_not_know_is_told_so(as_token: Callable[[str], Path]) -> None:
    found = _looked(as_token("not.a.token"))
    assert (found["told"], found["shut out"], found["since"]) == ([knowing.SHUT_OUT], True, None)


def _pages_say_so(kubeconfig: Path, ns: str) -> None:
    """In a browser."""
    from playwright.sync_api import expect, sync_playwright
    from tests.support.browsers import Served, chromium, launched

    chromium()
    with Served(kubeconfig, "--namespace", ns, folder=kubeconfig.parent) as served, sync_playwright() as playwright:
        browser = launched(playwright)
        with served.visit(browser) as visit:
            page = visit.page
            expect(page.get_by_text(re.compile(r"^You may not read the .*nodes.* of this cluster\.$"))).to_be_visible()
            expect(page.get_by_text("live", exact=True)).to_be_visible()
            for title, words in (("Queues", "You may not read the clusterqueues"), ("Jobs", "JobSet is not installed")):
                page.get_by_role("navigation", name="Pages").get_by_role("link", name=title).click()
                expect(page.locator("#main").get_by_text(words)).to_be_visible()
            visit.was_good()
        browser.close()
        assert served.stop() == (0, "")
