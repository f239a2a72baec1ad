"""Screenshots of a report for the documentation: python screenshots.py report.html FOLDER (needs Chromium)."""

from __future__ import annotations

import base64
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from browser import start_chromium
from PIL import Image

# name: width, height, top, dark
SHOTS = {
    "report-wide": (1200, 1560, 0, False),
    "report-dark": (1200, 1260, 1500, True),
    "report-phone": (390, 1100, 0, False),
}


def shoot(page: Path, width: int, height: int, top: int, dark: bool) -> Image.Image:
    """This part of the page, at two dots per pixel."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = start_chromium(Path(profile))
        try:
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 2, "mobile": width < 500}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            driver.get(page.resolve().as_uri())
            clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
            shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        finally:
            driver.quit()
    return Image.open(BytesIO(base64.b64decode(shot["data"]))).convert("RGB")


def main(page: Path, folder: Path) -> None:
    """One PNG per shot, in a palette that keeps it small."""
    for name, shot in SHOTS.items():
        image = shoot(page, *shot).quantize(192, dither=Image.Dither.NONE)
        image.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
