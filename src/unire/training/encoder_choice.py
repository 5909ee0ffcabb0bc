"""The choice of a bundled model to start from, by the user's own data.

Each bundled model reads a sample of the sentences. A linear probe then learns from the vectors of half of the words
whether a word belongs to an entity, and of which type. The model whose probe is best on the other half is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire import pretrained
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.inference.torch_engine import TorchEngine
from unire.labels import LabelSpace
from unire.models.unire import UniRE

__all__ = ["EncoderChoice", "choose_encoder"]

MAX_SENTENCES = 100
"""Sentences of the sample, from the training data and from dev each."""
RIDGE = 10.0
"""Weight of the L2 penalty of the probe, whose inputs are standardized."""


@dataclass(frozen=True)
class EncoderChoice:
    """The chosen model, and how all of them did."""

    name: str
    """The name of a bundled model."""
    f1: Mapping[str, float]
    """F1 of the types of words in entities, by model."""


def choose_encoder(
    documents: Sequence[Document], dev: Sequence[Document] = (), names: Sequence[str] | None = None
) -> EncoderChoice:
    """Choose the bundled model whose vectors tell the user's entity types apart best.

    >>> choose_encoder(documents, dev).name  # doctest: +SKIP
    'science'

    Args:
        documents: The training data.
        dev: On which the probes are scored. [default: every second document of the training data]
        names: The models to choose from. [default: all bundled ones]

    Returns:
        The choice. Of models that do equally well, it is the first one by name.
    """
    if names is None:
        names = pretrained.names()
    if not names:
        raise UnireError("there is no bundled model to start from; give an encoder")
    documents, dev = ([document for document in part if document.words] for part in (documents, dev))
    if not documents:
        raise UnireError("the training data holds no words; give at least one sentence")
    if not dev:
        documents, dev = (documents[::2], documents[1::2]) if len(documents) > 1 else (documents, documents)
    parts = _take(documents), _take(dev)
    labels = LabelSpace.learn([*parts[0], *parts[1]])
    gold = [np.concatenate([_word_labels(document, labels) for document in part]) for part in parts]
    f1 = {name: _probe(name, parts, gold, len(labels.entity_types)) for name in names}
    return EncoderChoice(max(names, key=lambda name: f1[name]), f1)


def _take(documents: Sequence[Document]) -> list[Document]:
    """The first documents that have `MAX_SENTENCES` together, or one."""
    taken: list[Document] = []
    left = MAX_SENTENCES
    for document in documents:
        if left <= 0:
            break
        taken.append(document)
        left -= len(document.sentences)
    return taken


def _word_labels(document: Document, labels: LabelSpace) -> NDArray[np.int64]:
    """The entity type of every word of a document, from 1, or 0; of nested entities the shortest one counts."""
    found = [np.zeros(len(sentence), np.int64) for sentence in document.sentences]
    for sentence, types in zip(document.sentences, found, strict=True):
        for entity in sorted(sentence.entities, key=lambda entity: entity.start - entity.end):
            types[entity.start - sentence.start : entity.end - sentence.start] = labels.entity_id(entity.label)
    return np.concatenate([*found, np.empty(0, np.int64)])


def _probe(name: str, parts: Sequence[Sequence[Document]], gold: Sequence[NDArray[np.int64]], n_types: int) -> float:
    """F1 on the second part of a ridge regression that is fitted to the first one."""
    model = UniRE.from_pretrained(name)
    extractor = Extractor(TorchEngine(model), model.tokenizer, model.config, model.labels)
    train, test = (np.concatenate(list(_word_vectors(extractor, part))) for part in parts)
    mean, deviation = train.mean(0), train.std(0) + 1e-6
    train, test = (np.pad((X - mean) / deviation, ((0, 0), (0, 1)), constant_values=1.0) for X in (train, test))
    targets = np.eye(n_types + 1, dtype=np.float32)[gold[0]]
    weights = np.linalg.solve(train.T @ train + RIDGE * np.eye(train.shape[1]), train.T @ targets)
    predicted = (test @ weights).argmax(1)
    n_correct = np.count_nonzero((predicted == gold[1]) & (gold[1] > 0))
    n_words = int(np.count_nonzero(predicted) + np.count_nonzero(gold[1]))
    return 2 * int(n_correct) / max(1, n_words)


def _word_vectors(extractor: Extractor, documents: Sequence[Document]) -> Iterator[NDArray[np.float32]]:
    """The vectors of the words of each document, [words, n_hidden]."""
    vectors: dict[tuple[int, int], NDArray[np.float32]] = {}
    engine = extractor.engine
    for batch in extractor.build_batches(documents):
        h = engine.predict_with_vectors(batch)[1].float().cpu().numpy()  # [T, N, n_hidden]
        for row, table in enumerate(batch.table_spans):
            vectors[table.document, table.start] = h[row, : table.end - table.start]
    for place in sorted(vectors):
        yield vectors[place]
