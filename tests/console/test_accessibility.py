"""Accessibility of every page on the large cluster, light and dark: no script errors, and no audit findings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from tests.support.browsers import ConsoleProcess

CLUSTER = "console"
pytestmark = pytest.mark.real
AUDIT = (Path(__file__).parents[1] / "support" / "audit.js").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_passes_the_audit(browser: Browser, big: ConsoleProcess, dark: bool) -> None:
    result: dict[str, list[str]] = {}
    with big.visit(browser, dark=dark) as visit:
        page = visit.page
        links = page.get_by_role("navigation", name="Pages").locator("a[data-key]")
        for number in range(links.count()):
            links.nth(number).click()
            expect(page.locator("#main h1")).to_be_focused()
            expect(links.nth(number)).to_have_attribute("aria-current", "page")
            expect(page.get_by_text("could not be rendered")).to_have_count(0)
            page.wait_for_timeout(500)  # a page that fails on its second drawing has failed by now
            if wrong := page.evaluate(AUDIT):
                result[page.url.rpartition("/")[2]] = wrong
        page.goto(f"{big.base}/jobs?state=failed")
        page.locator("table.jobs tbody a").first.click()
        expect(page.get_by_role("region", name="Why")).to_be_visible()
        result |= {"job": wrong} if (wrong := page.evaluate(AUDIT)) else {}
        visit.assert_clean()
    assert result == {}


def test_audit_reports_violations(browser: Browser, big: ConsoleProcess) -> None:
    with big.visit(browser) as visit:
        page = visit.page
        page.evaluate("""document.querySelector("#main").insertAdjacentHTML("beforeend",
          '<h4>deep</h4><button></button><p style="color:#bbb">pale</p><i id="x"></i><i id="x"></i>')""")
        wrong = " ".join(page.evaluate(AUDIT))
        for words in ("skips a level", "no name: <button", "hard to read (1.", "two of the id x"):
            assert words in wrong


@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_is_wider_than_the_window(browser: Browser, big: ConsoleProcess, width: int) -> None:
    """Neither the page nor a table in it scrolls sideways, however long the names in its selectors are."""
    too_wide: dict[str, object] = {}
    with big.visit(browser, size={"width": width, "height": 800}) as visit:
        page = visit.page
        paths = page.get_by_role("navigation", name="Pages").locator("a[data-key]").evaluate_all("all => all.map(a => a.pathname)")
        page.goto(f"{big.base}/jobs")
        job = page.locator("table.jobs tbody a").first.get_attribute("href")
        page.goto(f"{big.base}/slices")
        tile = page.locator("a.tile").first.get_attribute("href")
        for path in [*paths, job, tile]:
            page.goto(f"{big.base}{path}")
            expect(page.locator("#main h1")).to_be_visible()
            expect(page.get_by_text(re.compile("^Loading"))).to_have_count(0)
            page.wait_for_timeout(500)
            page.evaluate("document.querySelectorAll('option').forEach(one => one.append('-0123456789'.repeat(6)))")
            wide = page.evaluate("document.documentElement.scrollWidth")
            tables = page.locator(".scroll:has(> table)").evaluate_all("all => all.map(one => one.scrollWidth - one.clientWidth)")
            if wide > width or any(more > 1 for more in tables):
                too_wide[path] = (wide, tables)
    assert len(paths) == 9
    assert too_wide == {}
