"""Sources of raw text: files (compressed or not), folders, lines, JSON lines, CSV, TSV, Parquet, standard input.

Everything is a stream: a line, a row or a file is read when its text is needed. Text is UTF-8. Errors are one sentence
that names the file and the line.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from unire import formats
from unire.documents import Document
from unire.errors import OnError, UnireError, skip_errors
from unire.files import decompress, explain_read_errors, get_suffix, is_compressed, is_stream, open_binary
from unire.formats.base import raise_error
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.output_files import check_output_file
from unire.segmentation import segment
from unire.sources.base import RowRange, SourceText
from unire.sources.csv import CSV_DIALECTS, iter_rows, iter_table, split_table
from unire.sources.lines import (
    iter_json_lines,
    iter_lines,
    iter_raw_lines,
    iter_tokenized,
    iter_whole_file,
    split_lines,
)
from unire.sources.listing import (
    JSON_LINES_SUFFIXES,
    KNOWN_SUFFIXES,
    PARQUET_SUFFIXES,
    FileListing,
    has_suffix,
    select_suffixes,
)
from unire.sources.parquet import iter_parquet, split_parquet

__all__ = [
    "JSON_LINES_SUFFIXES",
    "PARQUET_SUFFIXES",
    "SourceShard",
    "TextItem",
    "TextSources",
]

STANDARD_INPUT = "standard input"
MAX_NAME_WORDS = 3
"""Words in the name of a file. A text that ends like a file name usually has more."""

SourceKind = Literal["annotated", "parquet", "words", "lines", "json lines", "table", "rows", "whole"]
"""The layout of a file. `rows` are JSON lines or a table; the first line shows which."""


@dataclass(frozen=True)
class TextItem:
    """One text or tokenized document."""

    id: str
    content: str | Document
    position: float
    """The number of bytes of all inputs that have been read, including this item."""
    number: int = 1
    """The number of its line, row or document in the file, from 1."""

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else self.content.text

    def document(self, line_breaks: bool | None = None) -> Document:
        """Split a text into sentences, where `line_breaks` is that of `segment`, and words."""
        if isinstance(self.content, str):
            return segment(self.content, id=self.id, line_breaks=line_breaks)
        return self.content


class SourceShard(NamedTuple):
    """A file, or a range of its lines or rows, that one process can read."""

    path: str
    rows: RowRange | None
    size: int
    """The size of the text in bytes, at least approximately."""


@dataclass(frozen=True)
class TextSources:
    """Files, folders, texts or standard input, and how to read them."""

    sources: Sequence[str] = ()
    """Paths, `-` for standard input, or texts. A text is empty, or contains a space and does not look like a file name.
    Without any source, standard input is read."""
    lines: bool = False
    """Every line is a document."""
    field: str | None = None
    """The field or column of the text in JSON lines, Parquet, CSV or TSV. `text` by default."""
    words: bool = False
    """Words are already split: each line is a sentence, spaces separate words, an empty line separates documents."""
    source_format: str | None = None
    """The format of annotated documents. Their words are used and their annotation is ignored."""
    limits: ReadLimits = DEFAULT_LIMITS
    """The largest document, record and unpacked size that are accepted."""
    line_breaks: bool | None = None
    """Whether every line end of a text ends a sentence. By default only those of titles and items do; see `segment`."""

    def __post_init__(self) -> None:
        layouts = {
            "lines=True": self.lines,
            "field=...": self.field is not None,
            "words=True": self.words,
            "source_format=...": self.source_format,
        }
        used = [argument for argument, is_used in layouts.items() if is_used]
        if len(used) > 1:
            raise UnireError(f"{' and '.join(used)} cannot be combined; pass one of them")
        if self.source_format and self._reads_standard_input:
            raise UnireError("source_format=... cannot read standard input; pass /dev/stdin as the input file")
        for source in self.sources:
            if source != "-" and not _exists(source):
                self._check_text(source)

    def _check_text(self, source: str) -> None:
        """Refuse a text that looks like the name of a missing file."""
        missing = f"there is no file or folder {source!r}"
        if self.field is not None or self.source_format:
            raise UnireError(
                f"{missing}; {'source_format' if self.source_format else 'field'}=... needs an existing file"
            )
        if source and not any(map(str.isspace, source)):
            raise UnireError(f"{missing}; to pass a text on the command line, give at least two words")
        if _looks_like_a_path(source):
            raise UnireError(f"{missing}; if it is a text, pipe it to standard input")

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files of every source that is a file or a folder. A folder in a format such as brat's is one of them."""
        return self.listing.files

    @property
    def notes(self) -> Counter[str]:
        """The number of files in folders that are skipped, without hidden ones."""
        return self.listing.notes

    @cached_property
    def listing(self) -> FileListing:
        """The files of every source, and what was left out."""
        listing = FileListing()
        for source in self.sources:
            if source != "-" and _exists(source):
                listing.add(source, self._folder_suffixes, self.source_format)
        for source in listing.files if self.lines or self.words else ():
            if Path(source).suffix.lower() in PARQUET_SUFFIXES and not Path(source).is_dir():
                layout = "lines=True" if self.lines else "words=True"
                raise UnireError(f"{source} is a table; pass field=... with the name of a column instead of {layout}")
        return listing

    @property
    def _folder_suffixes(self) -> tuple[str, ...]:
        return select_suffixes(self.source_format, tables=self.field is not None, lines=self.lines or self.words)

    @property
    def size(self) -> int | None:
        """The size of all inputs in bytes, or `None` if it is not known."""
        if self._reads_standard_input:
            return None
        return self.listing.size + sum(_count_bytes(source) for source in self.sources if source not in self.files)

    def to_dict(self) -> dict[str, object]:
        """What determines the texts, as plain data. Limits do not: a stopped run may continue with higher ones."""
        return {name: value for name, value in asdict(self).items() if name != "limits"}

    def check_output(self, out: Path, *, folder: bool = False) -> None:
        """Refuse an output that is also an input, or that the next run would read because it is in an input folder.

        Args:
            out: The output.
            folder: Whether the output is a folder, whose files may have any suffix.
        """
        standard_input = ["/dev/stdin"] if self._reads_standard_input else []
        is_readable = folder or has_suffix(out, self._folder_suffixes)
        folders = [source for source in self.files if Path(source).is_dir()] if is_readable else []
        check_output_file(out, chain(standard_input, *self.files.values()), folders)

    @property
    def _reads_standard_input(self) -> bool:
        return not self.sources or "-" in self.sources

    @property
    def has_words(self) -> bool:
        """Whether words are already split, at least in the first file of a source."""
        return self.words or any(self._is_annotated(file) for files in self.files.values() for file in files[:1])

    def __iter__(self) -> Iterator[TextItem]:
        return self.items()

    def items(self, on_error: OnError | None = None) -> Iterator[TextItem]:
        """All texts and documents of all sources.

        Args:
            on_error: Called for every line, row, file or folder that cannot be read, which is then skipped. Without it,
                the first of them raises an error.
        """
        for error in self.listing.errors:
            with skip_errors(on_error):
                raise error
        base = 0.0
        n_texts = sum(source != "-" and source not in self.files for source in self.sources)
        names = (f"text-{number}" if n_texts > 1 or self.lines else "" for number in count(1))
        for source in self.sources or ("-",):
            if source == "-":
                with skip_errors(on_error):
                    yield from self._iter_stream(
                        _open_standard_input(), STANDARD_INPUT, base, self._find_kind(), None, on_error
                    )
            elif source in self.files:
                for path in self.files[source]:
                    with skip_errors(on_error):
                        yield from self._iter_file(path, base, None, on_error)
                    with suppress(OSError):  # the reader has reported it
                        base += path.stat().st_size
            else:
                yield from self._iter_argument(source, names, base)
                base += _count_bytes(source)

    def split(self, shard: SourceShard, size: int) -> Iterator[SourceShard]:
        """Split a shard into shards of about `size` bytes. Files that cannot be split stay one shard."""
        path = Path(shard.path)
        kind = self._find_kind(path)
        if kind == "parquet":
            ranges = split_parquet(path, self.field or "text", size, shard.rows)
            yield from (SourceShard(shard.path, rows, rows.size) for rows in ranges)
        elif kind in ("lines", "json lines", "table") and not is_compressed(path):
            with explain_read_errors(path), path.open("rb") as file:
                if kind == "table":
                    name, field = _to_name(path), self.field or "text"
                    ranges = split_table(file, name, field, size, shard.rows, self.limits)
                else:
                    ranges = split_lines(file, _to_name(path), size, shard.rows)
                yield from (SourceShard(shard.path, rows, rows.size) for rows in ranges)
        else:
            yield shard

    def read(self, shard: SourceShard) -> Iterator[TextItem]:
        """The items of one shard."""
        return self._iter_file(Path(shard.path), 0.0, shard.rows)

    def _iter_argument(self, text: str, names: Iterator[str], base: float) -> Iterator[TextItem]:
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raise UnireError("the text is not UTF-8; give it in a file, or set the terminal to UTF-8") from None
        file = io.BytesIO(raw)
        if self.words:
            yield from self._iter_words(file, next(names) or "words", base)
        elif self.lines:
            texts = iter_lines(file, "text", limits=self.limits)
            yield from (replace(item, id=next(names)) for item in _to_items(texts, base))
        else:
            self.limits.check_document(len(text), "the text")
            yield TextItem(next(names), text, base + len(raw))

    def _iter_file(
        self, path: Path, base: float, rows: RowRange | None = None, on_error: OnError | None = None
    ) -> Iterator[TextItem]:
        kind = self._find_kind(path)
        if kind == "annotated":
            with suppress(formats.NothingReadError):
                documents = formats.read(path, self.source_format, on_error=on_error or raise_error, limits=self.limits)
                for number, document in enumerate(documents, 1):
                    yield TextItem(document.id, document, base, number)
        elif kind == "parquet":
            yield from _to_items(iter_parquet(path, self.field or "text", rows, on_error, self.limits), base)
        else:
            with (
                explain_read_errors(path),
                path.open("rb") as raw_file,
                decompress(raw_file, path, self.limits) as file,
            ):
                for item in self._iter_stream(file, _to_name(path), base, kind, rows, on_error):
                    yield item if file is raw_file else replace(item, position=base + raw_file.tell())

    def _iter_stream(
        self,
        file: BinaryIO,
        name: str,
        base: float,
        kind: SourceKind,
        rows: RowRange | None,
        on_error: OnError | None,
    ) -> Iterator[TextItem]:
        field, limits = self.field or "text", self.limits
        if kind == "words":
            yield from self._iter_words(file, name, base)
        elif kind == "lines":
            yield from _to_items(iter_lines(file, name, rows, on_error, limits), base)
        elif kind == "json lines":
            lines = iter_raw_lines(file, name, rows, on_error, limits)
            yield from _to_items(iter_json_lines(lines, name, field, on_error, limits), base)
        elif kind == "table":
            yield from _to_items(iter_table(file, name, field, rows, on_error, limits), base)
        elif kind == "rows":
            yield from _to_items(iter_rows(file, name, field, on_error, limits), base)
        else:
            for text in iter_whole_file(file, name, limits):
                if name == STANDARD_INPUT and (layout := _guess_layout(text.text.partition("\n")[0])):
                    raise UnireError(
                        f'{name} holds {layout}; name the field of the text, as with field="text", or take each line '
                        "as a text with lines=True"
                    )
                yield TextItem(text.id, text.text, base + text.position, text.number)

    def _iter_words(self, file: BinaryIO, name: str, base: float) -> Iterator[TextItem]:
        lines = iter_raw_lines(file, name, limits=self.limits)
        for number, document in enumerate(iter_tokenized(lines, name, self.limits), 1):
            yield TextItem(document.id, document, base, number)

    def _find_kind(self, path: Path | None = None) -> SourceKind:
        """The layout of a file, or of standard input."""
        suffix = get_suffix(path) if path else ""
        if path and self._is_annotated(path):
            return "annotated"
        if suffix in PARQUET_SUFFIXES:
            return "parquet"
        if self.words:
            return "words"
        if self.lines:
            return "lines"
        if suffix in CSV_DIALECTS:
            return "table"
        if self.field is not None and (path is None or is_stream(path) or str(path) == "/dev/stdin"):
            return "rows"
        return "json lines" if self.field is not None or suffix in JSON_LINES_SUFFIXES else "whole"

    def _is_annotated(self, path: Path) -> bool:
        """Whether the file holds documents in a known format: it is `.json`, or its first object has `sentences`."""
        if self.source_format is not None:
            return True
        suffix = get_suffix(path)
        if self.lines or self.words or self.field is not None or suffix not in (".json", *JSON_LINES_SUFFIXES):
            return False
        return suffix == ".json" or "sentences" in _read_first_object(path, self.limits)


def _open_standard_input() -> BinaryIO:
    """Open a second reader. At exit, Python would wait for a thread that still reads `sys.stdin`, and crash."""
    if sys.stdin is None:
        raise UnireError("standard input is closed; pipe text to it, or give a file")
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    except OSError:  # not a file, as in tests
        return sys.stdin.buffer


def _to_name(path: Path) -> str:
    """The file's name in ids, also if it is not valid Unicode."""
    return os.fsencode(path).decode(errors="replace")


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _exists(source: str) -> bool:
    try:
        return bool(source) and Path(source).exists()  # the empty path is the current folder
    except PermissionError:  # reading it will report the folder's permissions
        return True
    except (OSError, ValueError):  # a text can be too long for a file name, or contain forbidden characters
        return False


def _looks_like_a_path(source: str) -> bool:
    """Whether a text ends like the name of a file or folder, and is short or starts with an existing folder."""
    ends_like_path = source.endswith("/") or get_suffix(source) in KNOWN_SUFFIXES
    if not ends_like_path or "\n" in source or "://" in source:
        return False
    parent = str(Path(source).parent)
    return len(source.split()) <= MAX_NAME_WORDS or (parent != "." and _exists(parent))


def _read_first_object(path: Path, limits: ReadLimits) -> dict[str, object]:
    """The first line of a file as JSON, if it is an object."""
    try:
        with explain_read_errors(path), open_binary(path, limits) as file:
            lines = iter_raw_lines(file, str(path), limits=limits)
            item = json.loads(next((raw for _, raw, _ in lines if raw.strip()), b"{}"))
    except (UnireError, ValueError, RecursionError):
        return {}  # the reader of the file will report the error
    return item if isinstance(item, dict) else {}


def _guess_layout(line: str) -> str | None:
    """Whether the first line of a text shows that it is JSON lines or a table."""
    try:
        return "JSON lines" if isinstance(json.loads(line), dict) else None
    except (ValueError, RecursionError):
        names = [name.strip('"') for name in re.split("[,;\t]", line.rstrip())]
        return "rows of a table" if "text" in names and len(names) > 1 else None


def _to_items(texts: Iterator[SourceText], base: float) -> Iterator[TextItem]:
    for text in texts:
        yield TextItem(text.id, text.text, base + text.position, text.number)
