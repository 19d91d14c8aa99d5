"""A thousand slices in a real browser under constant changes: paged, filtered and updated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from tests.support.browsers import ConsoleProcess

CLUSTER = "console"
pytestmark = [pytest.mark.real, pytest.mark.long(10)]


def test_slices_are_counted_filtered_and_paged(browser: Browser, big: ConsoleProcess) -> None:
    with big.visit(browser, "/slices") as visit:
        page, tiles = visit.page, visit.page.locator(".tile")
        expect(page.get_by_text("1,000 of 1,000")).to_be_visible()
        expect(tiles).to_have_count(48)
        expect(tiles.first.locator("svg.sw-tile")).to_be_visible()
        visit.screenshot("slices")
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("49–96 of 1,000")).to_be_visible()
        page.get_by_label("Type").select_option("v5p-32")
        expect(page.get_by_text("250 of 1,000")).to_be_visible()
        page.get_by_role("searchbox").fill("slice-0998")
        expect(tiles).to_have_count(1)
        tiles.first.click()
        expect(page.get_by_role("heading", level=1, name="slice-0998")).to_be_focused()
        expect(page.locator(".sw-pick")).to_have_count(4)
        visit.assert_clean()


def test_slice_page_payload_is_small(browser: Browser, big: ConsoleProcess) -> None:
    with big.visit(browser, "/slices") as visit:
        expect(visit.page.locator(".tile")).to_have_count(48)
        sizes = visit.page.evaluate("[...document.querySelectorAll('.tile .picture')].map(each => each.innerHTML.length)")
        assert max(sizes) < 1500
        assert re.fullmatch(r"[\d,]+ of 1,000", visit.page.locator(".tools .count").inner_text())
        visit.assert_clean()
