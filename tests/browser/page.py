"""A page in the browser, as tests speak about it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.remote.webelement import WebElement


@dataclass(frozen=True)
class Page:
    driver: Chrome
    downloads: Path

    @staticmethod
    def open(driver: Chrome, downloads: Path, where: Path | str, width: int, dark: bool) -> Page:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        driver.get(where.resolve().as_uri() if isinstance(where, Path) else where)
        return Page(driver, downloads)

    @staticmethod
    def check_logs(driver: Chrome) -> None:
        """Nothing on the console, and no request but for the file or the page's own server."""
        said = [entry["message"] for entry in driver.get_log("browser")]
        assert not said, said
        asked = []
        for entry in driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        assert asked  # the log works: the page itself is in it
        allowed = ("file://", "data:", "blob:", "about:", "http://127.0.0.1:")
        strangers = [url for url in asked if not url.startswith(allowed)]
        assert not strangers, strangers

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def click(self, selector: str) -> None:
        """As a user would: scrolled into view, pressed by the keyboard."""
        element = self.all(selector)[0]
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'}); arguments[0].click()", element)

    def type(self, selector: str, text: str) -> None:
        """Key by key into the field that has the focus, which the page may have drawn anew after each."""
        self.run("document.querySelector(arguments[0]).focus()", selector)
        for letter in text:
            self.driver.switch_to.active_element.send_keys(letter)

    def column(self, table: str, place: int) -> list[str]:
        """The texts of a table's column, from the top."""
        return self.texts(f"#table-{table} tbody tr td:nth-child({place})")

    def wait(self, claim: Callable[[], object], seconds: float = 15) -> Any:
        """The claim's value once it holds."""
        deadline = time.monotonic() + seconds
        while not (value := claim()):
            assert time.monotonic() < deadline, "the page did not come to it in time"
            time.sleep(0.05)
        return value
