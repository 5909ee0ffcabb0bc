"""Documents as HTML: a page with text, arcs and tables, or a fragment for a notebook.

Everything that comes from data is escaped here, in `text.py` and `data.py`; the scripts beside them put it into a page
as text, and nothing as markup but what `text.py` wrote.
"""

from __future__ import annotations

from unire.rendering.html.page import LIMIT, Written, write
from unire.rendering.html.text import fragment

__all__ = ["LIMIT", "Written", "fragment", "write"]
