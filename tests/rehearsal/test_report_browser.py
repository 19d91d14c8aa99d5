"""The report page in a real browser: no errors, no network requests, and keyboard navigation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventful_run import eventful_run
from tests.support.rehearsal_runs import large_run

from sliceworks.rehearsal.report.page import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.browsers import Visit

    from sliceworks.rehearsal.record import RunRecord

pytestmark = [pytest.mark.real, pytest.mark.long(10)]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Visit]]:
    """Open the report page of a run."""
    from playwright.sync_api import sync_playwright
    from tests.support.browsers import Visit, chromium, launch_browser

    folder: Path = tmp_path_factory.mktemp("pages")
    chromium()
    with sync_playwright() as playwright:
        browser = launch_browser(playwright)

        def open_page(day: RunRecord, width: int = 1280, **how: Any) -> Visit:
            file = folder / f"{day.name}.html"
            file.write_text(render(day), encoding="utf-8")
            visit = Visit(browser.new_context(viewport={"width": width, "height": 900}, **how))
            visit.page.goto(file.as_uri())
            return visit

        yield open_page
        browser.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_page_is_drawn(opened: Callable[..., Visit], width: int, scheme: str) -> None:
    visit = opened(eventful_run(), width, color_scheme=scheme)
    page = visit.page
    assert page.locator(".board .row").count() >= 15
    assert page.locator(".ruler .mark").count() == 4
    assert page.locator(".plot .layer").count() == 3
    page.get_by_label("chip type").check()
    assert "nvidia-l4" in page.locator("#chips .legend").last.inner_text()
    # The page does not overflow the window.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.assert_clean()
    visit.context.close()


def test_timeline_keyboard_navigation(opened: Callable[..., Visit]) -> None:
    visit = opened(eventful_run())
    page, announcer = visit.page, visit.page.locator(".announcer")
    page.emulate_media(reduced_motion="reduce")  # otherwise the page still scrolls to the board when keys open its card
    page.locator(".board").focus()
    for key in ("ArrowDown", "End", "Home"):
        page.keyboard.press(key)
    assert announcer.inner_text() == "Steps, 7 rows, open"
    for _ in range(9):
        page.keyboard.press("ArrowDown")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert announcer.inner_text().startswith(
        "llama-70b: preempted, waiting again, 10:30:00 to 11:20:00, 50 min, preempted by urgent-eval"
    )
    page.locator(".card").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.ruler text').textContent >= '09:30'")
    page.keyboard.press("0")
    page.wait_for_function("() => document.querySelector('.ruler text').textContent === '08:00'")
    visit.assert_clean()
    visit.context.close()


def test_incident_links_to_its_time(opened: Callable[..., Visit]) -> None:
    visit = opened(eventful_run())
    visit.page.get_by_role("button", name="08:51:40 on the timeline").click()
    visit.page.wait_for_function("() => document.querySelectorAll('.ruler .mark').length === 1")
    assert visit.page.locator(".board").evaluate("board => board === document.activeElement")
    visit.assert_clean()
    visit.context.close()


def test_many_jobs_are_drawn_lazily(opened: Callable[..., Visit]) -> None:
    visit = opened(large_run())
    page = visit.page
    page.locator("#filter").fill("team-3")
    page.wait_for_function("() => document.querySelectorAll('.board .row').length > 10")
    assert page.locator(".board .row").count() < 100
    page.locator("#filter").fill("train-0777")
    page.wait_for_function("() => document.querySelectorAll('.board .row').length <= 2")
    assert "train-0777" in (page.locator(".board .row .name").first.text_content() or "")
    visit.assert_clean()
    visit.context.close()
