"""One self-contained page: text, arcs, tables, style sheets and scripts. It loads nothing and sends nothing.

The scripts read their data as JSON. Numbers are rounded, so that a page stays small: probabilities are whole
thousandths, compressed and written in base64.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document
from unire.files import open_text_output
from unire.labels import LabelSpace
from unire.rendering import Palette, merge_symmetric
from unire.rendering.html.markup import PageTemplate, escape_text, mark_sentences, read_asset, render_items
from unire.rendering.views import SentenceTable, View
from unire.tables import fill_sentence, read_table
from unire.utils import escape_controls

__all__ = [
    "MAX_DOCUMENTS",
    "SCALE",
    "SCRIPT",
    "STYLE",
    "PageSummary",
    "embed_json",
    "encode_document",
    "encode_labels",
    "encode_view",
    "write",
]

MAX_DOCUMENTS = 200
"""Documents on a page by default: a page with more opens slowly."""

SCALE = 1000
"""The integer that encodes a probability of 1."""

Json = dict[str, Any]

HEADING_CHARACTERS = 110
"""Characters of a document that head it."""

TABLE_HINT = '<span class="hint aside">opens the table that the model filled for a sentence</span>'

STYLE = ("text.css", "page.css", "table.css")
SCRIPT = ("elements.js", "arcs.js", "table.js", "document.js", "filters.js")
"""Style sheets and scripts of all pages with documents, in order."""


class PageSummary(NamedTuple):
    """What `write` wrote."""

    documents: int
    """Documents on the page."""
    complete: bool
    """Whether the page shows all documents."""


def write(
    views: Iterable[View],
    target: str | Path | TextIO,
    labels: LabelSpace | None = None,
    *,
    title: str = "Entities and relations",
    limit: int = MAX_DOCUMENTS,
) -> PageSummary:
    """Write a page that shows texts with their entities and relations, and the tables behind them.

    >>> html.write(map(View, documents), "page.html")  # doctest: +SKIP

    Args:
        views: The documents. A stream is read one by one, and not beyond the limit.
        target: A path, which is written atomically, or an open text stream.
        labels: The label space of the tables. Without it the page has no tables.
        title: The title of the page.
        limit: Documents to show. If there are more, the page says so.

    Returns:
        The number of documents on the page, and whether these are all.

    Raises:
        UnireError: The file cannot be written.
    """
    palette = Palette(labels or ())
    stream = iter(views)
    count = 0
    with open_text_output(target) as file:
        file.write(_render_head(title, labels, palette))
        for count, view in enumerate(islice(stream, limit), start=1):
            file.writelines(_render_document(view, count, labels, palette))
        complete = next(stream, None) is None
        file.write(_render_foot(count, complete))
    return PageSummary(count, complete)


def _render_head(title: str, labels: LabelSpace | None, palette: Palette) -> str:
    known = embed_json({"labels": [] if labels is None else encode_labels(labels, palette)}, 'id="labels"')
    shell = PageTemplate(title, "\n".join(map(read_asset, STYLE)), "\n".join(map(read_asset, (*SCRIPT, "page.js"))))
    return f"""{shell.head}<body class="unire">
<header><h1>{escape_text(title)}</h1></header>
{known}
<main>
<div id="tools" class="tools"></div>
<div id="legend" class="chips">{"" if labels is None else TABLE_HINT}</div>
<div id="documents">
"""


def _render_document(view: View, number: int, labels: LabelSpace | None, palette: Palette) -> Iterator[str]:
    """The first document is open. Scripts draw a document when it is first opened."""
    document = view.document
    with_table = set() if labels is None else {table.place.sentence for table in view.tables}
    yield f'<details class="document" id="document-{number}"{" open" if number == 1 else ""}>\n'
    yield f'<summary><h2 dir="auto">{escape_text(_heading(document)) or f"Document {number}"}</h2> <span class="facts">'
    if document.id:
        yield f'<bdi class="id">{escape_text(document.id)}</bdi> · '
    yield f'<span class="counts">{_count(len(document.entities), "entity", "entities")}, '
    yield f"{_count(len(merge_symmetric(document.relations)), 'relation', 'relations')}</span></span></summary>\n"
    yield '<div class="parts">\n<div class="text">\n'
    for i, marked in enumerate(mark_sentences(document)):
        if marked.starts_paragraph:
            yield "</div>\n" * (i > 0) + '<div class="paragraph">\n'
        text = render_items(marked.items, document, palette)
        yield f'<div class="row" dir="auto"><span class="sentence">{text}</span>{marked.gap}'
        if i in with_table:
            words = _count(len(document.sentences[i]), "word", "words")
            yield f'<details class="sentence-tables" dir="ltr" data-sentence="{i}"><summary title="Table of {words}">'
            yield f'<span class="hidden">Table of {words}</span></summary></details>'
        yield "</div>\n"
    yield '</div>\n</div>\n<div class="side"></div>\n</div>\n'
    yield embed_json(encode_document(view, labels, palette), 'class="data"')
    yield "\n</details>\n"


def _heading(document: Document) -> str:
    """The first words of a document."""
    start = document.text[: 4 * HEADING_CHARACTERS].split()
    words = " ".join(start)
    if len(words) <= HEADING_CHARACTERS:
        return words
    return f"{words[:HEADING_CHARACTERS].rpartition(' ')[0] or words[:HEADING_CHARACTERS]} …"


def _render_foot(count: int, complete: bool) -> str:
    if not count:
        remark = "There are no documents."
    else:
        remark = "" if complete else f"This page shows the first {count:,} documents and leaves out the others."
    return f"""</div>
</main>
<footer>{f'<p id="remark">{remark}</p>' if remark else ""}</footer>
<noscript>Arcs, relations, tables and filters need scripts.</noscript>
</body>
</html>
"""


def _count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


def embed_json(data: Json, attributes: str) -> str:
    """Embed JSON into a page. `<` is escaped, because only it can end a script or start a comment."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" {attributes}>{text}</script>'


def encode_labels(labels: LabelSpace, palette: Palette) -> list[Json]:
    """Encode names, codes and colours of the labels, by id. ⊥ has no colour."""
    kinds = ["entity"] * len(labels.entity_types) + ["relation"] * len(labels.relation_types)
    coloured = [
        {**_encode_label(name, palette), "kind": kind} for name, kind in zip(labels.names[1:], kinds, strict=True)
    ]
    return [{"label": labels.names[LabelSpace.NONE], "code": "", "colour": None}, *coloured]


def _encode_label(label: str, palette: Palette) -> Json:
    return {"label": escape_controls(label), "code": escape_controls(palette.code(label)), "colour": palette[label]}


def encode_document(
    view: View, labels: LabelSpace | None, palette: Palette, cells: Container[int] | None = None
) -> Json:
    """Encode the entities, their coreference clusters, the relations, and the tables of the sentences.

    The two directions of a symmetric relation are one relation. `positions` are those in `document.relations`.

    Args:
        view: The document.
        labels: The label space of the tables. Without it no table is encoded.
        palette: The colours of the labels.
        cells: The sentences whose tables include all probabilities. [default: all]
    """
    document = view.document
    place = {entity: i for i, entity in enumerate(document.entities)}
    cluster = {span: number for number, spans in enumerate(document.clusters) for span in spans}
    groups = [(document.relations[positions[0]], positions) for positions in merge_symmetric(document.relations)]
    return {
        "entities": [
            {
                "text": escape_controls(e.text),
                **_encode_label(e.label, palette),
                "score": _round(e.score),
                "cluster": cluster.get((e.start, e.end)),
            }
            for e in document.entities
        ],
        "clusters": [
            list(dict.fromkeys(escape_controls(_text_of(document, span)) for span in spans))
            for spans in document.clusters
        ],
        "relations": [
            {
                "head": place[r.head],
                "tail": place[r.tail],
                **_encode_label(r.label, palette),
                "score": _round(r.score),
                "positions": positions,
            }
            for r, positions in groups
        ],
        "tables": [] if labels is None else [_encode_table(view, table, labels, cells) for table in view.tables],
    }


def _text_of(document: Document, span: tuple[int, int]) -> str:
    """The text of some words."""
    return " ".join(document.text[document.offsets[span[0]][0] : document.offsets[span[1] - 1][1]].split())


def _encode_table(view: View, table: SentenceTable, labels: LabelSpace, cells: Container[int] | None) -> Json:
    place = table.place
    filled = cells is None or place.sentence in cells
    return {
        "sentence": place.sentence,
        "words": [escape_controls(word) for word in view.document.words[place.start : place.end]],
        "model": None
        if table.P is None
        else (_encode_cells(table.P) if filled else {}) | _encode_predictions(view, table, labels),
        "gold": None if view.gold is None else _encode_gold(view.gold, table, labels),
    }


def _encode_cells(P: NDArray[np.float32]) -> Json:
    """Encode the probabilities of every cell, and its most probable label."""
    # the argmax of the exact values: rounded ones may be equal
    return {"P": _pack(np.rint(P * SCALE)), "argmax": _pack(P.argmax(2))}


def _encode_predictions(view: View, table: SentenceTable, labels: LabelSpace) -> Json:
    """Encode what the decoder predicted from the table."""
    place = table.place
    sentence = view.document.sentences[place.sentence]
    entities = [entity for entity in sentence.entities if place.start <= entity.start < place.end]
    positions = {entity: i for i, entity in enumerate(entities)}
    return {
        "distances": None if table.distances is None else [round(d, 4) for d in table.distances.tolist()],
        "alpha": table.alpha,
        "cuts": [cut - place.start for cut in sentence.cuts or () if place.start < cut < place.end],
        "entities": [
            [e.start - place.start, e.end - place.start, labels.entity_id(e.label), _round(e.score)] for e in entities
        ],
        "relations": [
            [positions[r.head], positions[r.tail], labels.relation_id(r.label), _round(r.score)]
            for r in sentence.relations
            if r.head in positions
        ],
    }


def _encode_gold(gold: Document, table: SentenceTable, labels: LabelSpace) -> Json:
    """Encode the gold annotation as the table represents it: squares and rectangles."""
    place = table.place
    filled = fill_sentence(gold.sentences[place.sentence], labels, place.start, place.end)
    entities, relations = read_table(filled.labels, labels)
    return {"entities": entities, "relations": relations, "unheld": len(filled.omitted)}


def _pack(numbers: NDArray[Any]) -> str:
    """Compress integers below 2¹⁶ as two bytes each, in base64."""
    return base64.b64encode(zlib.compress(numbers.astype("<u2").tobytes(), 6)).decode()


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


def encode_view(view: View, labels: LabelSpace, palette: Palette, cells: Container[int] = ()) -> dict[str, Any]:
    """Encode a document for the server's page, with the probabilities of the sentences `cells` only."""
    return {
        "sentences": [
            {"items": marked.items, "gap": marked.gap, "paragraph": marked.starts_paragraph}
            for marked in mark_sentences(view.document)
        ],
        **encode_document(view, labels, palette, cells),
    }
