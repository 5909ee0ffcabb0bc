"""Pages in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from unire.rendering import html

DRAWN = """() => [...DocumentView.all].every((view) => !view.late
  || view.text.getBoundingClientRect().top > innerHeight + 1000)"""
"""Whether all texts near the window have their arcs."""


@pytest.fixture
def visit(browser, tmp_path) -> Iterator[Any]:
    """Write a page and open it; at the end it must have complained of nothing and asked for nothing."""
    contexts, complaints, requests = [], [], []

    def open_page(seen, labels=None, *, width=1200, height=900, scheme="light", limit=200, **options):
        path = tmp_path / "page.html"
        html.write(seen, path, labels, limit=limit)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function(DRAWN)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert len(requests) == len(contexts)  # the file itself
