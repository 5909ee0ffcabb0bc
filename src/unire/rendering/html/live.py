"""What a page is sent that asks while it is open: the text of each sentence as HTML, the rest as data."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from unire.labels import LabelSpace
from unire.rendering.html import data
from unire.rendering.html.text import relation_list, sentences
from unire.rendering.palette import Palette
from unire.rendering.views import View

__all__ = ["of_view"]


def of_view(view: View, labels: LabelSpace, palette: Palette, cells: Container[int] = ()) -> dict[str, Any]:
    """A document for `DocumentView` in `document.js`; the probabilities only of the sentences `cells`."""
    return {
        "sentences": list(sentences(view.document, palette)),
        "triples": relation_list(view.document, palette),
        **data.of_document(view, labels, palette, cells),
    }
