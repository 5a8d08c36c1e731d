"""The page as people see it: a real headless browser, wide and narrow, light and dark, on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.report import chromium
from tests.kit.report.chromium import Browser

from ttf.tools.report.page import write_page

pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="chromium is not installed: nothing to look at the page with"
)
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def page(crashed_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(crashed_run, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def tab(page: Path) -> Iterator[Browser]:
    """All its processes are there before the first test, whose guard counts them."""
    with chromium.browser() as found:
        found.open(page, width=1200, dark=False)
        yield found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_it_renders_without_a_complaint_a_request_or_a_scroll_bar(
    tab: Browser, page: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    tab.open(page, width=width, dark=dark)
    assert tab.value("document.readyState") == "complete"
    assert tab.complaints() == []
    assert tab.requests() == [page.as_uri()]
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value(BACKGROUND) == ("rgb(24, 24, 26)" if dark else "rgb(255, 255, 255)")
    drawn = (
        "[...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().height > 80)"
    )
    assert tab.value(f"{drawn}.length") == tab.value("document.querySelectorAll('svg').length") >= 8
    tab.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_a_mark_leads_to_its_incident(tab: Browser, page: Path) -> None:
    tab.open(page, width=1200, dark=False)
    tab.value("document.querySelector('svg a').dispatchEvent(new MouseEvent('click'))")
    assert tab.value("location.hash") == "#incident-001"
    assert tab.value("!!document.querySelector('.i:target')")


def test_it_can_be_printed_on_white_paper(tab: Browser, page: Path) -> None:
    tab.open(page, width=800, dark=True, media="print")
    assert tab.value(BACKGROUND) == "rgb(255, 255, 255)"
    pdf = tab.pdf()
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000


def test_a_page_of_a_guarded_command_fits_a_phone(tab: Browser, guard_dir: Path) -> None:
    tab.open(write_page(guard_dir), width=360, dark=False)
    assert tab.complaints() == []
    assert tab.value("document.documentElement.scrollWidth") <= 360
