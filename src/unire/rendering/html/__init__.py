"""Documents as HTML: a page with text, arcs and tables, or a fragment with text and arcs for a notebook.

`markup.py` escapes all text from data, and the scripts insert it as text.
"""

from __future__ import annotations

from unire.rendering.html.fragment import render_fragment
from unire.rendering.html.page import MAX_DOCUMENTS, PageSummary, write

__all__ = ["MAX_DOCUMENTS", "PageSummary", "render_fragment", "write"]
