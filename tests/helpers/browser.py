"""Debian's chromium, for tests that look at pages; without one they are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The same engine in all; without a browser around it that nobody sees, it draws a page in half the time."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("there is no chromium to look at pages with: apt-get install chromium-headless-shell")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def hover(page: Any, panel: str, row: float, column: float, n: int) -> None:
    """Move the mouse to a cell of a table of `n` words."""
    ground = page.locator(f".panel:has(figcaption:text('{panel}')) .ground").first
    ground.scroll_into_view_if_needed()
    box = ground.bounding_box()
    size = box["width"] / n
    page.mouse.move(box["x"] + (column + 0.5) * size, box["y"] + (row + 0.5) * size)


def shares(page: Any) -> dict[str, float]:
    """What the note on a cell says: probabilities by label."""
    names = page.locator(".note:visible dt").all_inner_texts()
    return dict(zip(names, map(float, page.locator(".note:visible dd.p").all_inner_texts()), strict=True))


def accessibility_problems(page: Any) -> list[str]:
    """What axe-core complains of, with the first element of each complaint."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    options = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
    found = axe.Axe().run(page, options=options).response["violations"]
    return [f"{problem['id']}: {problem['nodes'][0]['html'][:200]}" for problem in found]
