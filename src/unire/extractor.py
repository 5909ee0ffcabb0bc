"""The user's object: documents in, the same documents with entities and relations out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unire.decoding import DECODERS, decode
from unire.decoding.findings import Findings
from unire.documents import Document
from unire.engines import Engine, start_engine
from unire.exceptions import UnireError
from unire.folders import ModelFolder
from unire.labels import LabelSpace
from unire.settings import Settings
from unire.windows import Batch, Passage, Windower, collate, in_batches

__all__ = ["Extractor", "notes_of"]


class Extractor:
    """Finds entities and relations: windows, tables, decoding.

    >>> extractor = Extractor.load("models/mine")  # doctest: +SKIP
    >>> extractor.extract_words([["Ada", "lives", "in", "London"]]).relations  # doctest: +SKIP
    """

    CHUNK = 256
    """Documents that are batched together while a stream is read."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, settings: Settings, labels: LabelSpace) -> None:
        if settings.decoder not in DECODERS:
            raise UnireError(f"no decoder {settings.decoder!r}: there are {', '.join(DECODERS)}")
        self.engine = engine
        self.settings = settings
        self.labels = labels
        self.permits = labels.permits(settings.signatures)
        self.windower = Windower(
            tokenizer,
            settings.spec,
            layout=settings.layout,
            window=settings.window,
            max_table=settings.max_table,
        )

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        engine: str | None = None,
        device: str | None = None,
        decoder: str | None = None,
        alpha: float | None = None,
    ) -> Extractor:
        """A trained model from the box, a folder or the Hub.

        Args:
            source: A name in the box, a folder, or a name on the Hub.
            engine: `onnx` or `torch`; when left out, torch where there is a GPU for it, otherwise onnxruntime if the
                model was exported, otherwise torch.
            device: `cpu`, `cuda`, …; a GPU when there is one.
            decoder: `split` or `hard`; the model's own when left out.
            alpha: The distance above which `split` cuts; the model's own when left out.
        """
        model = ModelFolder.open(source)
        own = model.settings
        settings = own.with_(decoder=decoder or own.decoder, alpha=own.alpha if alpha is None else alpha)
        return cls(start_engine(model, engine, device), model.tokenizer, settings, model.labels)

    def extract_words(self, sentences: Iterable[Sequence[str]], *, id: str = "") -> Document:
        """Annotate one document whose words are already split."""
        return next(self.annotate([Document.from_words(sentences, id=id)]))

    def annotate(self, documents: Iterable[Document], *, notes: Counter[str] | None = None) -> Iterator[Document]:
        """The documents, in order, with what the model finds in place of their annotation.

        Streams: a bounded number of documents is in memory at a time.

        Args:
            documents: Documents; annotation that they have is not looked at.
            notes: Counts, when given, what needed special care, in the words of `notes_of`.
        """
        stream = iter(documents)
        while chunk := [document.bare for document in islice(stream, self.CHUNK)]:
            findings = Findings(chunk, self.labels)
            for batch, P in self.tables(chunk, notes=notes):
                decoded = decode(
                    P,
                    batch.lengths,
                    self.labels,
                    decoder=self.settings.decoder,
                    alpha=self.settings.alpha,
                    permits=self.permits,
                )
                findings.add(batch.tables, decoded)
            yield from findings.documents()

    def tables(
        self, documents: Sequence[Document], *, notes: Counter[str] | None = None
    ) -> Iterator[tuple[Batch, Any]]:
        """The probability tables of `documents`, batch by batch, in an order that suits the engine."""
        passages = [passage for i, document in enumerate(documents) for passage in self.windower.passages(document, i)]
        if notes is not None:
            for passage in passages:
                notes.update(notes_of(passage))
        for group in in_batches(passages, max_cells=self.engine.max_cells, max_pieces=self.engine.max_pieces):
            batch = collate(group, self.settings.spec)
            yield batch, self.engine.tables(batch)


def notes_of(passage: Passage) -> dict[str, int]:
    """What needed special care in a passage, counted, in words for the user."""
    notes = {
        "sentence longer than the encoder, stitched": passage.stitched,
        "sentence larger than a table, split": passage.split,
        "word without a piece, read as unknown": passage.unknown_words,
    }
    return {what: count for what, count in notes.items() if count}
