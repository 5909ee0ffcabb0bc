"""Sentences to annotate next: those in which a model is probably wrong often, and that differ from each other."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from pathlib import Path
from typing import Any, Literal

from unire import formats
from unire.decoding.backend import to_float, to_host
from unire.documents import Document, Entity, Relation, Sentence
from unire.errors import UnireError
from unire.extractor import Extractor, OnBatch
from unire.files import replace_atomically
from unire.formats import labelstudio, prodigy
from unire.formats.base import project, raise_error
from unire.formats.json_utils import index_arguments
from unire.windows.collator import Batch

__all__ = ["TOOLS", "Suggestion", "Tool", "suggest", "write_tasks"]

Tool = Literal["labelstudio", "prodigy", "brat"]
TOOLS: tuple[Tool, ...] = ("labelstudio", "prodigy", "brat")
"""Annotation tools for which `write_tasks` writes."""


@dataclass(frozen=True)
class Suggestion:
    """A sentence to annotate."""

    document: Document
    """The sentence as a document, with the annotation of the model and its scores."""
    expected_errors: float
    """How many errors the model expects to have made in it."""


def suggest(
    extractor: Extractor,
    documents: Iterable[Document],
    count: int,
    *,
    exclude: Iterable[Document] = (),
    notes: Counter[str] | None = None,
    on_batch: OnBatch | None = None,
) -> list[Suggestion]:
    """Choose the sentences whose annotation will help a model most.

    The model annotates all sentences, in their context. A sentence counts by the number of its expected errors: for
    each predicted entity and relation one minus its score, and for each word one minus the highest probability of its
    own cell in the table. The sentences are then chosen greedily. Each counts the more, the rarer the words that no
    chosen sentence has, and the fewer examples the chosen sentences have of its predicted types.

    >>> texts = [segment(line) for line in open("texts.txt")]  # doctest: +SKIP
    >>> write_tasks(suggest(extractor, texts, 50), "tasks.json", "labelstudio")  # doctest: +SKIP

    Args:
        extractor: The model.
        documents: Unlabelled documents. Their annotation is ignored.
        count: The number of sentences.
        exclude: Documents whose sentences are not chosen, because they are annotated already.
        notes: Counts sentences and words that needed special care.
        on_batch: Called after each batch, for example by a progress bar.

    Returns:
        At most `count` sentences, the most useful ones first. Repeated sentences are chosen once.

    Raises:
        UnireError: The count is not a whole number above 0.
    """
    if type(count) is not int or count < 1:
        raise UnireError(f"count must be a whole number, at least 1, not {count!r}")
    word_errors: dict[tuple[int, int], float] = defaultdict(float)

    def add_word_errors(batch: Batch, P: Any) -> None:
        words = list(range(P.shape[1]))
        own_cells = to_host(to_float(P[:, words, words]))
        for table, cells in zip(batch.table_spans, own_cells, strict=False):  # padding tables may follow
            word_errors[table.document, table.sentence] += float((1 - cells[: len(table)].max(-1)).sum())
        if on_batch is not None:
            on_batch(batch, P)

    seen = {_key(sentence) for document in exclude for sentence in document.sentences}
    candidates = []
    for i, document in enumerate(extractor.annotate(documents, notes=notes, on_batch=add_word_errors)):
        for j, sentence in enumerate(document.sentences):
            if sentence.words and (key := _key(sentence)) not in seen:
                seen.add(key)
                errors = word_errors[i, j] + sum(1 - (item.score or 0.0) for item in _items(sentence))
                candidates.append(Suggestion(_extract_sentence(document, i, j), errors))
    return _choose(candidates, count)


def _items(annotated: Document | Sentence) -> list[Entity | Relation]:
    return [*annotated.entities, *annotated.relations]


def _key(sentence: Sentence) -> tuple[str, ...]:
    return tuple(word.casefold() for word in sentence.words)


def _extract_sentence(document: Document, position: int, number: int) -> Document:
    """A sentence as a document of its own, on one line, with the id `ID#NUMBER`."""
    sentence = document.sentences[number]
    first, last = sentence.offsets[0][0], sentence.offsets[-1][1]
    name = document.id or str(position)
    return Document.from_words(
        [sentence.words],
        [(e.start - sentence.start, e.end - sentence.start, e.label, e.score) for e in sentence.entities],
        [
            (head, tail, relation.label, relation.score)
            for relation, head, tail in index_arguments(sentence.relations, sentence.entities)
        ],
        text="".join(" " if character.isspace() else character for character in document.text[first:last]),
        offsets=[(start - first, end - first) for start, end in sentence.offsets],
        id=name if len(document.sentences) == 1 else f"{name}#{number}",
    )


def _choose(candidates: Sequence[Suggestion], count: int) -> list[Suggestion]:
    """Choose greedily. Values only fall as sentences are chosen, so that an old value is an upper bound of the new."""
    words = [set(_key(candidate.document.sentences[0])) for candidate in candidates]
    types = [{item.label for item in _items(candidate.document)} for candidate in candidates]
    frequencies = Counter(word for each in words for word in each)
    rarity = {word: math.log(1 + len(candidates) / frequency) for word, frequency in frequencies.items()}
    covered: set[str] = set()
    examples: Counter[str] = Counter()

    def value(i: int) -> float:
        new_words = sum(rarity[word] for word in words[i] - covered) / sum(rarity[word] for word in words[i])
        new_types = sum(1 / (1 + examples[label]) for label in types[i]) / max(len(types[i]), 1)
        return candidates[i].expected_errors * (new_words + new_types) / 2

    heap = [(-value(i), i) for i in range(len(candidates))]
    heapify(heap)
    chosen: list[Suggestion] = []
    while heap and len(chosen) < count:
        i = heap[0][1]
        updated = (-value(i), i)
        if updated > heap[0]:
            heapreplace(heap, updated)
            continue
        heappop(heap)
        chosen.append(candidates[i])
        covered |= words[i]
        examples.update(item.label for item in _items(chosen[-1].document))
    return chosen


def write_tasks(
    suggestions: Iterable[Suggestion], path: str | Path, tool: Tool = "labelstudio", *, model: str = "unire"
) -> Counter[str]:
    """Write suggestions for an annotation tool. The corrected export is read by `read_documents`, `train` and so on.

    Args:
        suggestions: What `suggest` returns.
        path: The file to write, which is replaced if it exists; for brat a new folder.
        tool: `labelstudio`: tasks with predictions, which become annotations when a person submits them. `prodigy`:
            examples without an answer. `brat`: a folder of texts and annotation.
        model: The name of the model, which Label Studio shows.

    Returns:
        What the tool cannot represent, such as the scores for brat, and how often.

    Raises:
        UnireError: The file cannot be written, or there is no such tool.
    """
    if tool not in TOOLS:
        raise UnireError(f"unknown annotation tool {tool!r}; give one of {', '.join(TOOLS)}")
    documents = [suggestion.document for suggestion in suggestions]
    lost: Counter[str] = Counter()
    if tool == "brat":
        formats.write(documents, path, tool, lost=lost)
        return lost
    form = formats.FORMATS[tool]
    projected = [part for document in documents for part in project(document, form.capabilities, lost)]
    try:
        with replace_atomically(path) as temporary:
            if tool == "labelstudio":
                labelstudio.write(projected, temporary, raise_error, predicted_by=model)
            else:
                prodigy.write(projected, temporary, raise_error, answer=None)
    except OSError as error:
        raise UnireError(f"{path} cannot be written: {error.strerror or error}") from None
    return lost
