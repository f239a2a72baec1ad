"""A real Chromium without a window. Without one the tests fail and say so; `-m "not browser"` leaves them out."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import start_chromium
from page import Page


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """One browser for all tests of a worker, and the folder for its downloads."""
    driver, downloads = start_chromium(tmp_path_factory.mktemp("profile")), tmp_path_factory.mktemp("downloads")
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    yield driver, downloads
    driver.quit()


@pytest.fixture
def browse(chromium):
    """Open a file or an address at a width, bright or dark; every page opened must stay free of errors."""
    driver, downloads = chromium

    def open_page(where: Path | str, width: int = 1400, dark: bool = False) -> Page:
        return Page.open(driver, downloads, where, width, dark)

    yield open_page
    Page.check_logs(driver)
