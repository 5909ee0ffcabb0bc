"""Unlabelled corpora: documents that stay undecoded until they are needed, and a filter for text of dev and test."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.files import explain_read_errors, get_suffix, open_binary
from unire.formats import dygie, native
from unire.limits import iter_lines
from unire.segmentation import segment
from unire.sources import JSON_LINES_SUFFIXES, PARQUET_SUFFIXES
from unire.sources.csv import CSV_DIALECTS

__all__ = ["ANNOTATED", "OverlapFilter", "UnlabelledCorpus", "check_text_files", "no_text", "read_texts"]

ANNOTATED = (".json", *JSON_LINES_SUFFIXES)
"""File suffixes of documents in one of our formats."""
NOT_PLAIN_TEXT = (*ANNOTATED, *CSV_DIALECTS, *PARQUET_SUFFIXES)
"""File suffixes whose lines are not plain text."""


def read_texts(files: Iterable[Path]) -> Iterator[str]:
    """The non-empty lines of UTF-8 text files. `.gz`, `.xz` and `.bz2` are decompressed."""
    for file in files:
        name = f"corpus file {str(file)!r}"
        with explain_read_errors(name), open_binary(file) as opened:
            for number, line, _ in iter_lines(opened, name):
                try:
                    text = line.decode().strip()
                except UnicodeDecodeError:
                    raise UnireError(f"{name}, line {number}: not UTF-8 text") from None
                if text:
                    yield text


def check_text_files(files: Sequence[Path], allowed: Collection[str] = ()) -> None:
    """Check that corpus files exist and hold text, before minutes of work are spent.

    It reads only up to the first non-empty line.

    Args:
        files: The corpus.
        allowed: Suffixes of files that are accepted although they are not plain text.
    """
    if not files:
        raise UnireError("no corpus; give one or more text files")
    if missing := [file for file in files if not file.is_file()]:
        raise UnireError(f"there is no corpus file {str(missing[0])!r}")
    if others := [file for file in files if get_suffix(file) in NOT_PLAIN_TEXT and get_suffix(file) not in allowed]:
        raise UnireError(
            f"corpus file {str(others[0])!r} is not plain text; write the texts to a .txt file, one document per line"
        )
    if next(read_texts(files), None) is None:
        raise no_text(files)


def no_text(files: Sequence[Path]) -> UnireError:
    """The error for files without text."""
    names = ", ".join(repr(str(file)) for file in files)
    return UnireError(f"{names} contain{'s' * (len(files) == 1)} no text; check the files")


NGRAM_WORDS = 8
"""Words of an n-gram that two texts may share once by chance, but not twice."""


class OverlapFilter:
    """Decontamination: `text in overlap_filter` if the text overlaps with an evaluation text.

    Two texts overlap if they share two n-grams of eight words, ignoring case and punctuation. A shorter evaluation text
    must be equal.

    Args:
        texts: The evaluation texts, which a model must not be trained on.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._ngrams: set[tuple[str, ...]] = set()
        self._short: set[tuple[str, ...]] = set()
        for words in map(_normalize, texts):
            if len(words) > NGRAM_WORDS:
                self._ngrams.update(_iter_ngrams(words))
            elif words:
                self._short.add(words)

    def __contains__(self, text: str) -> bool:
        words = _normalize(text)
        return words in self._short or len(self._ngrams.intersection(_iter_ngrams(words))) > 1


def _normalize(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.casefold()))


def _iter_ngrams(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(NGRAM_WORDS)), strict=False)


PARSERS = {"unire": native.from_json, "dygie": dygie.from_json}
"""Formats with one document per line. A line is parsed when it is needed; other formats are read at once."""
MAX_SAMPLED_DOCUMENTS = 512
"""Documents from the start of a corpus that `sample` looks at."""


class UnlabelledCorpus:
    """The documents of a corpus: lines of text, and lines of JSON with the name of their format.

    Annotation in the files is ignored. All lines are kept in one bytes object, so that forked workers share its memory:
    reading one of many Python objects would change its reference count and copy its page.

    Args:
        items: Pairs of format name and line. The format of plain text is `None`.
    """

    def __init__(self, items: Iterable[tuple[str | None, str]]) -> None:
        pairs = [(name, line.encode()) for name, line in items]
        self._formats = [name for name, _ in pairs]
        self._lines = b"".join(line for _, line in pairs)
        self._bounds = np.cumsum([0, *(len(line) for _, line in pairs)])

    @classmethod
    def read(cls, files: Sequence[str | Path], limit: int | None = None) -> UnlabelledCorpus:
        """Read corpus files.

        Args:
            files: Plain text, one document per line, or documents in one of our formats (`.json`, `.jsonl`, `.ndjson`).
                `.gz`, `.xz` and `.bz2` are decompressed.
            limit: Read only this many documents, from the start. `None` reads all.
        """
        paths = [Path(file) for file in files]
        check_text_files(paths, allowed=ANNOTATED)
        return cls(itertools.islice(_iter_items(paths), limit))

    def sample(self, max_sentences: int, overlap_filter: OverlapFilter) -> list[Document]:
        """Some of the first documents, with at most `max_sentences` sentences in total."""
        documents: list[Document] = []
        for document in itertools.islice(self, MAX_SAMPLED_DOCUMENTS):
            if document.text not in overlap_filter and len(document.sentences) <= max_sentences:
                documents.append(document)
                max_sentences -= len(document.sentences)
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
            return PARSERS[name](json.loads(line), 0)
        except ValueError as error:
            raise UnireError(f"document {position + 1} of the corpus: not valid JSON: {error}") from None
        except UnireError as error:
            raise UnireError(f"document {position + 1} of the corpus: {error}") from None


def _iter_items(files: Sequence[Path]) -> Iterator[tuple[str | None, str]]:
    for file in files:
        if get_suffix(file) not in ANNOTATED:
            yield from ((None, line) for line in read_texts([file]))
        elif (name := formats.guess(file)) in PARSERS:
            yield from ((name, line) for line in read_texts([file]))
        else:
            for document in formats.read(file, name):
                yield from (("unire", json.dumps(item)) for item in native.to_json(document))
