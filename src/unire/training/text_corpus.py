"""Unlabelled documents, held as they are read and segmented only when it is their turn."""

from __future__ import annotations

import codecs
import heapq
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.files import explain_read_errors, get_suffix, open_binary
from unire.formats import dygie, native
from unire.segmentation import segment
from unire.sources.csv import TABLES
from unire.sources.folders import JSON_LINES, PARQUET

__all__ = [
    "ANNOTATED",
    "OverlapFilter",
    "UnlabelledCorpus",
    "check_text_files",
    "no_text",
    "read_documents",
    "select_similar",
]

ANNOTATED = (".json", *JSON_LINES)
"""How files end that hold documents in one of our formats."""
OTHERS = (*ANNOTATED, *TABLES, *PARQUET)
"""How files end that have other lines than those of a text."""


def read_documents(files: Iterable[Path]) -> Iterator[str]:
    """The lines of UTF-8 text files that hold something; `.gz`, `.xz` and `.bz2` are unpacked on the way."""
    for file in files:
        name = f"corpus file {str(file)!r}"
        with explain_read_errors(name), open_binary(file) as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode().strip()
                except UnicodeDecodeError:
                    raise UnireError(f"{name}, line {number}: not UTF-8 text") from None
                if text:
                    yield text


def check_text_files(files: Sequence[Path], beside: Collection[str] = ()) -> None:
    """Refuse at once what would fail only after minutes: files that are not there, or that hold no text.

    No more is read than the first line that holds something.

    Args:
        files: The corpus.
        beside: Endings of files that are no plain text, and may be there all the same.
    """
    if not files:
        raise UnireError("there is no corpus; give one or more text files")
    if missing := [file for file in files if not file.is_file()]:
        raise UnireError(f"there is no corpus file {str(missing[0])!r}")
    if others := [file for file in files if get_suffix(file) in OTHERS and get_suffix(file) not in beside]:
        raise UnireError(
            f"corpus file {str(others[0])!r} is not plain text; write the texts in it to a file of their own, "
            "a document per line"
        )
    if next(read_documents(files), None) is None:
        raise no_text(files)


def no_text(files: Sequence[Path]) -> UnireError:
    """What to say of files that were read, and nothing found in them."""
    return UnireError(f"there is no text in {', '.join(repr(str(file)) for file in files)}")


RUN = 8
"""Words of a run that texts may have in common by chance once, but not twice."""


class OverlapFilter:
    """Texts that a model will be scored on, and must not have read: `text in held_out` if it holds part of one.

    That is, if they share two runs of eight words, in whatever case and punctuation; or, where the held-out text is
    too short for that, if they are the same.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._short: set[tuple[str, ...]] = set()
        for words in map(_plain_words, texts):
            if len(words) > RUN:
                self._runs.update(_runs(words))
            elif words:
                self._short.add(words)

    def __contains__(self, text: str) -> bool:
        words = _plain_words(text)
        return words in self._short or len(self._runs.intersection(_runs(words))) > 1


def _plain_words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.casefold()))


def _runs(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)


LINES = {"unire": native.from_json, "dygie": dygie.from_json}
"""Formats with a document a line, which is made into one where it is needed; others are read first."""
FIRST = 512
"""Documents from the start of a corpus among which a few are looked for."""


class UnlabelledCorpus:
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
    def read(cls, files: Sequence[str | Path], limit: int | None = None) -> UnlabelledCorpus:
        """Those of some files.

        Args:
            files: Plain text, a document per line; or documents in one of our formats (`.json`, `.jsonl`, `.ndjson`).
                `.gz`, `.xz` and `.bz2` are unpacked.
            limit: Take so many documents from the start of the files; `None` for all.
        """
        paths = [Path(file) for file in files]
        check_text_files(paths, beside=ANNOTATED)
        return cls(itertools.islice(_items(paths), limit))

    def some(self, sentences: int, held_out: OverlapFilter) -> list[Document]:
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
        if get_suffix(file) not in ANNOTATED:
            yield from ((None, line) for line in read_documents([file]))
        elif (name := formats.guess(file)) in LINES:
            yield from ((name, line) for line in read_documents([file]))
        else:
            for document in formats.read(file, name):
                yield from (("unire", json.dumps(item)) for item in native.to_json(document))


SHORTEST = 40
"""Words of a text that can be judged."""


def select_similar(corpus: Sequence[str], like: Iterable[str], n: int) -> list[str]:
    """The `n` texts of `corpus` that read most like the texts `like`, in the order of the corpus.

    A text is the nearer, the likelier its words are on average in `like` than in the corpus. Texts too short to be
    judged come last. Words are of the letters a to z.
    """
    near = Counter(word for text in like for word in _words(text))
    if not near:
        raise UnireError("there are no words of the letters a to z in the texts that others are to be like")
    far = Counter(word for text in corpus for word in _words(text))
    n_near, n_far = near.total(), far.total()
    # a tenth of the words of `like` are taken to be spread as in the corpus, so that none of them is impossible there
    ratio = {word: math.log((near[word] * n_far / (n_near * count) + 0.1) / 1.1) for word, count in far.items()}

    def likeness(place: int) -> float:
        words = _words(corpus[place])
        return sum(ratio[word] for word in words) / len(words) if len(words) >= SHORTEST else -math.inf

    return [corpus[place] for place in sorted(heapq.nlargest(n, range(len(corpus)), key=likeness))]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())
