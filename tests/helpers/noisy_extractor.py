"""An extractor without a model: its tables are gold annotation under noise, so that pages and views look real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.tiny_encoders import tiny_tokenizer
from unire.config import EncoderSpec, ModelConfig
from unire.documents import Document
from unire.extractor import Extractor
from unire.inference.engine import Engine
from unire.labels import LabelSpace
from unire.tables import fill_sentence
from unire.windows.collator import Batch


@dataclass
class NoisyEngine(Engine):
    """Knows the documents of one chunk by their positions."""

    documents: Sequence[Document]
    labels: LabelSpace
    noise: float
    seed: int = 0
    max_cells: int = 2**20
    max_batch_tokens: int = 2**14
    padding: str = "exact"

    def predict_tables(self, batch: Batch) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        T, N, Y = len(batch.lengths), batch.lengths.max(), len(self.labels)
        P = np.full((T, N, N, Y), np.nan, np.float32)
        for i, place in enumerate(batch.table_spans):
            sentence = self.documents[place.document].sentences[place.sentence]
            gold = fill_sentence(sentence, self.labels, place.start, place.end).labels
            n = len(place)
            # words are hard or easy, and so are labels: noise comes in rows and columns
            logits = 7 * np.eye(Y)[gold] + self.noise * (
                rng.normal(size=(n, 1, Y)) + rng.normal(size=(1, n, Y)) + 0.7 * rng.normal(size=(n, n, Y))
            )
            odds = np.exp(logits - logits.max(-1, keepdims=True))
            P[i, :n, :n] = odds / odds.sum(-1, keepdims=True)
        return P


def noisy_extractor(
    documents: Sequence[Document], labels: LabelSpace, noise: float = 1.0, seed: int = 0, **settings: object
) -> Extractor:
    tokenizer = tiny_tokenizer("bert", {word for document in documents for word in document.words})
    spec = EncoderSpec.probe(tokenizer, max_pieces=512, token_types=True, pad_id=0, unk_id=1)
    engine = NoisyEngine(documents, labels, noise, seed)
    return Extractor(engine, tokenizer, ModelConfig(spec, {}, **{"alpha": 1.2, **settings}), labels)
