"""report.html of a study: whole, small, offline, and readable for whoever reads it how they can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit import chromium
from tests.kit.chromium import Browser
from tests.kit.studies_by_hand import page_of

needs_a_browser = pytest.mark.skipif(
    chromium.find() is None, reason="chromium is not installed: nothing to look at the page with"
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """All its processes are there before the first test, whose guard counts them."""
    folder = tmp_path_factory.mktemp("first")
    page_of(folder, "2 x 20")
    with chromium.browser() as found:
        found.open(folder / "report.html", width=1200, dark=False)
        yield found


@needs_a_browser
@pytest.mark.parametrize("width", [1200, 360])
@pytest.mark.parametrize("case", ["2 x 20", "4 x 10", "long and hostile names", "no repeat"])
def test_it_renders_without_a_complaint_a_request_or_a_scroll_bar(
    tab: Browser, tmp_path: Path, case: str, width: int
) -> None:
    page_of(tmp_path, case)
    page = tmp_path / "report.html"
    tab.open(page, width=width, dark=width == 360)
    assert tab.complaints() == []
    assert tab.requests() == [page.as_uri()]
    assert tab.value("document.documentElement.scrollWidth") <= width


@needs_a_browser
def test_it_can_be_printed_on_white_paper(tab: Browser, tmp_path: Path) -> None:
    page_of(tmp_path, "2 x 20")
    tab.open(tmp_path / "report.html", width=800, dark=True, media="print")
    assert tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(tab.pdf()) > 20_000
    tab.open(tmp_path / "report.html", width=700, dark=False, media="print")  # A4 in its margins
    cut_off = (
        "[...document.querySelectorAll('.cmp, .arms')].filter(t => t.offsetWidth > 700).length"
    )
    assert tab.value(cut_off) == 0
