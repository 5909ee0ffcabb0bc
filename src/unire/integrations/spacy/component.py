"""The component `unire` of a spaCy pipeline."""
# no `from __future__ import annotations`: spaCy reads the types of a factory's arguments

import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.util import minibatch

from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.files import read_folder
from unire.hub.model_dir import FILES, ModelDir, copy_model, locate_model
from unire.integrations.spacy.annotation import (
    DROPPED_ENTITY,
    WIDENED_ENTITY,
    annotate,
    get_unaligned,
    register_extensions,
)
from unire.result_filter import MinScore, ResultFilter
from unire.segmentation import segment

__all__ = ["UnirePipe", "make_pipe"]


@Language.factory(  # type: ignore[untyped-decorator]
    "unire",
    default_config={
        "model": "science",
        "min_score": 0.0,
        "entities": None,
        "relations": None,
        "overwrite_ents": True,
        "spans_key": "sc",
        "prefix": "",
        "engine": None,
        "device": None,
    },
    assigns=["doc.ents", "doc.spans", "doc._.relations", "doc._.unaligned", "span._.score"],
    requires=["doc.sents"],
)
def make_pipe(
    nlp: Language,
    name: str,
    model: str,
    min_score: MinScore,
    entities: list[str] | None,
    relations: list[str] | None,
    overwrite_ents: bool,
    spans_key: str | None,
    prefix: str,
    engine: str | None,
    device: str | None,
) -> "UnirePipe":
    """Make the component for `nlp.add_pipe("unire", config=…)`. spaCy has checked the types."""
    return UnirePipe(
        name,
        model,
        min_score=min_score,
        entities=entities,
        relations=relations,
        overwrite_ents=overwrite_ents,
        spans_key=spans_key,
        prefix=prefix,
        engine=engine,
        device=device,
    )


class UnirePipe(Pipe):  # type: ignore[misc]
    """Finds entities and relations in the sentences that earlier components have set.

    The model splits texts into words as in its training data, which differ from spaCy's tokens. Results are aligned
    with spaCy's tokens by characters. The model is loaded for the first text, so that a pipeline can be built, or
    loaded from disk, on machines that do not have the configured folder.

    Args:
        name: Name of the component in its pipeline.
        model: A bundled model, a folder, or a model on the Hub.
        min_score: Entities and relations with a lower score are dropped. `auto`: the scores that the model recommends.
        entities: Only entities of these types, and relations between them, are kept. [default: all]
        relations: Only relations of these types are kept; without `entities`, only their arguments. [default: all]
        overwrite_ents: Whether the model's entities replace overlapping ones in `doc.ents`, or the other way round.
        spans_key: Group in `doc.spans` for all entities of the model, or `None` for no group.
        prefix: Prefix of the extensions `relations`, `unaligned` and `score`, if another package has these names.
        engine: `onnx` or `torch`. [default: the fastest]
        device: `cpu`, `cuda`, … [default: a GPU if there is one]
    """

    def __init__(
        self,
        name: str,
        model: str | Path,
        *,
        min_score: MinScore = 0.0,
        entities: list[str] | None = None,
        relations: list[str] | None = None,
        overwrite_ents: bool = True,
        spans_key: str | None = "sc",
        prefix: str = "",
        engine: str | None = None,
        device: str | None = None,
    ) -> None:
        if min_score != "auto" and not 0 <= min_score <= 1:
            raise UnireError(f"min_score must be between 0 and 1, or 'auto', not {min_score}")
        register_extensions(prefix)
        self.name = name
        self.model = model
        self.min_score = min_score
        self.entities = entities
        self.relations = relations
        self.overwrite_ents = overwrite_ents
        self.spans_key = spans_key
        self.prefix = prefix
        self.engine = engine
        self.device = device
        self.notes: Counter[str] = Counter()
        """Counts of special cases, such as long sentences and entities that do not align with tokens."""
        self._loaded: tuple[int, Extractor] | None = None
        self._unpacked: tempfile.TemporaryDirectory[str] | None = None

    @property
    def extractor(self) -> Extractor:
        """The model. A forked process loads its own, because its threads are not forked."""
        if self._loaded is None or self._loaded[0] != os.getpid():
            self._loaded = os.getpid(), Extractor.load(self.model, engine=self.engine, device=self.device)
        return self._loaded[1]

    def __call__(self, doc: Doc) -> Doc:
        """Annotate a `Doc` in place."""
        self._annotate([(doc, _to_document(doc, self.name))])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream in order, with `batch_size` documents in memory at a time."""
        handle = self.get_error_handler()  # raises by default
        for docs in minibatch(stream, batch_size):
            readable: list[tuple[Doc, Document]] = []
            for doc in docs:
                try:
                    readable.append((doc, _to_document(doc, self.name)))
                except UnireError as error:  # the rest of the batch is not affected
                    handle(self.name, self, [doc], error)
            try:
                self._annotate(readable)
            except Exception as error:
                handle(self.name, self, [doc for doc, _ in readable], error)
            else:
                yield from (doc for doc, _ in readable)

    def _annotate(self, readable: Sequence[tuple[Doc, Document]]) -> None:
        keep = ResultFilter.build(
            self.extractor.labels,
            self.min_score,
            entities=self.entities,
            relations=self.relations,
            calibration=self.extractor.config.calibration,
        )
        documents = self.extractor.annotate([document for _, document in readable], notes=self.notes)
        for (doc, _), document in zip(readable, documents, strict=True):
            notes = annotate(doc, keep(document), spans_key=self.spans_key, overwrite_ents=self.overwrite_ents)
            if notes and not self.notes[WIDENED_ENTITY] + self.notes[DROPPED_ENTITY]:
                warnings.warn(
                    f"an entity at the characters {get_unaligned(doc)[0][:2]} does not align with the tokens; "
                    f"`doc._.{self.prefix}unaligned` lists such entities, and nlp.get_pipe({self.name!r}).notes counts "
                    "them",
                    stacklevel=2,
                )
            self.notes += notes

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Write the model itself, so that a saved pipeline needs no other folder or bundled model."""
        copy_model(locate_model(self.model), Path(path))

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> "UnirePipe":
        """Use the model that `to_disk` wrote, if there is one; else that of the configuration."""
        if Path(path).is_dir():
            self._set_model(Path(path).resolve())
        return self

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        """Pack the files of the model."""
        with read_folder(locate_model(self.model)) as folder:
            files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
        return srsly.msgpack_dumps(files)  # type: ignore[no-any-return]

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> "UnirePipe":
        """Unpack a model from `to_bytes` into a temporary folder and use it."""
        files = srsly.msgpack_loads(data)
        unpacked = tempfile.TemporaryDirectory(prefix="unire-")
        for name in FILES:  # ignore all else
            if name in files:
                (Path(unpacked.name) / name).write_bytes(files[name])
        self._set_model(Path(unpacked.name))
        self._unpacked = unpacked
        return self

    def _set_model(self, folder: Path) -> None:
        ModelDir.open(folder)  # fails now if the model is damaged, not at the first text
        self.model = folder
        self._loaded = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle for spawned processes, which load the model from its folder."""
        names = ("min_score", "entities", "relations", "overwrite_ents", "spans_key", "prefix", "engine", "device")
        options = {name: getattr(self, name) for name in names}
        return _restore, (self.name, self.model, options, self.get_error_handler())


def _restore(name: str, model: str | Path, options: dict[str, Any], handle: Callable[..., None]) -> UnirePipe:
    """Rebuild a pickled component."""
    component = UnirePipe(name, model, **options)
    component.set_error_handler(handle)
    return component


def _to_document(doc: Doc, name: str) -> Document:
    """Convert a `Doc`, with its sentences."""
    if not doc.has_annotation("SENT_START"):
        raise UnireError(
            f"the component {name!r} needs sentences; add a component that sets them before it, as in "
            f'nlp.add_pipe("sentencizer", before="{name}")'
        )
    return segment(doc.text, sentences=[(sentence.start_char, sentence.end_char) for sentence in doc.sents])
