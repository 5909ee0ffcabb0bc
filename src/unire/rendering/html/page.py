"""One page that holds everything: text, arcs, tables, style and scripts. It loads nothing and sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

from unire.files import open_text_output
from unire.labels import LabelSpace
from unire.rendering.common import Palette, merge_symmetric
from unire.rendering.html import data
from unire.rendering.html.template import PageTemplate
from unire.rendering.html.text import asset, relation_list, sentences, shown
from unire.rendering.views import View

__all__ = ["LIMIT", "Written", "write"]

LIMIT = 200
"""Documents of a page: more are slow to open, and nobody reads them."""

STYLE = ("text.css", "page.css", "table.css")
SCRIPT = ("arcs.js", "table.js", "document.js", "page.js")


class Written(NamedTuple):
    documents: int
    """How many the page holds."""
    complete: bool
    """Whether those were all."""


def write(
    views: Iterable[View],
    target: str | Path | TextIO,
    labels: LabelSpace | None = None,
    *,
    title: str = "Entities and relations",
    limit: int = LIMIT,
) -> Written:
    """Write a page.

    Args:
        views: May be a stream; one is held in memory at a time, and none is asked for beyond the limit.
        target: A path (the file is whole or not there), or an open text stream.
        labels: The label space of the tables; without it there are none.
        title: Of the page.
        limit: Documents to show; if there are more, the page says so.
    """
    palette = Palette(labels or ())
    stream = iter(views)
    count = 0
    with open_text_output(target) as file:
        file.write(_head(title, labels, palette))
        for count, view in enumerate(islice(stream, limit), start=1):
            file.writelines(_document(view, count, labels, palette))
        complete = next(stream, None) is None
        file.write(_foot(count, complete))
    return Written(count, complete)


def _head(title: str, labels: LabelSpace | None, palette: Palette) -> str:
    known = data.script({"labels": [] if labels is None else data.of_labels(labels, palette)}, 'id="labels"')
    shell = PageTemplate(title, "\n".join(map(asset, STYLE)), "\n".join(map(asset, SCRIPT)))
    return f"""{shell.head}<body class="unire">
<header><h1>{shown(title)}</h1></header>
{known}
<main>
"""


def _document(view: View, number: int, labels: LabelSpace | None, palette: Palette) -> Iterator[str]:
    """The first document is open; scripts draw a document when it is opened first."""
    document = view.document
    with_table = set() if labels is None else {table.place.sentence for table in view.tables}
    yield f'<details class="document"{" open" if number == 1 else ""}>\n<summary>'
    yield f'<span class="id" dir="auto">{shown(document.id) or f"Document {number}"}</span> '
    yield f'<span class="counts">{_counted(len(document.entities), "entity", "entities")}, '
    yield f"{_counted(len(merge_symmetric(document.relations)), 'relation', 'relations')}</span></summary>\n"
    yield '<div class="text">\n'
    for i, text in enumerate(sentences(document, palette)):
        yield f'<div class="sentence" dir="auto">{text}</div>\n'
        if i in with_table:
            words = _counted(len(document.sentences[i]), "word", "words")
            yield f'<details class="sentence-tables" data-sentence="{i}"><summary>Table of {words}</summary>'
            yield "</details>\n"
    yield "</div>\n"
    yield relation_list(document, palette)
    yield data.script(data.of_document(view, labels, palette), 'class="data"')
    yield "\n</details>\n"


def _foot(count: int, complete: bool) -> str:
    if not count:
        remark = "There are no documents."
    else:
        remark = "" if complete else f"This page shows the first {count:,} documents and leaves out the others."
    return f"""</main>
<footer>{remark}</footer>
<noscript>Arcs and tables need scripts.</noscript>
</body>
</html>
"""


def _counted(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"
