"""The relation classifier: a marker model that runs in batches on given entities, and its checkpoint.

A checkpoint is a folder of weights, tokenizer and `markers.json`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from unire.config import EncoderSpec
from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.files import replace_atomically
from unire.hub.model_dir import WEIGHTS
from unire.inference.streaming import Prefetcher
from unire.inference.torch_engine import TorchEngine, choose_device, store_in_bf16
from unire.labels import LabelSpace
from unire.model_files import load_json, load_tokenizer_file
from unire.models.batch import Tensors, move_tensors, pin_tensors
from unire.models.checkpoint import building_from, load_weights, write_tensors
from unire.models.encoder import build_encoder, check_encoder, max_input_tokens
from unire.tables import TableSpan
from unire.training.config import TrainingConfig
from unire.training.markers.data import (
    MarkerRow,
    SentenceReader,
    TokenizedSentence,
    build_rows,
    collate_rows,
    count_text_markers,
    distinct_entities,
)
from unire.training.markers.model import MarkerEnsemble, MarkerModel
from unire.training.train import portable_config
from unire.training.trainer import use_bf16
from unire.windows.collator import MAX_SLICE_TOKENS, bucket_items

__all__ = [
    "PairScores",
    "RelationClassifier",
    "TrainedMarker",
    "all_probabilities",
    "best_class",
    "default_batch_tokens",
    "init_classifier",
    "iter_item_chunks",
    "load_marker",
    "predict_batches",
    "replace_model",
    "save_classifier",
]

T = TypeVar("T")
Result = TypeVar("Result", bound=tuple[Tensor, ...])

TOKENIZER = "tokenizer.json"
INFO = "markers.json"
CHUNK_SENTENCES = 1024
"""Sentences whose batches are prepared while those of the previous chunk are computed. Large chunks allow batches of
similar length: with a quarter of this, half of the tokens of marker models would be padding."""


def default_batch_tokens(model: Any) -> int:
    """Padded tokens of a batch: the same limit as for the encoder of a table model on this device."""
    return min(MAX_SLICE_TOKENS, TorchEngine.default_batch_tokens(model.device, model.encoder.config.hidden_size))


def best_class(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely class, and its probability."""
    probability, label = probabilities.max(-1)
    return label, probability


def all_probabilities(probabilities: Tensor) -> tuple[Tensor]:
    """The probabilities of all classes."""
    return (probabilities,)


def iter_item_chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Chunks of items that are batched together."""
    stream = iter(items)
    while chunk := list(islice(stream, CHUNK_SENTENCES)):
        yield chunk


@torch.inference_mode()
def predict_batches(
    model: Any,
    chunks: Iterable[Sequence[T]],
    length: Callable[[T], int],
    collate: Callable[[Sequence[T]], Tensors],
    *,
    bf16: bool,
    max_batch_tokens: int,
    select: Callable[[Tensor], Result],
) -> list[tuple[list[T], Result]]:
    """Run a model over all items; for each batch its items and the selected result, on the host.

    Args:
        model: Set to evaluation mode.
        chunks: The items. A thread prepares the next batches while the current one is computed.
        length: Tokens of an item.
        collate: Turns items into tensors.
        bf16: Whether to compute in bfloat16.
        max_batch_tokens: Padded tokens of a batch.
        select: Selects on the device what is copied to the host: `best_class` or `all_probabilities`.
    """
    model.eval()
    device = model.device

    def prepare() -> Iterator[tuple[list[T], Tensors]]:
        for chunk in chunks:
            for items in bucket_items(chunk, length, max_batch_tokens):
                tensors = collate(items)
                yield items, pin_tensors(tensors) if device.type == "cuda" else tensors

    results = []
    for items, tensors in Prefetcher(prepare()):
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
            logits = model(move_tensors(tensors, device))
        results.append((items, select(logits.float().softmax(-1))))
    return [(items, cast("Result", tuple(tensor.cpu() for tensor in result))) for items, result in results]


@dataclass(frozen=True, eq=False, slots=True)
class PairScores:
    """The probabilities of all ordered entity pairs of a sentence."""

    span: TableSpan
    entities: Sequence[Entity]
    pairs: NDArray[np.int64]
    """[P, 2]: subject and object, as indices into the entities; sorted."""
    probabilities: NDArray[np.float32]
    """[P, 1 + R]: none, then the relation types."""


@dataclass
class RelationClassifier:
    """Predicts relations between given entities."""

    model: MarkerModel | MarkerEnsemble
    reader: SentenceReader
    labels: LabelSpace
    bf16: bool
    max_batch_tokens: int

    def predict(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> list[Document]:
        """The documents with their entities and predicted relations. Relations of the input are ignored.

        Args:
            documents: With entities. Only pairs inside a sentence are classified.
            notes: Counts sentences that are too long for the encoder.
        """
        relations: list[list[Relation]] = [[] for _ in documents]
        for items, (label, probability) in self._predict(documents, notes, best_class):
            labels, probabilities = label.tolist(), probability.tolist()
            sources = [(item, pair) for item in items for pair in item.row.pairs.tolist()]
            for (item, (head, tail)), number, score in zip(sources, labels, probabilities, strict=True):
                if number:
                    name = self.labels.relation_types[number - 1]
                    relation = Relation(item.entities[head], item.entities[tail], name, score)
                    relations[item.span.document].append(relation)
        return [
            document.annotated(document.entities, found) for document, found in zip(documents, relations, strict=True)
        ]

    def score_pairs(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> list[PairScores]:
        """The scores of every sentence that fits the encoder and has two entities or more, in order.

        Args:
            documents: With entities.
            notes: Counts sentences that are too long for the encoder.
        """
        batches = self._predict(documents, notes, all_probabilities)
        if not batches:
            return []
        items = [item for batch, _ in batches for item in batch]
        pairs = np.concatenate([item.row.pairs for item in items])
        probabilities = torch.cat([result for _, (result,) in batches]).numpy()
        # a sentence may have several rows, in any order
        keys = [(item.span.document << 32) + item.span.sentence for item in items]
        owner = np.repeat(keys, [len(item.row.pairs) for item in items])
        order = np.lexsort((pairs[:, 1], pairs[:, 0], owner))
        owner, pairs, probabilities = owner[order], pairs[order], probabilities[order]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1)).tolist()
        by_sentence = dict(zip(keys, items, strict=True))
        return [
            PairScores(item.span, item.entities, pairs[first:end], probabilities[first:end])
            for first, end in pairwise([*firsts, len(owner)])
            for item in [by_sentence[int(owner[first])]]
        ]

    @property
    def batch_key(self) -> tuple[object, ...]:
        """Everything that decides how documents become batches. Classifiers with equal keys can share batches."""
        model = self.model
        shape = (model.markers, model.approximate, model.first_position, model.device)
        return (self.reader.layout_key, self.labels, self.bf16, self.max_batch_tokens, *shape)

    def _predict(
        self, documents: Sequence[Document], notes: Counter[str] | None, select: Callable[[Tensor], Result]
    ) -> list[tuple[list[_SentenceRow], Result]]:
        def build(sentences: Sequence[TokenizedSentence]) -> Iterator[_SentenceRow]:
            for sentence in sentences:
                span = sentence.span
                entities = distinct_entities(documents[span.document].sentences[span.sentence].entities)
                for row in build_rows(self.model, sentence, entities, self.labels, notes):
                    yield _SentenceRow(span, entities, row)

        def collate(items: Sequence[_SentenceRow]) -> Tensors:
            return collate_rows([item.row for item in items], self.reader.spec.pad_id, self.model.first_position)

        return predict_batches(
            self.model,
            (list(build(sentences)) for sentences in iter_item_chunks(self.reader.read(documents))),
            lambda item: len(item.row.ids),
            collate,
            bf16=self.bf16,
            max_batch_tokens=self.max_batch_tokens,
            select=select,
        )


class _SentenceRow(NamedTuple):
    """A row with some pairs of a sentence."""

    span: TableSpan
    entities: Sequence[Entity]
    row: MarkerRow


# Checkpoints


@dataclass(frozen=True)
class TrainedMarker:
    """A trained marker model."""

    info: dict[str, Any]
    """Name, encoder and scores, in the form of a teacher's."""
    classifier: RelationClassifier


def init_classifier(
    encoder: Any,
    tokenizer: Tokenizer,
    spec: EncoderSpec,
    labels: LabelSpace,
    config: TrainingConfig,
    *,
    approximate: bool,
    device: torch.device,
) -> RelationClassifier:
    """An untrained marker model over an encoder."""
    model = MarkerModel(encoder, len(labels.entity_types), len(labels.relation_types), approximate=approximate)
    reader = SentenceReader(tokenizer, spec, config.window, reserved=count_text_markers(approximate))
    return RelationClassifier(model.to(device), reader, labels, use_bf16(config, device), default_batch_tokens(model))


def save_classifier(classifier: RelationClassifier, folder: Path, *, encoder: str, config: TrainingConfig) -> None:
    """Write a marker model atomically. The model of an earlier run is replaced.

    Args:
        classifier: With a single model, not an ensemble.
        folder: A new folder, or one of a marker model.
        encoder: Name of the pretrained encoder.
        config: The training configuration.
    """
    model: Any = classifier.model
    info = {
        "encoder": encoder,
        "approximate": model.approximate,
        "labels": classifier.labels.to_dict(),
        "spec": classifier.reader.spec.to_dict(),
        # of the encoder without the embeddings of markers
        "encoder_config": {**portable_config(model.encoder.config), "vocab_size": model.markers.first},
        "training": asdict(config),
    }
    with replace_model(folder) as temporary:
        write_tensors(temporary / WEIGHTS, model.state_dict())
        (temporary / TOKENIZER).write_text(classifier.reader.tokenizer.to_str(), encoding="utf-8")
        (temporary / INFO).write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")


@contextmanager
def replace_model(folder: Path) -> Iterator[Path]:
    """A temporary folder for a model, which then replaces that of an earlier run."""
    try:
        with replace_atomically(folder, directory=True) as temporary:
            yield temporary
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def load_marker(folder: str | Path, device: str | None = None) -> TrainedMarker:
    """Load a marker model for inference. By default it is on a GPU if there is one."""
    folder, place = Path(folder), choose_device(device)
    if not (folder / INFO).exists():
        if (folder / "cell.json").exists():
            raise UnireError(f"the marker model in {str(folder)!r} is of an earlier version; train it again")
        raise UnireError(f"there is no marker model in {str(folder)!r}; `unire markers` trains one")
    try:
        info = load_json(folder / INFO)
        name = str(info["encoder"])
        labels, spec = LabelSpace.from_dict(info["labels"]), EncoderSpec.from_dict(info["spec"])
        tokenizer = load_tokenizer_file(folder / TOKENIZER)
        training = TrainingConfig(**info["training"])
        if training.bf16:  # decide by the present device
            training = replace(training, bf16=None)
        approximate = bool(info["approximate"])
        with building_from(folder):
            encoder = build_encoder(info["encoder_config"])
            check_encoder(encoder, tokenizer, spec, max_input_tokens(encoder))
            classifier = init_classifier(
                encoder, tokenizer, spec, labels, training, approximate=approximate, device=place
            )
    except (OSError, ValueError, KeyError, TypeError, UnireError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UnireError(f"the marker model in {str(folder)!r} cannot be read ({reason}); train it again") from None
    load_weights(classifier.model, folder)
    if classifier.bf16:
        store_in_bf16(classifier.model)
    return TrainedMarker({"name": folder.resolve().name, "encoder": name, "scores": {}}, classifier)
