"""Training data in memory."""

from __future__ import annotations

import numpy as np
import pytest

from unire.documents import Document
from unire.labels import LabelSpace
from unire.tables import fill_sentence
from unire.training.config import TrainingConfig
from unire.training.dataset import TrainingSet
from unire.training.train import init_model
from unire.windows.windows import WindowBuilder


def training_set(documents, labels, encoder, **changes) -> TrainingSet:
    config = TrainingConfig(**changes)
    model = init_model(str(encoder), labels, config)
    window_builder = WindowBuilder(model.tokenizer, model.config.spec, max_table=config.max_table)
    return TrainingSet(documents, labels, window_builder, config)


@pytest.mark.parametrize(("n_types", "kept"), [(200, np.uint8), (300, np.uint16)])
def test_gold_tables_are_kept_small_and_handed_out_whole(n_types, kept, encoder):
    labels = LabelSpace(tuple(f"T{i}" for i in range(n_types)))
    document = Document.from_words([["a", "b", "c"]], [(0, 2, f"T{n_types - 1}")])
    data = training_set([document], labels, encoder)
    assert {table.dtype for table in data._gold.values()} == {np.dtype(kept)}
    (batch,) = data.step(data.groups).batches
    assert batch.gold.dtype == np.int64
    assert np.array_equal(batch.gold[0], fill_sentence(document.sentences[0], labels).labels)


def test_a_split_sentence_is_counted(encoder):
    document = Document.from_words([["a"] * 5, ["b"]])
    assert training_set([document], LabelSpace(("X",)), encoder, max_table=3).notes == {
        "sentence larger than a table, split": 1
    }
