"""The console's pages in a real browser on a live twin: pages show the current state, and buttons take effect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from tests.support.browsers import NARROW, ConsoleProcess, records_screenshots
from tests.support.console_twins import LiveTwin, create_environment, live_twin
from tests.support.polling import eventually

from sliceworks.kube.resources import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from sliceworks.kube.client import Client

pytestmark = [pytest.mark.real, pytest.mark.long(30)]


@pytest.fixture(scope="module")
def twin(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTwin]:
    """`browser` comes first: without one, no twin is started."""
    with live_twin(tmp_path_factory.mktemp("live")) as result:
        yield result


@pytest.fixture(scope="module")
def served(twin: LiveTwin) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(None, "--twin", "--allow-changes", folder=twin.work, **twin.variables) as result:
        yield result


def _tile(page: Page, name: str) -> Any:
    return page.get_by_role("link", name=re.compile(rf"^{name}: "))


def test_slices_are_drawn_and_updated(browser: Browser, served: ConsoleProcess, twin: LiveTwin) -> None:
    with served.visit(browser, "/slices") as visit:
        page = visit.page
        expect(_tile(page, "torus")).to_contain_text("16 running")
        expect(_tile(page, "torus")).to_contain_text("team-language/bert")
        expect(_tile(page, "spare")).to_contain_text("2 ready")
        page.evaluate("window.stillHere = true")

        async def fail(client: Client) -> None:
            await client.patch(NODE, "flat-2", {"metadata": {"annotations": {"sliceworks.dev/state": "maintenance"}}})

        twin.do(fail)
        expect(_tile(page, "flat")).to_contain_text("1 maintenance")
        expect(page.get_by_role("button", name="1 maintenance")).to_be_visible()
        page.get_by_role("button", name="1 maintenance").click()
        expect(page.get_by_role("list").get_by_role("listitem")).to_have_count(1)
        assert page.evaluate("window.stillHere") is True
        visit.assert_clean()


def test_slice_page_hosts_are_reachable_by_keyboard(browser: Browser, served: ConsoleProcess) -> None:
    with served.visit(browser, "/slices/torus") as visit:
        page = visit.page
        hosts = page.locator(".sw-pick")
        expect(hosts).to_have_count(16)
        expect(page.locator(".sw-wraps")).to_have_count(1)
        hosts.nth(5).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Host 5")).to_contain_text("torus-5")
        expect(page.get_by_role("region", name="Hosts", exact=True).get_by_role("row")).to_have_count(17)
        expect(page.get_by_role("region", name="Slice")).to_contain_text("v5p-128")
        visit.screenshot("slice")
        visit.assert_clean()


def test_graph_page_shows_resource_states_yaml_and_events(browser: Browser, served: ConsoleProcess) -> None:
    with served.visit(browser, "/graphs") as visit:
        page = visit.page
        page.get_by_role("link", name="gemma-tpu", exact=True).click()
        expect(page.locator(".sw-node")).to_have_count(10)
        expect(page.get_by_role("region", name="Not ready")).to_contain_text("downloadCheckpoint")
        expect(page.get_by_role("button", name="downloadCheckpoint, Job: pending")).to_be_visible()
        visit.screenshot("graph")
        page.get_by_role("button", name="serviceaccount, IAMServiceAccount: ready").press("Enter")
        expect(page.get_by_label("YAML").first).to_contain_text("kro.run/instance-name: gemma-tpu")
        expect(page.get_by_role("heading", name="Events").first).to_be_visible()
        visit.assert_clean()


def test_model_streams_a_response_until_stopped(browser: Browser, served: ConsoleProcess) -> None:
    with served.visit(browser, "/models") as visit:
        page = visit.page
        page.get_by_role("link", name="parrot").click()
        expect(page.get_by_role("region", name="Latency")).to_contain_text("healthy")
        page.get_by_role("textbox", name="Prompt").fill("Tell me about slices")
        page.get_by_label("Max tokens").select_option("2048")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_label("Response")).to_contain_text("Tell me about slices Tell me")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text(re.compile(r"stopped after \d+ chunks"))).to_be_visible()
        if records_screenshots():
            expect(page.get_by_role("row", name=re.compile("^parrot")).first).to_contain_text("ms")
        visit.screenshot("model")
        visit.assert_clean()


def test_load_tests_are_listed_reported_and_compared(browser: Browser, served: ConsoleProcess) -> None:
    with served.visit(browser, "/loads") as visit:
        page = visit.page
        expect(page.get_by_role("region", name="Runs").get_by_role("row")).to_have_count(3)
        page.get_by_label("Before").select_option("monday")
        page.get_by_label("After").select_option("tuesday")
        expect(page.get_by_role("region", name="Compare runs").get_by_text("worse").first).to_be_visible()
        visit.screenshot("loads")
        page.get_by_role("link", name="monday").click()
        report = page.frame_locator("iframe.report")
        expect(report.get_by_role("heading", name="parrot")).to_be_visible()
        expect(report.locator("svg").first).to_be_visible()
        visit.assert_clean()


def test_environment_page_shows_its_document(browser: Browser, served: ConsoleProcess, twin: LiveTwin, tmp_path: Path) -> None:
    with served.visit(browser, "/environment") as visit:
        page = visit.page
        stages = page.get_by_role("list", name="Stages").get_by_role("listitem")
        expect(stages).to_have_count(3)
        expect(page.get_by_role("region", name="training")).to_contain_text("tpu-node-pool (2 × v4-32)")
        expect(page.get_by_role("button", name="Detect drift")).to_be_enabled()
        visit.assert_clean()
    if records_screenshots():
        _screenshot_of_created_environment(browser, twin, tmp_path)


def _screenshot_of_created_environment(browser: Browser, twin: LiveTwin, folder: Path) -> None:
    """Creating one takes a minute and is tested elsewhere; it is only created for the screenshot."""
    with (
        create_environment(folder, twin.work) as created,
        ConsoleProcess(None, "--twin", folder=created.work, **created.variables) as served,
        served.visit(browser, "/environment") as visit,
    ):
        visit.page.get_by_role("button", name="Detect drift").click()
        expect(visit.page.get_by_text("no drift found")).to_be_visible(timeout=120_000)
        visit.page.get_by_role("list", name="Stages").get_by_role("button").nth(1).click()
        visit.screenshot("environment")


def test_rehearsal_page_controls_time_and_injects_faults(browser: Browser, served: ConsoleProcess, twin: LiveTwin) -> None:
    with served.visit(browser, "/rehearsal") as visit:
        page = visit.page
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        shown = page.get_by_role("timer")
        before = shown.inner_text()
        page.get_by_role("button", name="+10 min").click()
        expect(shown).not_to_have_text(before)
        page.get_by_label("Where").select_option("small")
        page.get_by_role("button", name="Host failure").click()
        expect(page.get_by_role("region", name="Events").get_by_text("Failure of nodes small-")).to_be_visible()

        async def states(client: Client) -> list[str]:
            nodes = [await client.get(NODE, f"small-{number}") for number in range(2)]
            return [str((node["metadata"].get("annotations") or {}).get("sliceworks.dev/state")) for node in nodes]

        eventually(lambda: sorted(twin.do(states)) == ["None", "silent"], what="one of the two hosts is silent")
        page.get_by_role("button", name="Play", exact=True).click()
        page.get_by_label("Speed").select_option("60")
        moments = page.get_by_role("region", name="Events")
        expect(moments.get_by_text(re.compile(r"host small-\d became unreachable"))).to_be_visible()
        page.get_by_role("button", name="Inject").click()
        reported = page.locator(".q-notification")
        expect(reported.filter(has_text="Injected scenario bad-day.")).to_have_attribute("role", "alert")
        expect(reported).to_have_count(1)  # five actions were recorded: the last one is shown, and no other hides it
        expect(moments.get_by_text("Maintenance of nodes spare-1")).to_be_visible()
        if records_screenshots():
            expect(reported).to_have_count(0)
        page.evaluate("scrollTo(0, 0)")
        visit.screenshot("rehearsal")
        visit.assert_clean()


def test_narrow_window_does_not_scroll_horizontally(browser: Browser, served: ConsoleProcess) -> None:
    with served.visit(browser, "/slices/torus", size=NARROW) as visit:
        for title in ("Slices", "Graphs", "Models", "Load tests", "Environment", "Rehearsal"):
            assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            visit.page.get_by_role("navigation", name="Pages").get_by_role("link", name=title).click()
            expect(visit.page.get_by_role("heading", level=1, name=title)).to_be_visible()
        assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        visit.assert_clean()
