"""Make the pictures of the documentation from pages of unire, in light and dark, with two pixels per CSS pixel.

    python demo/picture.py

Writes page-light.png and page-dark.png, of a page that `unire extract` writes, and serving.png, of the page that
`unire serve` shows, to docs/images. Needs chromium, playwright, unire[serve] and the font Inter:

    apt-get install chromium-headless-shell fonts-inter
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from unire import Extractor
from unire.rendering import html
from unire.rendering.views import View, views
from unire.segmentation import segment

SENTENCE = "We train a chart parser on the Penn Treebank for dependency parsing."
IMAGES = Path(__file__).parents[1] / "docs" / "images"
FRAME = 11
"""Pixels of the frame of a document, with its round corners."""
FONTS = """<?xml version="1.0"?>
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  <alias binding="strong"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
  <alias binding="strong"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
</fontconfig>
"""
"""Debian's own sans-serif font is wider than those of other systems."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        fonts = Path(folder) / "fonts.conf"
        fonts.write_text(FONTS, encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox"],
            env={**os.environ, "FONTCONFIG_FILE": str(fonts)},
        )
        page_file = Path(folder) / "page.html"
        extractor = Extractor.load("science", device="cpu")
        html.write(without_distances(views(extractor, [segment(SENTENCE)])), page_file, extractor.labels)
        for scheme in ("light", "dark"):
            capture_document(browser, page_file, scheme)
        capture_server(browser)
        browser.close()


def without_distances(seen: Iterator[View]) -> Iterator[View]:
    """Leave out the chart below the table."""
    for view in seen:
        yield replace(view, tables=tuple(replace(table, distances=None) for table in view.tables))


def open_page(browser: Any, url: str, scheme: str, width: int, height: int) -> Any:
    """Open a page, and the table of its first sentence."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=2)
    page.goto(url)
    page.locator(".sentence-tables > summary").first.click()
    page.locator(".sentence-tables svg").first.wait_for()
    page.wait_for_timeout(200)  # the arcs are drawn again if the layout changes
    return page


def capture_document(browser: Any, page_file: Path, scheme: str) -> None:
    """The document of a written page, without its frame."""
    page = open_page(browser, page_file.as_uri(), scheme, 853, 800)
    text, side = (page.locator(f".document .{name}").bounding_box() for name in ("text", "side"))
    height = side["y"] + side["height"] - text["y"] - FRAME
    clip = {"x": text["x"] + 1, "width": 806, "y": text["y"] + 1, "height": height}
    page.screenshot(path=IMAGES / f"page-{scheme}.png", clip=clip, full_page=True)


def capture_server(browser: Any) -> None:
    """The page of a server as it opens."""
    command = [sys.executable, "-m", "unire", "serve", "--model", "science", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            message = server.stderr.readline()  # type: ignore[union-attr]
            page = open_page(browser, re.findall(r"http://\S+", message)[0], "light", 1100, 900)
            page.screenshot(path=IMAGES / "serving.png")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
