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
from unire.hub.model_dir import FILES, ModelDir, copy_model, locate_model
from unire.integrations.spacy.annotation import LEFT_OUT, WIDENED, annotate, register_extensions, unaligned_of
from unire.segmentation import segment

__all__ = ["UnirePipe", "make_pipe"]


@Language.factory(  # type: ignore[untyped-decorator]
    "unire",
    default_config={
        "model": "science",
        "min_score": 0.0,
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
    min_score: float,
    overwrite_ents: bool,
    spans_key: str | None,
    prefix: str,
    engine: str | None,
    device: str | None,
) -> "UnirePipe":
    """What spaCy calls for `nlp.add_pipe("unire", config=…)`, once it has checked the types."""
    return UnirePipe(
        name,
        model,
        min_score=min_score,
        overwrite_ents=overwrite_ents,
        spans_key=spans_key,
        prefix=prefix,
        engine=engine,
        device=device,
    )


class UnirePipe(Pipe):  # type: ignore[misc]
    """Finds entities and relations in the sentences that a pipeline has set.

    The model reads the words that it was trained on, which are not quite spaCy's; findings are laid back onto spaCy's
    tokens by their characters. It is loaded when the first text comes, so that a pipeline can be put together, or
    loaded from disk, where the folder named in its configuration is not.

    Args:
        name: Of the component in its pipeline.
        model: A name in the box, a folder, or a name on the Hub.
        min_score: Entities and relations below it are left out.
        overwrite_ents: Whether of two overlapping entities in `doc.ents` the model's stays, or the one that was there.
        spans_key: The group in `doc.spans` that holds the model's entities, all of them; `None` for no group.
        prefix: Begins the names `relations`, `unaligned` and `score` of spaCy's `._.`, where these are somebody else's.
        engine: `onnx` or `torch`; the fastest when left out.
        device: `cpu`, `cuda`, …; a GPU when there is one.
    """

    def __init__(
        self,
        name: str,
        model: str | Path,
        *,
        min_score: float = 0.0,
        overwrite_ents: bool = True,
        spans_key: str | None = "sc",
        prefix: str = "",
        engine: str | None = None,
        device: str | None = None,
    ) -> None:
        if not 0 <= min_score <= 1:
            raise UnireError(f"a score is between 0 and 1, so that a min_score of {min_score} makes no sense")
        register_extensions(prefix)
        self.name = name
        self.model = model
        self.min_score = min_score
        self.overwrite_ents = overwrite_ents
        self.spans_key = spans_key
        self.prefix = prefix
        self.engine = engine
        self.device = device
        self.notes: Counter[str] = Counter()
        """What needed special care so far, counted: long sentences, and entities that are not whole tokens."""
        self._loaded: tuple[int, Extractor] | None = None
        self._unpacked: tempfile.TemporaryDirectory[str] | None = None

    @property
    def extractor(self) -> Extractor:
        """The model; in a process that was forked, one of its own, since threads are not forked along."""
        if self._loaded is None or self._loaded[0] != os.getpid():
            self._loaded = os.getpid(), Extractor.load(self.model, engine=self.engine, device=self.device)
        return self._loaded[1]

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([(doc, _document(doc, self.name))])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """The documents of a stream, in order; `batch_size` of them are in memory at a time."""
        handle = self.get_error_handler()  # the pipeline says what becomes of an error; by default it is raised
        for docs in minibatch(stream, batch_size):
            readable: list[tuple[Doc, Document]] = []
            for doc in docs:
                try:
                    readable.append((doc, _document(doc, self.name)))
                except UnireError as error:  # of this one: the rest of the batch can be read
                    handle(self.name, self, [doc], error)
            try:
                self._annotate(readable)
            except Exception as error:
                handle(self.name, self, [doc for doc, _ in readable], error)
            else:
                yield from (doc for doc, _ in readable)

    def _annotate(self, readable: Sequence[tuple[Doc, Document]]) -> None:
        documents = self.extractor.annotate([document for _, document in readable], notes=self.notes)
        for (doc, _), document in zip(readable, documents, strict=True):
            found = document.confident(self.min_score) if self.min_score > 0 else document
            notes = annotate(doc, found, spans_key=self.spans_key, overwrite_ents=self.overwrite_ents)
            if notes and not self.notes[WIDENED] + self.notes[LEFT_OUT]:
                warnings.warn(
                    f"an entity at the characters {unaligned_of(doc)[0][:2]} does not begin and end where tokens do; "
                    f"`doc._.{self.prefix}unaligned` has such entities, and nlp.get_pipe({self.name!r}).notes counts "
                    "them",
                    stacklevel=2,
                )
            self.notes += notes

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Write the model itself, so that a saved pipeline needs no other folder, and no other machine's box."""
        copy_model(locate_model(self.model), Path(path))

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> "UnirePipe":
        """Take the model that `to_disk` wrote; where none was written, the one that the configuration names."""
        if Path(path).is_dir():
            self._take(Path(path).resolve())
        return self

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        folder = locate_model(self.model)
        files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
        return srsly.msgpack_dumps(files)  # type: ignore[no-any-return]

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> "UnirePipe":
        files = srsly.msgpack_loads(data)
        unpacked = tempfile.TemporaryDirectory(prefix="unire-")
        for name in FILES:  # whatever else there may be is no part of a model
            if name in files:
                (Path(unpacked.name) / name).write_bytes(files[name])
        self._take(Path(unpacked.name))
        self._unpacked = unpacked
        return self

    def _take(self, folder: Path) -> None:
        ModelDir.open(folder)  # a damaged one is known now, not when the first text comes
        self.model = folder
        self._loaded = None

    def __reduce__(self) -> tuple[Any, ...]:
        """For processes that are started, not forked: they load the model from its folder."""
        names = ("min_score", "overwrite_ents", "spans_key", "prefix", "engine", "device")
        options = {name: getattr(self, name) for name in names}
        return _as_before, (self.name, self.model, options, self.get_error_handler())


def _as_before(name: str, model: str | Path, options: dict[str, Any], handle: Callable[..., None]) -> UnirePipe:
    component = UnirePipe(name, model, **options)
    component.set_error_handler(handle)  # which the pipeline had given it
    return component


def _document(doc: Doc, name: str) -> Document:
    if not doc.has_annotation("SENT_START"):
        raise UnireError(
            f"the component {name!r} finds no sentences; put one that sets them before it, as in "
            f'nlp.add_pipe("sentencizer", before="{name}")'
        )
    return segment(doc.text, sentences=[(sentence.start_char, sentence.end_char) for sentence in doc.sents])
