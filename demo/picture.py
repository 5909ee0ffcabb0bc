"""Makes the picture in the README, docs/page.png, from a page that unire writes: needs chromium and playwright."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from unire import Extractor
from unire.rendering import html
from unire.rendering.views import views
from unire.segment import segment

SENTENCE = "We train a chart parser on the Penn Treebank for dependency parsing."
PICTURE = Path(__file__).parents[1] / "docs" / "page.png"


def main() -> None:
    extractor = Extractor.load("science", device="cpu")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page_file = Path(folder) / "page.html"
        html.write(views(extractor, [segment(SENTENCE)]), page_file, extractor.labels)
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 940, "height": 700})
        page.goto(page_file.as_uri())
        page.locator(".sentence-tables > summary").click()
        page.locator(".sentence-tables svg").first.wait_for()
        page.locator(".document").screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
