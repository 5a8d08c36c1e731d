"""report.html of a study: whole, small, offline, and readable for whoever reads it how they can."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.chromium import Browser
from tests.unit.tools.ab.test_page import CASES, FACTS, needs_a_browser, page_of, tab  # noqa: F401


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
