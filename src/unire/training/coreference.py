"""Train the coreference of a finished model, whose own weights do not change.

The encoder reads every document once. A small model then learns from the vectors of the annotated entities, which
takes seconds to a minute on a CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unire.decoding.coreference import CoreferenceScorer, Mentions, mean_vectors
from unire.documents import Document, restrict_clusters
from unire.errors import UnireError
from unire.evaluation.coreference import score_coreference
from unire.extractor import Extractor
from unire.files import replace_atomically
from unire.hub.model_dir import COREFERENCE, ModelDir
from unire.labels import LabelSpace
from unire.models.checkpoint import write_scorer
from unire.models.coreference import CoreferenceBatch, CoreferenceExample, CoreferenceModel

__all__ = ["add_coreference", "build_examples", "fit_scorer", "has_clusters", "train_coreference"]

EPOCHS = 15
BATCH_DOCUMENTS = 16
MAX_MENTIONS = 256
"""Longer documents are cut into parts of as many mentions."""
LEARNING_RATE = 2e-3
WARMUP = 0.15
"""Fraction of the training in which the learning rate rises; then it decays linearly to zero."""
MAX_GRADIENT = 1.0
"""Of each member."""


def has_clusters(documents: Iterable[Document]) -> bool:
    """Whether any two entities corefer."""
    return any(
        document.clusters and restrict_clusters(document.clusters, {entity.span for entity in document.entities})
        for document in documents
    )


def build_examples(extractor: Extractor, documents: Sequence[Document]) -> list[CoreferenceExample]:
    """The entities of every document, with their vectors and gold clusters."""
    vectors: list[dict[tuple[int, int], NDArray[np.float32]]] = [{} for _ in documents]
    by_start: list[dict[int, list[tuple[int, int]]]] = []
    for document in documents:
        starts = defaultdict(list)
        for span in {entity.span for entity in document.entities}:
            starts[span[0]].append(span)
        by_start.append(starts)
    for batch, (_, h) in extractor.engine.run(extractor.build_batches(documents), vectors=True):
        rows, spans = [], []
        for table, place in enumerate(batch.table_spans):
            for word in range(place.start, place.end):
                for start, end in by_start[place.document].get(word, ()):
                    if end <= place.end:  # no table holds an entity across sentences
                        rows.append((table, start - place.start, end - place.start, 0))
                        spans.append((place.document, (start, end)))
        means = mean_vectors(h, np.array(rows, np.int64).reshape(-1, 4))
        for (index, span), vector in zip(spans, means, strict=True):
            vectors[index][span] = vector
    examples: list[CoreferenceExample] = []
    for document, found in zip(documents, vectors, strict=True):
        examples += _examples_of(document, found, extractor.labels)
    return examples


def _examples_of(
    document: Document, vectors: Mapping[tuple[int, int], NDArray[np.float32]], labels: LabelSpace
) -> Iterable[CoreferenceExample]:
    types = {entity.span: labels.entity_types.index(entity.label) for entity in reversed(document.entities)}
    cluster = {span: number for number, spans in enumerate(document.clusters) for span in spans}
    spans = sorted(vectors)
    for start in range(0, len(spans), MAX_MENTIONS):
        part = spans[start : start + MAX_MENTIONS]
        numbers = np.array([cluster.get(span, -1 - k) for k, span in enumerate(part)])
        yield CoreferenceExample(
            Mentions.of(document, part, [types[span] for span in part]),
            np.stack([vectors[span] for span in part]),
            numbers[:, None] == numbers,
        )


def fit_scorer(
    examples: Sequence[CoreferenceExample], n_types: int, *, seed: int = 0, **sizes: Any
) -> CoreferenceScorer:
    """Train a scorer on examples. `sizes` are those of `CoreferenceModel`."""
    examples = [example for example in examples if len(example.mentions) > 1]
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = CoreferenceModel(examples[0].vectors.shape[1], n_types, **sizes)
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        n_steps = EPOCHS * -(-len(examples) // BATCH_DOCUMENTS)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / (WARMUP * n_steps), (1 - step / n_steps) / (1 - WARMUP))
        )
        for _ in range(EPOCHS):
            for step in _shuffle_into_steps([len(example.mentions) for example in examples], rng):
                optimizer.zero_grad()
                loss = model.loss(CoreferenceBatch.collate([examples[k] for k in step]))
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT * model.members**0.5)
                optimizer.step()
                schedule.step()
    # in the precision in which the weights are stored
    return CoreferenceScorer({name: w.astype(np.float16).astype(np.float32) for name, w in model.to_arrays().items()})


def _shuffle_into_steps(lengths: Sequence[int], rng: np.random.Generator) -> list[list[int]]:
    """Steps of examples of similar length, in random order."""
    order = np.argsort(np.array(lengths) * rng.uniform(0.7, 1.4, len(lengths))).tolist()
    steps = [order[start : start + BATCH_DOCUMENTS] for start in range(0, len(order), BATCH_DOCUMENTS)]
    return [steps[place] for place in rng.permutation(len(steps))]


def train_coreference(
    extractor: Extractor, documents: Sequence[Document], parts: Mapping[str, Sequence[Document]], *, seed: int = 0
) -> tuple[CoreferenceScorer, dict[str, Any]]:
    """Train a scorer on top of an extractor, which gets it.

    Args:
        extractor: The finished model.
        documents: The training data, with clusters.
        parts: Other data with clusters, for example `dev`, on which the scorer is measured with predicted entities.
        seed: Seed of all random numbers.

    Returns:
        The scorer, and the facts for the provenance of the model.
    """
    examples = build_examples(extractor, documents)
    n_links = sum(int(np.tril(example.same, -1).any(1).sum()) for example in examples)
    if not n_links:
        raise UnireError("there is no coreference to learn: in no cluster are two entities of the training data")
    scorer = fit_scorer(examples, len(extractor.labels.entity_types), seed=seed)
    extractor.coreference = scorer
    scores = {
        name: score_coreference(gold, extractor.annotate([document.bare for document in gold])).to_dict()
        for name, gold in parts.items()
        if has_clusters(gold)
    }
    return scorer, {"documents": len(documents), "links": n_links, "seed": seed, "scores": scores}


def add_coreference(
    model: str | Path,
    documents: Sequence[Document],
    *,
    out: str | Path,
    dev: Sequence[Document] = (),
    test: Sequence[Document] = (),
    seed: int = 0,
    data: Sequence[str] = (),
) -> dict[str, Any]:
    """Add coreference to a finished model, whose own weights and predictions do not change.

    >>> add_coreference("models/mine", documents, dev=dev, test=test, out="models/mine-coref")  # doctest: +SKIP

    Args:
        model: The name of a bundled model, a folder, or a name on the Hub.
        documents: The training data, with clusters.
        out: A new folder.
        dev: Measured with the entities that the model predicts, for the model card.
        test: Likewise.
        seed: Seed of all random numbers.
        data: Names of the data files, for the model card.

    Returns:
        What the provenance of the new model has under `coreference`: the sizes of the training data, and the scores.

    Raises:
        UnireError: `out` is not empty, the documents have unknown types or no clusters, or an exported model was
            written by a version of unire without coreference.
    """
    extractor = Extractor.load(model)
    if extractor.engine.n_hidden is None:
        raise UnireError(f"the graph of the model {str(model)!r} returns no vectors; export the model again")
    extractor.labels.check([*documents, *dev, *test])
    scorer, facts = train_coreference(extractor, documents, {"dev": dev, "test": test}, seed=seed)
    facts = {"data": list(data), **facts}
    folder = ModelDir.open(model)
    folder.save(folder.config.with_(provenance={**folder.config.provenance, "coreference": facts}), Path(out))
    with replace_atomically(Path(out) / COREFERENCE) as temporary:
        write_scorer(scorer, temporary)
    return facts
