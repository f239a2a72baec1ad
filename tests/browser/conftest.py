"""A real Chromium without a window. Without one the tests fail and say so; `-m "not browser"` leaves them out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from page import Page
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


def program(variable: str, *names: str) -> str:
    """The program that the environment names, or the first of these that is installed."""
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.fail(
            f"no {names[0]}: install Debian's chromium and chromium-driver, name it in ${variable}, "
            "or leave these tests out with: pytest -m 'not browser'"
        )
    return found


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """One browser for all tests of a worker."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("CHROMIUM", "chromium", "chromium-browser", "google-chrome")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    downloads = tmp_path_factory.mktemp("downloads")
    several = "profile.default_content_setting_values.automatic_downloads"
    options.add_experimental_option("prefs", {several: 1})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program("CHROMEDRIVER", "chromedriver")))
    driver.set_page_load_timeout(60)
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    driver.get("about:blank")
    for log in ("browser", "performance"):
        driver.get_log(log)  # what the browser's own first page did is not of interest
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
