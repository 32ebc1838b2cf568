"""Take the pictures of docs/report.md, of the page that `make demo` writes: docs/make_screenshots.py demo.html."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
VIEWS = {"report-desktop.png": (1100, 830, ""), "report-phone.png": (390, 900, "explorer")}
"""Width and height of the window, and the part of the page to show; the beginning where there is none."""


def main(page_file: Path) -> None:
    """Write the pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (width, height, part) in VIEWS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
            page.goto(page_file.resolve().as_uri())
            page.wait_for_selector("[data-chart=map] svg")
            if part:
                page.fill("#symbol-search", "piano")
                page.press("#symbol-search", "Enter")
                page.evaluate(f"document.getElementById('{part}').scrollIntoView({{behavior: 'instant'}})")
                page.evaluate("document.activeElement.blur()")
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / name)
            print(IMAGES / name, (IMAGES / name).stat().st_size)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
