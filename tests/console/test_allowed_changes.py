"""The console in a real browser on a twin that runs processes: login, logs, and the actions that --allow-changes enables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from tests.support.browsers import NARROW, ConsoleProcess, run_in_thread

from sliceworks.console.kinds import JOBSETS
from sliceworks.kube.https import open_client
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

CLUSTER = "console"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone"),
]
Object = dict[str, Any]
IMAGE = "example.com/train:1"
PROGRAM = 'i=0; while :; do echo "step $i <b>done</b>"; i=$((i+1)); sleep 0.2; done'

KNOCK = """new Promise((done) => {
  const line = new WebSocket(`ws://${location.host}/_nicegui_ws/socket.io/?EIO=4&transport=websocket`);
  line.onopen = () => done("open");
  line.onerror = () => done("shut");
})"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def twin(home: Path, *words: str) -> None:
    command = [sys.executable, "-m", "sliceworks", "twin", *words, "--quiet"]
    subprocess.run(command, env={**os.environ, "SLICEWORKS_HOME": str(home)}, check=True, capture_output=True)


@pytest.fixture(scope="module")
def kubeconfig(browser: Browser, home: Path) -> Iterator[Path]:
    """A twin that runs pods as processes, with one node."""
    twin(home, "start", "--memory", "--processes")
    config = home / "twins" / "default" / "kubeconfig"
    run_in_thread(lambda: _machine(config))
    yield config
    twin(home, "stop")


async def _machine(config: Path) -> None:
    async with open_client(config) as client:
        await create_nodes(client, NodeShape(), 1)


@pytest.fixture(scope="module")
def served(kubeconfig: Path) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(kubeconfig, "--allow-changes") as served:
        yield served


def submit(config: Path, name: str) -> None:
    """Submit a job of two hosts that print a counter."""
    container = {"name": "trainer", "image": IMAGE, "command": ["sh", "-c", PROGRAM]}
    pods = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0, "template": pods}
    spec = {"replicatedJobs": [{"name": "slice", "replicas": 1, "template": {"spec": job}}]}
    created = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }

    async def send() -> None:
        async with open_client(config) as client:
            await client.create(created, resource=JOBSETS)

    run_in_thread(send)


def press(page: Page, button: str, answer: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name=answer).click()
    expect(page.get_by_role("alertdialog")).to_be_hidden()


def test_job_is_shown_restarted_and_cancelled(browser: Browser, served: ConsoleProcess, kubeconfig: Path) -> None:
    with served.visit(browser, "/jobs") as visit:
        page = visit.page
        expect(page.get_by_text("No training jobs yet.")).to_be_visible()
        submit(kubeconfig, "counts")
        page.get_by_role("link", name="counts").click()
        expect(page.locator("#main .head .state")).to_have_text("running")
        expect(page.get_by_text(IMAGE)).to_be_visible()
        log = page.get_by_role("log")
        expect(log).to_contain_text("step 1 <b>done</b>")  # markup is escaped
        lines = log.inner_text().count("step")
        expect(log).to_contain_text(f"step {lines + 5}")
        page.get_by_role("combobox").select_option("slice-0/1")
        expect(log).to_contain_text("step 0")
        press(page, "Cancel", "Back")
        first = page.locator(".host").first.inner_text()
        press(page, "Restart", "Restart")
        expect(page.get_by_text("Restarted counts.")).to_be_visible()
        expect(page.locator(".host").first).not_to_have_text(first)
        expect(page.get_by_role("region", name="Why")).to_contain_text("counts is running.")
        press(page, "Cancel", "Cancel the job")
        expect(page.get_by_text("Job default/counts not found.")).to_be_visible()
        visit.assert_clean()


def test_request_without_token_gets_only_the_login_form(browser: Browser, served: ConsoleProcess) -> None:
    context = browser.new_context()
    page = context.new_page()
    try:
        for path in ("/", "/jobs", "/assets/console.css"):
            answer = page.goto(f"{served.base}{path}")
            assert answer is not None
            assert answer.status == 401
        page.goto(f"{served.base}/queues#token=wrong")
        expect(page.get_by_role("status")).to_contain_text("Invalid token")
        assert page.url == f"{served.base}/queues"
        socket = "fetch('/_nicegui_ws/socket.io/?EIO=4&transport=polling').then((answer) => answer.status)"
        assert page.evaluate(socket) == 401
        assert page.evaluate(KNOCK) == "shut"
        page.get_by_label("Token").fill("guess")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("status")).to_have_text("Invalid token.")
        page.get_by_label("Token").fill(served.token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1, name="Queues")).to_be_visible()
        assert page.evaluate("document.cookie") == ""
    finally:
        context.close()


def test_token_is_removed_from_the_url(browser: Browser, served: ConsoleProcess) -> None:
    with served.visit(browser) as visit:
        assert visit.page.url == f"{served.base}/"
        assert served.token not in visit.page.content()


@pytest.mark.parametrize("path", ["/", "/queues", "/jobs"])
def test_pages_fit_a_narrow_dark_window(browser: Browser, served: ConsoleProcess, path: str) -> None:
    with served.visit(browser, path, dark=True, size=NARROW) as visit:
        page = visit.page
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} pixels too wide"
        visit.assert_clean()


def test_missing_page_is_reported(browser: Browser, served: ConsoleProcess) -> None:
    with served.visit(browser) as visit:
        visit.page.evaluate("emitEvent('sub_pages_navigate', '/nowhere')")
        expect(visit.page.get_by_text("Page not found.")).to_be_visible()
        visit.page.goto(f"{served.base}/jobs/default/nothing")
        expect(visit.page.get_by_text(re.compile("Job default/nothing not found"))).to_be_visible()


def test_unreachable_cluster_is_reported_with_stale_data(browser: Browser, served: ConsoleProcess, home: Path) -> None:
    with served.visit(browser) as visit:
        page = visit.page
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        twin(home, "stop")
        expect(page.get_by_text(re.compile("unreachable since"))).to_be_visible()
        expect(page.locator(".stat", has_text="Ready hosts").locator(".value")).to_have_text("1")
        visit.assert_clean()
