"""The console for a user with few permissions, for an unknown user, and on a cluster without JobSet: pages explain what is
missing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import access
from tests.support.polling import eventually

from sliceworks.base import clock
from sliceworks.console import cluster_cache
from sliceworks.console.cluster_cache import ClusterCache
from sliceworks.console.kinds import CLUSTER_QUEUES, JOBSETS, NODES, PODS
from sliceworks.kube import open_client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api

Snapshot = dict[str, Any]


@pytest.fixture
def as_token(cluster: Cluster, tmp_path: Path) -> Callable[[str], Path]:
    """Write a kubeconfig with this token."""

    def write(token: str) -> Path:
        result = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": cluster.url, "certificate-authority": str(cluster.authority)}}],
            "users": [{"name": "robot", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "robot"}}],
            "current-context": "here",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(result))
        return path

    return write


def _robot(api: Api, ns: str) -> str:
    """The token of an account that may only read the pods and jobs of a namespace."""
    path = f"/api/v1/namespaces/{ns}/serviceaccounts"
    api.post(path, {"metadata": {"name": "robot"}}).ok(201)
    jobs = access.rule("get list watch", "jobsets", "jobset.x-k8s.io")
    access.grant(api, ns, access.rule("get list watch", "pods"), jobs)
    token = str(api.post(f"{path}/robot/token", {"spec": {}}).ok(201).json["status"]["token"])
    robot = api.as_token(token)
    eventually(lambda: robot.get(f"/api/v1/namespaces/{ns}/pods").status == 200, what="the account may list pods")
    return token


def _start_console(kubeconfig: Path, namespace: str = "") -> Snapshot:
    """The console's snapshot shortly after its start."""

    async def main() -> Snapshot:
        async with open_client(kubeconfig) as client, ClusterCache(client, namespace=namespace) as cache:
            cache.table(CLUSTER_QUEUES)
            await cache.settled(90)
            while not (answered := cache.is_unauthorized or cache.knows(PODS)):
                await clock.sleep(0.05)
            kinds = (JOBSETS, PODS, NODES, CLUSTER_QUEUES)
            unauthorized = cache.is_unauthorized
            return {
                "problems": cache.problems(*kinds),
                "unauthorized": unauthorized,
                "answered": answered,
                "since": cache.stale_since,
            }

    return clock.run(main())


def test_console_distinguishes_forbidden_from_missing_kinds(
    cluster: Cluster, api: Api, ns: str, as_token: Callable[[str], Path]
) -> None:
    kubeconfig = as_token(_robot(api, ns))
    result = _start_console(kubeconfig, ns)
    assert result["problems"] == [
        "You are not allowed to list nodes and clusterqueues in this cluster.",
        "JobSet is not installed in this cluster.",
    ]
    assert (result["unauthorized"], result["since"]) == (False, None)
    if cluster.name == "real":  # the twin's pages are tested elsewhere
        _check_pages(kubeconfig, ns)


def test_console_reports_unknown_user(as_token: Callable[[str], Path]) -> None:
    result = _start_console(as_token("not.a.token"))
    assert (result["problems"], result["unauthorized"], result["since"]) == ([cluster_cache.UNAUTHORIZED], True, None)


def _check_pages(kubeconfig: Path, ns: str) -> None:
    """Check the pages in a browser."""
    from playwright.sync_api import expect, sync_playwright
    from tests.support.browsers import ConsoleProcess, chromium, launch_browser

    chromium()
    with ConsoleProcess(kubeconfig, "--namespace", ns, folder=kubeconfig.parent) as served, sync_playwright() as playwright:
        browser = launch_browser(playwright)
        with served.visit(browser) as visit:
            page = visit.page
            expect(page.get_by_text(re.compile(r"^You are not allowed to list .*nodes.* in this cluster\.$"))).to_be_visible()
            expect(page.get_by_text("live", exact=True)).to_be_visible()
            for title, words in (("Queues", "You are not allowed to list clusterqueues"), ("Jobs", "JobSet is not installed")):
                page.get_by_role("navigation", name="Pages").get_by_role("link", name=title).click()
                expect(page.locator("#main").get_by_text(words)).to_be_visible()
            visit.assert_clean()
        browser.close()
        assert served.stop() == (0, "")
