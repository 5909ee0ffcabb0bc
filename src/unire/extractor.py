"""The user's object: texts or documents in, documents with entities and relations out."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.calibration import Calibration
from unire.config import ModelConfig
from unire.decoding.assemble import DocumentAssembler
from unire.decoding.decoders import DECODERS, decode, default_alpha
from unire.decoding.kernels import Decoded
from unire.documents import Document
from unire.errors import UnireError
from unire.hub.model_dir import ModelDir
from unire.inference.engine import Engine, start_engine
from unire.inference.streaming import InferencePipeline, count_characters
from unire.labels import LabelSpace
from unire.prefetch import Chunker, ChunkSource
from unire.segmentation import segment
from unire.windows.collator import Batch, bucket_batches, collate
from unire.windows.windows import WindowBuilder, WindowGroup

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Extractor", "decoding_by", "notes_of"]


class Extractor:
    """Finds entities and relations: windows, tables, decoding. Threads may share it.

    >>> extractor = Extractor.load("models/mine")  # doctest: +SKIP
    >>> extractor.extract("Ada lives in London.").relations  # doctest: +SKIP
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, settings: ModelConfig, labels: LabelSpace) -> None:
        if settings.decoder not in DECODERS:
            raise UnireError(f"no decoder {settings.decoder!r}: there are {', '.join(DECODERS)}")
        self.engine = engine
        self.config = settings
        self.labels = labels
        self.allowed_relations = labels.allowed_relations(settings.signatures) if settings.constraints else None
        self.window_builder = WindowBuilder(
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
        relation_odds: float | None = None,
        constraints: str | Path | Mapping[str, Iterable[Sequence[str]]] | None = None,
        threads: int | None = None,
    ) -> Self:
        """A trained model from the box, a folder or the Hub.

        Args:
            source: A name in the box, a folder, or a name on the Hub, `USER/MODEL` or `USER/MODEL@REVISION`.
            engine: `onnx` or `torch`; when left out, torch where there is a GPU for it, otherwise onnxruntime if the
                model was exported, otherwise torch.
            device: `cpu`, `cuda`, …; a GPU when there is one.
            decoder: `split`, `likely` or `hard`; the model's own when left out, for which alone α, relation odds and
                scores are fitted.
            alpha: The distance above which `split` cuts, or what a square must have in its favour where `likely` does;
                the model's own when left out.
            relation_odds: How many times as probable as ⊥ a relation must be; the model's own when left out.
            constraints: Which types of entities a relation may join: `learnt` (those that it joins in the training
                data), `none` (any), or types that are given, as `{"Work_For": [["Peop", "Org"]]}` or a JSON file of
                that form; the model's own choice of the first two when left out.
            threads: How many onnxruntime computes with; as many as there are cores when left out.
        """
        model = ModelDir.open(source)
        settings = _constrained(model.config, model.labels, constraints)
        if decoder is not None:
            settings = decoding_by(settings, decoder)
        if alpha is not None:
            settings = settings.with_(alpha=alpha)
        if relation_odds is not None:
            settings = settings.with_(relation_odds=relation_odds)
        return cls(start_engine(model, engine, device, threads), model.tokenizer, settings, model.labels)

    # A string is an iterable of strings too, and so is a list: the first that fits is meant.
    @overload
    def extract(  # type: ignore[overload-overlap]
        self, texts: str, *, id: str = "", notes: Counter[str] | None = None
    ) -> Document: ...

    @overload
    def extract(  # type: ignore[overload-overlap]
        self, texts: list[str] | tuple[str, ...], *, notes: Counter[str] | None = None
    ) -> list[Document]: ...

    @overload
    def extract(self, texts: Iterable[str], *, notes: Counter[str] | None = None) -> Iterator[Document]: ...

    def extract(
        self, texts: str | Iterable[str], *, id: str = "", notes: Counter[str] | None = None
    ) -> Document | list[Document] | Iterator[Document]:
        """Find the entities and relations of raw text.

        Args:
            texts: A text, a list of texts, or any other iterable of them, which is read as its results are taken: a
                bounded number of texts is in memory at a time.
            id: That of the document, where a single text is given.
            notes: Counts, when given, what needed special care, in the words of `notes_of`.

        Returns:
            A document for a text, a list for a list, an iterator for anything else; in the order of the texts.
        """
        if isinstance(texts, str):
            return next(self.annotate([segment(texts, id=id)], notes=notes))
        if isinstance(texts, (bytes, bytearray)) or not isinstance(texts, Iterable):
            raise UnireError(f"a text is a string, but {type(texts).__name__} was given; decode or read it first")
        if id:
            raise UnireError("an id is for a single text; give none where there are several")
        documents = map(_segmented, texts)
        if isinstance(texts, (list, tuple)):
            return list(self.annotate(Chunker(documents, count_characters), notes=notes))
        return self.annotate(documents, notes=notes)

    def extract_words(
        self, sentences: Iterable[Sequence[str]], *, id: str = "", notes: Counter[str] | None = None
    ) -> Document:
        """Annotate one document whose words are already split: a list of words for each sentence.

        Args:
            sentences: Of the document.
            id: That of the document.
            notes: Counts, when given, what needed special care, in the words of `notes_of`.
        """
        split = [_checked_words(words) for words in ((sentences,) if isinstance(sentences, str) else sentences)]
        return next(self.annotate([Document.from_words(split, id=id)], notes=notes))

    def annotate(
        self, documents: Iterable[Document] | ChunkSource[Document], *, notes: Counter[str] | None = None
    ) -> Iterator[Document]:
        """The documents, in order, with what the model finds in place of their annotation.

        Streams: a bounded number of documents is in memory at a time. While tables are decoded, the engine computes the
        next ones. Where reading documents fails, those before the failure are given first.

        Args:
            documents: Documents; annotation that they have is not looked at. They are read in the caller's thread, or
                by the thread of an `Ahead`, which is for streams that may have to be waited for.
            notes: Counts, when given, what needed special care, in the words of `notes_of`.
        """
        for findings, batch, _ in self.decoded(documents, notes=notes):
            if batch is None:
                yield from findings.documents()

    def decoded(
        self, documents: Iterable[Document] | ChunkSource[Document], *, notes: Counter[str] | None = None
    ) -> Iterator[tuple[DocumentAssembler, Batch | None, Any]]:
        """What `annotate` goes through, for whoever wants to see the tables too.

        Yields, chunk by chunk of the documents, each batch with its tables and the findings to which they have been
        added; and at the end of a chunk its findings, which are whole then, and `None`.
        """
        flow = InferencePipeline(self.engine, self.labels, lambda chunk: self.batches(chunk, notes), documents)
        try:
            for findings, batch, started in flow:
                P = started.tables()
                if batch is not None:
                    findings.add(batch.tables, self.decode(batch, P))
                yield findings, batch, P
        finally:
            flow.close()

    def tables(
        self, documents: Sequence[Document], *, notes: Counter[str] | None = None
    ) -> Iterator[tuple[Batch, Any]]:
        """The probability tables of `documents`, batch by batch, in an order that suits the engine."""
        for batch in self.batches(documents, notes):
            yield batch, self.engine.tables(batch)

    def __copy__(self) -> Extractor:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> NoReturn:
        raise UnireError("an extractor cannot be sent to another process; load the model there")

    def with_decoder(self, decoder: str) -> Extractor:
        """The same extractor, which decodes in another way; what is fitted to its own does not count there."""
        other = copy(self)
        other.config = decoding_by(self.config, decoder)
        return other

    def with_alpha(self, alpha: float) -> Extractor:
        """The same extractor with another threshold by which it cuts."""
        other = copy(self)
        other.config = self.config.with_(alpha=alpha)
        return other

    def decode(self, batch: Batch, P: Any) -> Decoded:
        """What the tables of a batch hold, with calibrated scores."""
        return self.decode_tables(P, batch.lengths)

    def decode_tables(self, P: Any, lengths: Sequence[int] | NDArray[np.int64]) -> Decoded:
        """What tables of so many words each hold, with calibrated scores."""
        settings = self.config
        decoded = decode(
            P,
            lengths,
            self.labels,
            decoder=settings.decoder,
            alpha=settings.alpha,
            allowed_relations=self.allowed_relations,
            odds=settings.relation_odds,
        )
        return decoded.calibrated(settings.calibration)

    def batches(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> Iterator[Batch]:
        """Everything that is read of `documents`, in batches that suit the engine."""
        groups = self.window_builder.build(documents)
        if notes is not None:
            for group in groups:
                notes.update(notes_of(group))
        engine, spec = self.engine, self.config.spec
        for bucket in bucket_batches(groups, max_cells=engine.max_cells, max_tokens=engine.max_tokens):
            yield collate(bucket, spec, padding=engine.padding)


def _checked_words(words: Sequence[str]) -> Sequence[str]:
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise UnireError(
            f"a sentence is a list of words, each a string, but {reprlib.repr(words)} was given; for text that is not "
            "split into words there is `extract`"
        )
    return words


def _segmented(text: str) -> Document:
    if not isinstance(text, str):
        raise UnireError(
            f"a text is a string, but one of those given is {type(text).__name__}; decode or read it first"
        )
    return segment(text)


def decoding_by(settings: ModelConfig, decoder: str) -> ModelConfig:
    """The settings for a decoder: for another than a model's own, to which nothing is fitted yet."""
    if decoder == settings.decoder:
        return settings
    if decoder not in DECODERS:
        raise UnireError(f"no decoder {decoder!r}: there are {', '.join(DECODERS)}")
    return settings.with_(decoder=decoder, alpha=default_alpha(decoder), relation_odds=1.0, calibration=Calibration())


def _constrained(
    settings: ModelConfig, labels: LabelSpace, constraints: str | Path | Mapping[str, Iterable[Sequence[str]]] | None
) -> ModelConfig:
    if constraints is None:
        return settings
    if constraints == "none":
        return settings.with_(constraints=False)
    if constraints != "learnt":
        return settings.with_(constraints=True, signatures=labels.load_signatures(constraints))
    if not settings.signatures:
        raise UnireError("the model has learnt no type constraints; give them as a JSON file, or train it again")
    return settings.with_(constraints=True)


def notes_of(group: WindowGroup) -> dict[str, int]:
    """What needed special care in a group, counted, in words for the user."""
    notes = {
        "sentence longer than the encoder, stitched": group.stitched,
        "sentence larger than a table, split": group.split,
        "word without a token, read as unknown": group.unknown_words,
    }
    return {what: count for what, count in notes.items() if count}
