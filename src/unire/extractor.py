"""The extractor: texts or documents in, documents with entities and relations out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any, NoReturn, Self, overload

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.calibration import Calibration
from unire.config import ModelConfig
from unire.decoding.assemble import StreamAssembler
from unire.decoding.coreference import CoreferenceScorer
from unire.decoding.decoders import check_decoder, decode, default_alpha
from unire.decoding.kernels import Decoded
from unire.document_list import Documents
from unire.documents import Document
from unire.errors import UnireError
from unire.hub.model_dir import ModelDir
from unire.inference.engine import Engine, start_engine
from unire.inference.streaming import (
    Chunker,
    ChunkSource,
    chunk_characters,
    chunk_weight,
    iter_runs,
    to_chunk_source,
)
from unire.labels import LabelSpace
from unire.output_files import check_output_folder
from unire.result_filter import MinScore, ResultFilter
from unire.segmentation import check_texts, check_words, segment, segment_texts
from unire.windows.collator import Batch, bucket_groups, collate
from unire.windows.windows import WindowBuilder

__all__ = ["Extractor", "OnBatch", "use_decoder"]

Names = str | Iterable[str] | None
OnBatch = Callable[[Batch, Any], None]
"""Called after a batch was decoded, with the batch and its probability tables P. Positions of documents count from the
start of the stream. It may raise an error, which stops the extraction."""


class Extractor:
    """Finds entities and relations in text. Threads may share an extractor.

    >>> extractor = Extractor.from_pretrained("science")  # doctest: +SKIP
    >>> document = extractor("We train a parser on the Penn Treebank.")  # doctest: +SKIP
    >>> documents = extractor.extract(["A first text.", "A second."], min_score=0.5)  # doctest: +SKIP
    >>> documents.to_dataframe()  # doctest: +SKIP

    Args:
        engine: Computes the probability tables.
        tokenizer: The encoder's tokenizer.
        config: How windows are laid out and tables decoded.
        labels: The label space of the tables.
        coreference: Finds the clusters of a document. [default: documents have none]
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        config: ModelConfig,
        labels: LabelSpace,
        coreference: CoreferenceScorer | None = None,
    ) -> None:
        check_decoder(config.decoder)
        self.engine = engine
        self.config = config
        self.labels = labels
        self.coreference = coreference
        self.allowed_relations = labels.allowed_relations(config.signatures) if config.constraints else None
        self.window_builder = WindowBuilder(
            tokenizer,
            config.spec,
            layout=config.layout,
            window=config.window,
            max_table=config.max_table,
        )
        self.max_batch_tokens: int | None = None
        """Largest number of padded tokens in a batch. [default: that of the engine]"""
        self.model_dir: ModelDir | None = None
        """Where the model was loaded from; `None` for a model in memory."""

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
        """Load a trained model. `Extractor.load` and `Extractor.from_pretrained` are the same.

        >>> Extractor.from_pretrained("science", device="cpu")  # doctest: +SKIP

        Args:
            source: The name of a bundled model, a folder, or a name on the Hub: `USER/MODEL` or `USER/MODEL@REVISION`.
            engine: `onnx` or `torch`. [default: torch on a GPU, else onnx if the model was exported, else torch]
            device: `cpu`, `cuda`, … [default: a GPU if there is one]
            decoder: `split`, `likely` or `hard`. α, relation odds and calibration are fitted to the model's own decoder
                only. [default: the model's own]
            alpha: The decoder's threshold: for `split` the distance above which it cuts, for `likely` the log-odds in
                favour of a span. [default: the model's own]
            relation_odds: A relation must be this many times as probable as ⊥. [default: the model's own]
            constraints: Entity types that a relation may join: `learnt` (seen in training), `none` (any), a mapping
                such as `{"Work_For": [["Peop", "Org"]]}`, or a JSON file of that form. [default: the model's own choice
                of `learnt` or `none`]
            threads: Threads of onnxruntime. [default: one per core]

        Returns:
            The extractor, ready to use.

        Raises:
            UnireError: There is no such model, its folder is incomplete, or an option does not fit it.
        """
        with ModelDir.reading(source) as model:
            config = model.config.with_constraints(constraints, model.labels)
            if decoder is not None:
                config = use_decoder(config, decoder)
            if alpha is not None:
                config = config.with_(alpha=alpha)
            if relation_odds is not None:
                config = config.with_(relation_odds=relation_odds)
            started = start_engine(model, engine, device, threads)
            coreference = CoreferenceScorer.find(model.path, len(model.labels.entity_types), started.n_hidden)
            extractor = cls(started, model.tokenizer, config, model.labels, coreference)
        extractor.model_dir = model
        return extractor

    from_pretrained = load

    def save(self, path: str | Path) -> None:
        """Save the model as a new folder, with the extractor's decoder, α, relation odds and constraints.

        >>> Extractor.load("science", alpha=1.0).save("models/mine")  # doctest: +SKIP

        Args:
            path: The folder, which must be new or empty. `Extractor.load(path)` loads it again.

        Raises:
            UnireError: The folder holds something, or cannot be written.
        """
        if self.model_dir is not None:
            self.model_dir.save(self.config, Path(path))
            return
        model = getattr(self.engine, "model", None)
        if model is None:
            raise UnireError("this extractor has neither a model folder nor a PyTorch model to save")
        from unire.models.checkpoint import save_checkpoint

        check_output_folder(path)
        model = copy(model)
        model.config = self.config
        save_checkpoint(model, Path(path))

    # Both a string and a list are iterables of strings: the first overload that fits counts.
    @overload
    def extract(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        id: str = "",
        min_score: MinScore = 0.0,
        types: Names = None,
        entities: Names = None,
        relations: Names = None,
        batch_size: int | None = None,
        progress: bool = False,
        notes: Counter[str] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Document: ...

    @overload
    def extract(  # type: ignore[overload-overlap]
        self,
        texts: list[str] | tuple[str, ...],
        *,
        ids: Iterable[str] | None = None,
        min_score: MinScore = 0.0,
        types: Names = None,
        entities: Names = None,
        relations: Names = None,
        batch_size: int | None = None,
        progress: bool = False,
        notes: Counter[str] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Documents: ...

    @overload
    def extract(
        self,
        texts: Iterable[str],
        *,
        ids: Iterable[str] | None = None,
        min_score: MinScore = 0.0,
        types: Names = None,
        entities: Names = None,
        relations: Names = None,
        batch_size: int | None = None,
        progress: bool = False,
        notes: Counter[str] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Documents | Iterator[Document]: ...

    def extract(
        self,
        texts: str | Iterable[str],
        *,
        id: str = "",
        ids: Iterable[str] | None = None,
        min_score: MinScore = 0.0,
        types: Names = None,
        entities: Names = None,
        relations: Names = None,
        batch_size: int | None = None,
        progress: bool = False,
        notes: Counter[str] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Document | Documents | Iterator[Document]:
        """Find the entities and relations of raw text.

        >>> extractor.extract(frame["text"], ids=frame["doi"], min_score=0.5, progress=True)  # doctest: +SKIP

        Args:
            texts: A text; a list, a tuple, a NumPy array or a column of a data frame; or any other iterable of texts.
                Such an iterable is read as the results are consumed, so that a bounded number of texts is in memory.
            id: The id of the document, for a single text.
            ids: The ids of the documents, one for each of several texts.
            min_score: Leave out entities and relations with a lower score. `auto`: those that the model recommends.
            types: Keep only entities and relations of these types, given as a list or separated by commas. Without an
                entity type in the list, entities of all types are kept; likewise relations. [default: all types]
            entities: Keep only entities of these types, and relations between them. [default: all types]
            relations: Keep only relations of these types; without `entities`, only their arguments. [default: all]
            batch_size: Largest number of sentences, or of windows shared by sentences, that are computed at once. Lower
                it if memory runs short; what is found does not depend on it. [default: as many as suit the engine]
            progress: Show a progress bar on standard error.
            notes: Counts sentences and words that needed special care, such as sentences longer than the encoder.
            on_batch: Called after each batch.

        Returns:
            A document for a text, `Documents` (a list) for a list, array or column, and an iterator for any other
            iterable; in the order of the texts.

        Raises:
            UnireError: Something is not a text, the ids do not match the texts, or an option is out of range.
        """
        if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
            raise UnireError(f"batch_size must be a whole number, at least 1, not {batch_size!r}")
        keep = ResultFilter.build(self.labels, min_score, types, entities, relations, self.config.calibration)
        texts = check_texts(texts)
        if isinstance(texts, str):
            if ids is not None:
                raise UnireError("ids=... is for several texts; for a single text give id=...")
            documents = iter([segment(texts, id=id)])
            total: int | None = 1
        else:
            if id:
                raise UnireError("id=... is for a single text; for several texts give ids=...")
            documents = segment_texts(texts, ids)
            total = len(texts) if isinstance(texts, (list, tuple)) else None
        # a list is wanted whole, so its first chunk need not be small
        source = documents if total is None else Chunker(documents, chunk_weight)
        annotated = self.annotate(source, batch_size=batch_size, notes=notes, on_batch=on_batch)
        if keep != ResultFilter():
            annotated = (keep(document) for document in annotated)
        if progress:
            annotated = _track(annotated, total)
        if isinstance(texts, str):
            (document,) = annotated
            return document
        return annotated if total is None else Documents(annotated)

    __call__ = extract

    def extract_words(
        self, sentences: Iterable[Sequence[str]], *, id: str = "", notes: Counter[str] | None = None
    ) -> Document:
        """Annotate one document whose words are already split.

        >>> extractor.extract_words([["Ada", "lives", "in", "London", "."]])  # doctest: +SKIP

        Args:
            sentences: The words of each sentence.
            id: The id of the document.
            notes: Counts sentences and words that needed special care, such as sentences longer than the encoder.

        Returns:
            The document, whose text is the words joined by spaces.

        Raises:
            UnireError: A sentence is not a list of strings.
        """
        words = [check_words(words) for words in ((sentences,) if isinstance(sentences, str) else sentences)]
        return next(self.annotate([Document.from_words(words, id=id)], notes=notes))

    def annotate(
        self,
        documents: Iterable[Document] | ChunkSource[Document],
        *,
        batch_size: int | None = None,
        notes: Counter[str] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Iterator[Document]:
        """Yield the documents, in order, with the model's annotation in place of their own.

        A bounded number of documents is in memory. While one batch is decoded, the engine computes the next. If reading
        a document fails, all documents before it are yielded before the error is raised.

        Args:
            documents: The documents. They are read in the caller's thread, or in the background if this is a
                `Prefetcher`, which is made for slow streams.
            batch_size: Largest number of sentences, or of windows shared by sentences, that are computed at once.
                [default: as many as suit the engine]
            notes: Counts sentences and words that needed special care, such as sentences longer than the encoder.
            on_batch: Called after each batch, for example by a progress bar.

        Yields:
            A document for each document, with the same text and words.
        """
        # Within a run of chunks (`iter_runs`) the engine reads ahead, so the assembler holds several chunks.
        scorer = self.coreference if self.engine.n_hidden else None
        assembler = StreamAssembler(self.labels, scorer)
        with closing(to_chunk_source(documents)) as source:
            for chunks in iter_runs(source, chunk_characters(self._max_batch_tokens)):
                try:
                    batches = self._iter_batches(chunks, assembler, batch_size, notes)
                    for batch, result in self.engine.run(batches, vectors=scorer is not None):
                        P, h = result if scorer else (result, None)
                        assembler.add(batch.table_spans, self.decode(P, batch.lengths), h)
                        if on_batch is not None:
                            on_batch(batch, P)
                        yield from assembler.pop_complete()
                except Exception:
                    yield from assembler.pop_complete()
                    raise
                yield from assembler.pop_complete()  # documents without words are in no batch

    def _iter_batches(
        self,
        chunks: Iterable[Sequence[Document]],
        assembler: StreamAssembler,
        batch_size: int | None,
        notes: Counter[str] | None,
    ) -> Iterator[Batch]:
        """Yield the batches of a run. The engine takes some before their predecessors are decoded."""
        for chunk in chunks:
            first_index = assembler.expect(chunk)
            yield from self.build_batches(chunk, batch_size=batch_size, notes=notes, first_index=first_index)

    def build_batches(
        self,
        documents: Sequence[Document],
        *,
        batch_size: int | None = None,
        notes: Counter[str] | None = None,
        first_index: int = 0,
    ) -> Iterator[Batch]:
        """Lay out documents in windows, and yield the windows in batches of similar length.

        Args:
            documents: The documents.
            batch_size: Largest number of window groups in a batch. [default: as many as suit the engine]
            notes: Counts sentences and words that needed special care, such as sentences longer than the encoder.
            first_index: `TableSpan.document` of the first document.
        """
        groups = self.window_builder.build(documents, first_index)
        if notes is not None:
            for group in groups:
                notes.update(group.notes)
        for bucket in bucket_groups(groups, max_cells=self.engine.max_cells, max_tokens=self._max_batch_tokens):
            n_groups = batch_size or len(bucket)
            for start in range(0, len(bucket), n_groups):
                yield collate(bucket[start : start + n_groups], self.config.spec, padding=self.engine.padding)

    @property
    def _max_batch_tokens(self) -> int:
        return min(self.engine.max_batch_tokens, self.max_batch_tokens or self.engine.max_batch_tokens)

    def predict_tables(self, documents: Sequence[Document]) -> Iterator[tuple[Batch, Any]]:
        """Yield the probability tables P of `documents`, batch by batch, in an order that suits the engine."""
        return self.engine.run(self.build_batches(documents))

    def decode(self, P: Any, lengths: Sequence[int] | NDArray[np.int64]) -> Decoded:
        """Decode tables of `lengths` words, with calibrated scores."""
        config = self.config
        decoded = decode(
            P,
            lengths,
            self.labels,
            decoder=config.decoder,
            alpha=config.alpha,
            allowed_relations=self.allowed_relations,
            relation_odds=config.relation_odds,
        )
        return decoded.calibrated(config.calibration, self.labels)

    def with_decoder(self, decoder: str) -> Extractor:
        """Return a copy with another decoder, with its default α and without calibration."""
        other = copy(self)
        other.config = use_decoder(self.config, decoder)
        return other

    def with_alpha(self, alpha: float) -> Extractor:
        """Return a copy with another threshold α of the decoder."""
        other = copy(self)
        other.config = self.config.with_(alpha=alpha)
        return other

    def __repr__(self) -> str:
        name = f" {self.model_dir.path.name!r}" if self.model_dir else ""
        decoder = f"{self.config.decoder}, α = {self.config.alpha:g}"
        types = f"{len(self.labels.entity_types)} entity types, {len(self.labels.relation_types)} relation types"
        return f"<Extractor{name}: {type(self.engine).__name__}, decoder {decoder}, {types}>"

    def __copy__(self) -> Extractor:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> NoReturn:
        raise UnireError("an extractor cannot be pickled; load the model in the other process")


def _track(documents: Iterator[Document], total: int | None) -> Iterator[Document]:
    """Yield the documents, and count them on a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import track

    return iter(track(documents, "extracting", total=total, console=Console(stderr=True), transient=True))


def use_decoder(config: ModelConfig, decoder: str) -> ModelConfig:
    """Return a config for a decoder. For another one than the model's own, nothing is fitted yet."""
    if decoder == config.decoder:
        return config
    check_decoder(decoder)
    return config.with_(decoder=decoder, alpha=default_alpha(decoder), relation_odds=1.0, calibration=Calibration())
