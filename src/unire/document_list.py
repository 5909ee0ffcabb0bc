"""`Documents`, the list of documents that `extract` returns, and `to_dataframe`."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, Literal, SupportsIndex, overload

from unire.documents import Document, count_annotations, count_relations
from unire.errors import UnireError

__all__ = ["Documents", "to_dataframe"]

MAX_REPR_DOCUMENTS = 5
MAX_HTML_DOCUMENTS = 10
"""Documents that a notebook shows of a list; `to_html` writes a page with more."""


class Documents(list[Document]):
    """A list of documents with a short `repr`, a view for notebooks, and conversion to pandas.

    >>> documents = Documents([Document("Ada lives in London.")])
    >>> documents
    <Documents: 1 document, 0 entities, 0 relations>
      <Document: 'Ada lives in London.' (0 entities, 0 relations)>
    """

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Document: ...

    @overload
    def __getitem__(self, index: slice, /) -> Documents: ...

    def __getitem__(self, index: Any, /) -> Any:
        item = super().__getitem__(index)
        return Documents(item) if isinstance(index, slice) else item

    def to_dataframe(self, what: Literal["relations", "entities"] = "relations") -> Any:
        """Convert the relations or the entities to a `pandas.DataFrame`, one row each; see `unire.to_dataframe`.

        >>> documents.to_dataframe("entities")  # doctest: +SKIP
        """
        return to_dataframe(self, what)

    def to_pandas(self, what: Literal["relations", "entities"] = "relations") -> Any:
        """Do the same as `to_dataframe`.

        >>> documents.to_pandas()  # doctest: +SKIP
        """
        return to_dataframe(self, what)

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | Path) -> None: ...

    def to_html(self, path: str | Path | None = None) -> str | None:
        """Write a page that shows the texts with their entities and relations, and needs no network.

        >>> documents.to_html("page.html")  # doctest: +SKIP

        Args:
            path: The file to write, which is replaced if it exists. By default the page is returned.

        Returns:
            The page, if no path is given.

        Raises:
            UnireError: The file cannot be written.
        """
        from unire.rendering.html.page import write
        from unire.rendering.views import View

        if path is not None:
            write(map(View, self), path)
            return None
        page = StringIO()
        write(map(View, self), page)
        return page.getvalue()

    def to_networkx(self) -> Any:
        """Merge the documents into one `networkx.MultiDiGraph`; see `unire.graph.to_networkx`.

        >>> documents.to_networkx()  # doctest: +SKIP
        """
        from unire.graph.build import Graph

        return Graph(self).to_networkx()

    def __repr__(self) -> str:
        entities = sum(len(document.entities) for document in self)
        relations = sum(count_relations(document.relations) for document in self)
        head = f"{len(self):,} document{'s' * (len(self) != 1)}, {count_annotations(entities, relations)}"
        lines = [f"  {document!r}" for document in self[:MAX_REPR_DOCUMENTS]]
        if (more := len(self) - MAX_REPR_DOCUMENTS) > 0:
            lines.append(f"  … and {more:,} more")
        return "\n".join([f"<Documents: {head}>", *lines])

    def _repr_html_(self) -> str:
        """Render the first documents for a notebook: texts with entities and arcs, and relations as lists."""
        from unire.rendering.html.fragment import render_fragment

        shown = [render_fragment(document) for document in islice(self, MAX_HTML_DOCUMENTS)]
        if (more := len(self) - MAX_HTML_DOCUMENTS) > 0:
            shown.append(f"<p>… and {more:,} more documents; <code>to_html</code> writes them to a page</p>")
        return "<hr>".join(shown)


def to_dataframe(documents: Document | Iterable[Document], what: Literal["relations", "entities"] = "relations") -> Any:
    """Convert documents to a `pandas.DataFrame`: one row per relation, or one row per entity.

    The columns are those of the CSV files that `unire extract` writes. For relations: `head`, `head_label`,
    `relation`, `tail`, `tail_label`, `score`, `document`, `sentence`, `head_start`, `head_end`, `tail_start` and
    `tail_end`. For entities: `entity`, `label`, `score`, `document`, `sentence`, `start` and `end`. Starts and ends
    count characters of the text. `document` is the id of the document, or its position if it has none.

    >>> to_dataframe(documents).groupby("relation").size()  # doctest: +SKIP

    Args:
        documents: A document, or any iterable of documents.
        what: `relations` or `entities`.

    Returns:
        The data frame, with all columns even if there are no rows.

    Raises:
        UnireError: pandas is not installed, or the arguments are wrong.
    """
    from unire.graph.rows import ENTITIES, TRIPLES

    writers = {"relations": TRIPLES, "entities": ENTITIES}
    if what not in writers:
        raise UnireError(f"a data frame has {' or '.join(writers)}, not {what!r}")
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise UnireError("data frames need pandas: pip install pandas") from None
    columns = writers[what].columns
    place = columns.index("document")
    rows = []
    for position, document in enumerate([documents] if isinstance(documents, Document) else documents):
        if not isinstance(document, Document):
            raise UnireError(f"a data frame needs documents, not {type(document).__name__}")
        for row in writers[what].rows(document):
            rows.append((*row[:place], document.id or position, *row[place + 1 :]))
    return pd.DataFrame(rows, columns=list(columns))
