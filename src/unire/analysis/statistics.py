"""Statistics of a data set: counts, plots, and a comparison with the counts of the paper (Table 2)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from unire import tables
from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.files import replace_atomically
from unire.labels import LabelSpace

__all__ = ["TABLE_2", "DataCounts", "Statistics", "compare_with_paper", "plot_statistics"]

K = TypeVar("K")


class DataCounts(dict[K, int]):
    """Counts by name or by number. Unlike in a `Counter`, zeros stay when counts are added."""

    def __add__(self, other: Mapping[K, int]) -> DataCounts[K]:
        return DataCounts({name: self.get(name, 0) + other.get(name, 0) for name in {**self, **other}})

    @property
    def total(self) -> int:
        return sum(self.values())

    def quantile(self: DataCounts[int], share: float) -> int:
        """The smallest number that at least `share` of the counted numbers do not exceed; 0 without any."""
        below = 0
        for number in sorted(self):
            below += self[number]
            if below >= share * self.total:
                return number
        return 0


@dataclass(frozen=True)
class Statistics:
    """Counts of a data set as annotated, with repetitions. The counts of two data sets can be added.

    >>> statistics = Statistics.from_documents(documents, labels)  # doctest: +SKIP
    >>> statistics.entity_types["Method"]  # doctest: +SKIP
    2094
    """

    documents: int = 0
    """Documents."""
    sentences: int = 0
    """Sentences."""
    words: int = 0
    """Words."""
    sentence_lengths: DataCounts[int] = field(default_factory=DataCounts)
    """Sentences of each number of words."""
    entity_lengths: DataCounts[int] = field(default_factory=DataCounts)
    """Entities of each number of words."""
    overlapping_entities: int = 0
    """Entities that share a word with another one."""
    entity_types: DataCounts[str] = field(default_factory=DataCounts)
    """Entities of each type."""
    relation_types: DataCounts[str] = field(default_factory=DataCounts)
    """Relations of each type."""
    doubled_types: DataCounts[str] = field(default_factory=DataCounts)
    """The same, but a symmetric relation counts twice unless its other direction is annotated too."""
    unheld: DataCounts[str] = field(default_factory=DataCounts)
    """Annotation that label tables cannot represent, by reason."""
    empty_cells: int = 0
    """Cells of ⊥ in the tables of all sentences."""
    entity_cells: DataCounts[str] = field(default_factory=DataCounts)
    """Cells of each entity type."""
    relation_cells: DataCounts[str] = field(default_factory=DataCounts)
    """Cells of each relation type."""

    @classmethod
    def from_documents(cls, documents: Iterable[Document], labels: LabelSpace) -> Statistics:
        """Count documents.

        Args:
            documents: The annotated documents, which may be a stream.
            labels: The label space. Its types without examples count as 0.

        Returns:
            The counts.

        Raises:
            UnireError: A document has a type that the label space does not have.
        """
        no_entities = DataCounts(dict.fromkeys(labels.entity_types, 0))
        no_relations = DataCounts(dict.fromkeys(labels.relation_types, 0))
        total = cls(
            entity_types=no_entities,
            relation_types=no_relations,
            doubled_types=no_relations,
            entity_cells=no_entities,
            relation_cells=no_relations,
        )
        for document in documents:
            labels.check([document])
            total += _count_document(document, labels)
        return total

    @property
    def longest_sentence(self) -> int:
        """Words of the longest sentence."""
        return max(self.sentence_lengths, default=0)

    @property
    def entities(self) -> int:
        """Entities of all types."""
        return self.entity_types.total

    @property
    def relations(self) -> int:
        """Relations as annotated."""
        return self.relation_types.total

    @property
    def relations_doubled(self) -> int:
        """Relations, where a symmetric one counts in both directions."""
        return self.doubled_types.total

    @property
    def cells(self) -> int:
        """Cells of all tables."""
        return self.empty_cells + self.entity_cells.total + self.relation_cells.total

    def __add__(self, other: Statistics) -> Statistics:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Statistics(**sums)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values, as `unire data stats` prints them."""
        return {
            "documents": self.documents,
            "sentences": self.sentences,
            "words": self.words,
            "longest_sentence": self.longest_sentence,
            "entities": self.entities,
            "relations": self.relations,
            "relations_doubled": self.relations_doubled,
            "overlapping_entities": self.overlapping_entities,
            "entity_types": dict(self.entity_types),
            "relation_types": dict(self.relation_types),
            "doubled_types": dict(self.doubled_types),
            "sentence_lengths": dict(sorted(self.sentence_lengths.items())),
            "entity_lengths": dict(sorted(self.entity_lengths.items())),
            "unheld": dict(self.unheld),
            "cells": {
                "empty": self.empty_cells,
                "entity_types": dict(self.entity_cells),
                "relation_types": dict(self.relation_cells),
            },
        }


def _count_document(document: Document, labels: LabelSpace) -> Statistics:
    cells = np.zeros(len(labels), dtype=np.int64)
    unheld = [reason for _, reason in tables.list_spanning(document)]
    for sentence in document.sentences:
        table = tables.fill_sentence(sentence, labels)
        cells += np.bincount(table.labels.ravel(), minlength=len(labels))
        unheld += [reason for _, reason in table.omitted]
    by_id = cells.tolist()
    relations = DataCounts(Counter(relation.label for relation in document.relations))
    return Statistics(
        documents=1,
        sentences=len(document.sentences),
        words=document.n_words,
        sentence_lengths=DataCounts(Counter(map(len, document.sentences))),
        entity_lengths=DataCounts(Counter(entity.end - entity.start for entity in document.entities)),
        overlapping_entities=_count_overlapping(document.entities),
        entity_types=DataCounts(Counter(entity.label for entity in document.entities)),
        relation_types=relations,
        doubled_types=relations + _count_missing_mirrors(document.relations, labels),
        unheld=DataCounts(Counter(unheld)),
        empty_cells=by_id[LabelSpace.NONE],
        entity_cells=DataCounts(zip(labels.entity_types, by_id[labels.entity_ids], strict=True)),
        relation_cells=DataCounts(zip(labels.relation_types, by_id[labels.relation_ids], strict=True)),
    )


def _count_overlapping(entities: Iterable[Entity]) -> int:
    """The number of entities that share a word with another one. A repeated entity is not another one."""
    covering: dict[int, set[tuple[int, int, str]]] = defaultdict(set)
    entities = list(entities)
    for entity in entities:
        for word in range(*entity.span):
            covering[word].add((*entity.span, entity.label))
    return sum(any(len(covering[word]) > 1 for word in range(*entity.span)) for entity in entities)


def _count_missing_mirrors(relations: Iterable[Relation], labels: LabelSpace) -> Counter[str]:
    def key(head: Entity, tail: Entity, label: str) -> tuple[object, ...]:
        return head.span, head.label, tail.span, tail.label, label

    relations = list(relations)
    annotated = {key(r.head, r.tail, r.label) for r in relations}
    return Counter(
        r.label for r in relations if r.label in labels.symmetric and key(r.tail, r.head, r.label) not in annotated
    )


TABLE_2 = {
    "ace04": {"sentences": 8_683, "entities": 22_519, "relations_doubled": 4_417},
    "ace05": {"sentences": 14_525, "entities": 38_287, "relations_doubled": 7_691},
    "scierc": {"sentences": 2_687, "entities": 8_094, "relations_doubled": 5_463},
}
"""The paper's counts by label space. Relations count as in `Statistics.relations_doubled`."""


def compare_with_paper(documents: Iterable[Document], corpus: str) -> list[tuple[str, int, int | None]]:
    """Rows of name, our count, and the count in Table 2 of the paper if it has one.

    Args:
        documents: The documents. One that occurs several times, in several folds for example, counts once.
        corpus: A name in `TABLE_2`.
    """
    distinct = {document.id: document for document in documents}
    counts = Statistics.from_documents(distinct.values(), LabelSpace.load(corpus))
    names = {
        "documents": "documents",
        "sentences": "sentences",
        "entities": "entities kept",
        "relations": "relations kept",
        "relations_doubled": "relations, symmetric ones doubled",
    }
    rows = [(name, getattr(counts, field), TABLE_2[corpus].get(field)) for field, name in names.items()]
    return [*rows, *((f"not held by tables: {reason}", count, None) for reason, count in counts.unheld.items())]


# Plots

ENTITY_COLOUR, RELATION_COLOUR, NEUTRAL_COLOUR = "#3b6ea5", "#c2703d", "#999999"


def plot_statistics(statistics: Statistics, path: Path, title: str = "") -> None:
    """Draw types, lengths and cells. Needs `unire[plot]`.

    >>> plot_statistics(statistics, Path("statistics.png"))  # doctest: +SKIP

    Args:
        statistics: What to draw.
        path: A file that ends in `.png`, `.svg` or `.pdf`.
        title: The title of the figure.

    Raises:
        UnireError: matplotlib is not installed, the suffix is not one of these, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnireError('drawing needs matplotlib; install it with `pip install "unire[plot]"`') from None
    kind = path.suffix.removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise UnireError(f"{path} must end in .png, .svg or .pdf")
    types = len(statistics.entity_types) + len(statistics.relation_types)
    figure = Figure(figsize=(11, 3 + 0.5 * max(types, 8)), layout="constrained")
    axes = figure.subplots(2, 2)
    figure.suptitle(title, x=0.01, ha="left")
    _draw_bars(axes[0, 0], statistics.entity_types, statistics.relation_types)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)
    axes[0, 0].set_title("Annotation", loc="left")
    axes[0, 0].set_xlabel("entities or relations, as annotated")
    cells = max(statistics.cells, 1)
    _draw_bars(axes[0, 1], statistics.entity_cells, statistics.relation_cells)
    axes[0, 1].set_title(f"Table cells (not shown: {100 * statistics.empty_cells / cells:.1f}% are ⊥)", loc="left")
    axes[0, 1].set_xlabel("cells")
    _draw_lengths(axes[1, 0], "sentences", statistics.sentence_lengths, NEUTRAL_COLOUR)
    _draw_lengths(axes[1, 1], "entities", statistics.entity_lengths, ENTITY_COLOUR)
    try:
        with replace_atomically(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=150)
    except OSError as error:
        raise UnireError(f"{path} cannot be written: {error.strerror or error}") from None


def _draw_bars(axes: Any, entities: Mapping[str, int], relations: Mapping[str, int]) -> None:
    """Draw a bar for each type, entities above relations."""
    places = range(len(entities) + len(relations))
    parts = {"entity types": (entities, ENTITY_COLOUR), "relation types": (relations, RELATION_COLOUR)}
    first = 0
    for name, (counts, colour) in parts.items():
        bars = axes.barh(places[first : first + len(counts)], list(counts.values()), color=colour, label=name)
        axes.bar_label(bars, [f"{count:,}" for count in counts.values()], padding=3, fontsize=8)
        first += len(counts)
    # by position, because an entity type and a relation type may share a name
    axes.set_yticks(places, [*entities, *relations])
    axes.margins(x=0.15)
    axes.invert_yaxis()
    _format_axes(axes, axes.xaxis)


def _draw_lengths(axes: Any, what: str, lengths: DataCounts[int], colour: str) -> None:
    axes.bar(list(lengths.keys()), list(lengths.values()), width=1, color=colour)
    axes.set_title(f"Lengths of {what}", loc="left")
    axes.set_xlabel("words")
    axes.set_ylabel(what)
    _format_axes(axes, axes.xaxis, axes.yaxis)


def _format_axes(axes: Any, *of_numbers: Any) -> None:
    """Remove the frame, and label axes with whole numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.spines[["top", "right"]].set_visible(False)
    for axis in of_numbers:
        axis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
