"""Unlabelled documents, held as they are read and segmented only when it is their turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from unire import formats
from unire.documents import Document
from unire.exceptions import UnireError
from unire.files import ending
from unire.formats import dygie, native
from unire.segment import segment
from unire.training.held_out import HeldOut
from unire.training.text_files import ANNOTATED, check_text_files, read_documents

__all__ = ["Texts"]

LINES = {"unire": native.from_json, "dygie": dygie.from_json}
"""Formats with a document a line, which is made into one where it is needed; others are read first."""
FIRST = 512
"""Documents from the start of a corpus among which a few are looked for."""


class Texts:
    """The documents of a corpus: lines of text, and lines of JSON with the name of their format.

    Whatever annotation they have, nobody looks at it. Processes that are forked share them all: they are one object,
    whereas to read one of many writes to it, since Python counts who does.
    """

    def __init__(self, items: Iterable[tuple[str | None, str]]) -> None:
        pairs = [(name, line.encode()) for name, line in items]
        self._formats = [name for name, _ in pairs]
        self._lines = b"".join(line for _, line in pairs)
        self._bounds = np.cumsum([0, *(len(line) for _, line in pairs)])

    @classmethod
    def read(cls, files: Sequence[str | Path], limit: int | None = None) -> Texts:
        """Those of some files.

        Args:
            files: Plain text, a document per line; or documents in one of our formats (`.json`, `.jsonl`, `.ndjson`).
                `.gz`, `.xz` and `.bz2` are unpacked.
            limit: Take so many documents from the start of the files; `None` for all.
        """
        paths = [Path(file) for file in files]
        check_text_files(paths, beside=ANNOTATED)
        return cls(itertools.islice(_items(paths), limit))

    def some(self, sentences: int, held_out: HeldOut) -> list[Document]:
        """Some of the first documents, of so many sentences at most."""
        documents: list[Document] = []
        for document in itertools.islice(self, FIRST):
            if document.text not in held_out and len(document.sentences) <= sentences:
                documents.append(document)
                sentences -= len(document.sentences)
        return documents

    def __len__(self) -> int:
        return len(self._formats)

    def __iter__(self) -> Iterator[Document]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, position: int) -> Document:
        name = self._formats[position]
        line = self._lines[self._bounds[position] : self._bounds[position + 1]].decode()
        if name is None:
            return segment(line)
        try:
            return LINES[name](json.loads(line), 0)
        except ValueError as error:
            raise UnireError(f"document {position + 1} of the corpus: not valid JSON: {error}") from None
        except UnireError as error:
            raise UnireError(f"document {position + 1} of the corpus: {error}") from None


def _items(files: Sequence[Path]) -> Iterator[tuple[str | None, str]]:
    for file in files:
        if ending(file) not in ANNOTATED:
            yield from ((None, line) for line in read_documents([file]))
        elif (name := formats.guess(file)) in LINES:
            yield from ((name, line) for line in read_documents([file]))
        else:
            for document in formats.read(file, name):
                yield from (("unire", json.dumps(item)) for item in native.to_json(document))
