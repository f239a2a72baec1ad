"""Debian's Chromium without a window, driven by selenium."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


def find_program(variable: str, *names: str) -> str | None:
    """The program that the environment names, or the first of these that is installed."""
    return os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)


def start_chromium(profile: Path) -> webdriver.Chrome:
    """A fresh browser that has asked nobody anything; an error that says what to install if there is none."""
    chromium = find_program("CHROMIUM", "chromium", "chromium-browser", "google-chrome")
    driver = find_program("CHROMEDRIVER", "chromedriver")
    if not chromium or not driver:
        raise RuntimeError(
            f"no {'chromedriver' if chromium else 'Chromium'}: install Debian's chromium and chromium-driver (or name "
            "them in $CHROMIUM and $CHROMEDRIVER), or leave the browser tests out with: pytest -m 'not browser'"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    several = "profile.default_content_setting_values.automatic_downloads"
    options.add_experimental_option("prefs", {several: 1})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    started.set_page_load_timeout(60)
    started.get("about:blank")
    for log in ("browser", "performance"):
        started.get_log(log)  # what the browser's own first page did is not of interest
    return started
