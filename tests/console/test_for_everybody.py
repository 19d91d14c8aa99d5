"""Every page on the big cluster, light and dark: it opens without an error, and can be used by those who do not see well."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from tests.support.browsers import Served

CLUSTER = "console"
pytestmark = pytest.mark.real
AUDIT = (Path(__file__).parents[1] / "support" / "audit.js").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(browser: Browser, big: Served, dark: bool) -> None:
    found: dict[str, list[str]] = {}
    with big.visit(browser, dark=dark) as visit:
        page = visit.page
        links = page.get_by_role("navigation", name="Pages").locator("a[data-key]")
        for number in range(links.count()):
            links.nth(number).click()
            expect(page.locator("#main h1")).to_be_focused()
            expect(links.nth(number)).to_have_attribute("aria-current", "page")
            expect(page.get_by_text("could not be drawn")).to_have_count(0)
            page.wait_for_timeout(500)  # a page that breaks when it is drawn again breaks by now
            if wrong := page.evaluate(AUDIT):
                found[page.url.rpartition("/")[2]] = wrong
        page.goto(f"{big.base}/jobs?state=failed")
        page.locator("table.jobs tbody a").first.click()
        expect(page.get_by_role("region", name="Why")).to_be_visible()
        found |= {"job": wrong} if (wrong := page.evaluate(AUDIT)) else {}
        visit.was_good()
    assert found == {}


def test_the_audit_sees_what_is_wrong(browser: Browser, big: Served) -> None:
    with big.visit(browser) as visit:
        page = visit.page
        page.evaluate("""document.querySelector("#main").insertAdjacentHTML("beforeend",
          '<h4>deep</h4><button></button><p style="color:#bbb">pale</p><i id="x"></i><i id="x"></i>')""")
        wrong = " ".join(page.evaluate(AUDIT))
        for words in ("skips a level", "no name: <button", "hard to read (1.", "two of the id x"):
            assert words in wrong
