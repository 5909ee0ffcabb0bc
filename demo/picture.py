"""Makes docs/page.png, from a page that unire writes, and docs/serving.png, of the one that it serves.

Needs chromium, playwright and unire[serve].
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from unire import Extractor
from unire.rendering import html
from unire.rendering.views import views
from unire.segmentation import segment

SENTENCE = "We train a chart parser on the Penn Treebank for dependency parsing."
DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        written(browser)
        served(browser)
        browser.close()


def open_table(page: Any) -> None:
    page.locator(".sentence-tables > summary").first.click()
    page.locator(".sentence-tables svg").first.wait_for()


def written(browser: Any) -> None:
    """The page of one sentence."""
    extractor = Extractor.load("science", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        page_file = Path(folder) / "page.html"
        html.write(views(extractor, [segment(SENTENCE)]), page_file, extractor.labels)
        page = browser.new_page(viewport={"width": 940, "height": 700})
        page.goto(page_file.as_uri())
        open_table(page)
        page.locator(".document").screenshot(path=DOCS / "page.png")


def served(browser: Any) -> None:
    """The page with which a server begins."""
    command = [sys.executable, "-m", "unire", "serve", "--model", "science", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            said = server.stderr.readline()  # type: ignore[union-attr]
            page = browser.new_page(viewport={"width": 1200, "height": 1000})
            page.goto(re.findall(r"http://\S+", said)[0])
            open_table(page)
            page.screenshot(path=DOCS / "serving.png")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
