"""What `unire extract` is given: texts to segment, or documents whose words are already split."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from unire import formats, sources
from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.files import (
    check_output_file,
    decompress,
    explain_read_errors,
    get_suffix,
    is_compressed,
    is_stream,
    open_binary,
)
from unire.formats import extraction as words_format
from unire.formats.base import raise_error
from unire.segmentation import segment
from unire.sources.text import Part, skipping

__all__ = ["SourceShard", "TextItem", "TextSources"]

STANDARD_INPUT = "standard input"
KINDS = 5
"""Endings of files that are named where such files are left out."""

NAME_WORDS = 3
"""Words that the name of a file may have; a text that ends like one mostly has more."""

SourceKind = Literal["annotated", "parquet", "words", "lines", "json lines", "table", "rows", "whole"]
"""How a file holds its documents; `rows` are JSON lines or a table, whichever the first of them shows."""


@dataclass(frozen=True)
class TextItem:
    """One document to be."""

    id: str
    content: str | Document
    position: float
    """How much of all inputs has been read with it, in bytes."""
    number: int = 1
    """The line or row of its file, or which document of it, from 1."""

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else self.content.text

    def document(self) -> Document:
        return segment(self.content, id=self.id) if isinstance(self.content, str) else self.content


class SourceShard(NamedTuple):
    """A file, or some of its lines or rows, that can be read by itself."""

    path: str
    part: Part | None
    size: int
    """In bytes of text, or about that."""


@dataclass(frozen=True)
class TextSources:
    """Files, folders, texts or standard input, and how they are to be read."""

    sources: Sequence[str] = ()
    """Each a path, `-` for standard input, or a text itself: one that is empty, or has a space in it and does not look
    like a file's name. None: standard input."""
    lines: bool = False
    """A document for every line."""
    field: str | None = None
    """Where in JSON lines, Parquet, CSV or TSV the text is; `text` when left out."""
    words: bool = False
    """Words already split: a sentence a line, words between spaces, an empty line between documents."""
    format: str | None = None
    """Annotated documents in this format; their words are taken and their annotation is not looked at."""

    def __post_init__(self) -> None:
        ways = {"--lines": self.lines, "--field": self.field is not None, "--words": self.words, "--from": self.format}
        given = [name for name, way in ways.items() if way]
        if len(given) > 1:
            raise UnireError(f"{' and '.join(given)} are different ways to read the input; give one of them")
        if self.format and self._reads_standard_input:
            raise UnireError("--from reads files; standard input is one under the name /dev/stdin")
        for source in self.sources:
            if source != "-" and not _exists(source):
                self._check_text(source)

    def _check_text(self, source: str) -> None:
        """Refuse what is no text but the name of a file that is not there."""
        missing = f"there is no file or folder {source!r}"
        if self.field is not None or self.format:
            raise UnireError(f"{missing}, and {'--from' if self.format else '--field'} is not for texts")
        if source and not any(map(str.isspace, source)):
            raise UnireError(f"{missing}; to pass a text on the command line, give at least two words")
        if _looks_like_a_path(source):
            raise UnireError(f"{missing}; if it is a text, pipe it into standard input")

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files of those inputs that are a file or a folder."""
        return self._found[0]

    @property
    def notes(self) -> Counter[str]:
        """How many files of folders are not read, hidden ones aside."""
        endings = self._found[1]
        kinds = [kind or "no ending" for kind, _ in endings.most_common(KINDS)]
        shown = ", ".join(kinds + ["…"] * (len(endings) > KINDS))
        return Counter({f"file of another kind left out ({shown})": endings.total()} if endings else {})

    @cached_property
    def _found(self) -> tuple[dict[str, list[Path]], Counter[str]]:
        """The files, and those that folders have besides, by their endings."""
        left_out: Counter[str] = Counter()
        files = {
            source: sources.files_of(Path(source), **self._taken, left_out=left_out)
            for source in self.sources
            if source != "-" and _exists(source)
        }
        for source in files if self.lines or self.words else ():
            if Path(source).suffix.lower() in sources.PARQUET and not Path(source).is_dir():
                flag = "--lines" if self.lines else "--words"
                raise UnireError(f"{source} has rows and not lines; leave out {flag}, and name a column with --field")
        return files, left_out

    @property
    def _taken(self) -> dict[str, bool]:
        """Which files are taken from folders."""
        return {"tables": self.field is not None, "parquet": not (self.lines or self.words)}

    @property
    def size(self) -> int | None:
        """In bytes; `None` where that is not known."""
        if self._reads_standard_input:
            return None
        in_files = sum(path.stat().st_size for files in self.files.values() for path in files)
        return in_files + sum(_size(source) for source in self.sources if source not in self.files)

    def check_output(self, out: Path, *, folder: bool = False) -> None:
        """Refuse an output that is read, too: by this run, or by the next, which would find it in a folder.

        Args:
            out: What is to be written.
            folder: Whether that is a folder, whose files may be called anything.
        """
        standard_input = ["/dev/stdin"] if self._reads_standard_input else []
        found = folder or sources.takes(out, **self._taken)
        folders = [source for source in self.files if Path(source).is_dir()] if found else []
        check_output_file(out, chain(standard_input, *self.files.values()), folders)

    def changed_since(self, path: Path) -> Path | None:
        """A file of the input that is newer than this one, if there is any."""
        then = path.stat().st_mtime_ns
        return next((file for files in self.files.values() for file in files if file.stat().st_mtime_ns > then), None)

    @property
    def _reads_standard_input(self) -> bool:
        return not self.sources or "-" in self.sources

    @property
    def has_words(self) -> bool:
        """Whether words are already split, at least in the first file of each input."""
        return self.words or any(self._is_annotated(files[0]) for files in self.files.values())

    def __iter__(self) -> Iterator[TextItem]:
        return self.items()

    def items(self, on_error: OnError | None = None) -> Iterator[TextItem]:
        """All documents to be.

        Args:
            on_error: Told of each line, row or file that cannot be read, which is passed over then; when left out, the
                first of them is refused.
        """
        base = 0.0
        texts_given = sum(source != "-" and source not in self.files for source in self.sources)
        names = (f"text-{number}" if texts_given > 1 or self.lines else "" for number in count(1))
        for source in self.sources or ("-",):
            if source == "-":
                with skipping(on_error):
                    yield from self._of_stream(_standard_input(), STANDARD_INPUT, base, self._way(), None, on_error)
            elif source in self.files:
                for path in self.files[source]:
                    with skipping(on_error):
                        yield from self._of_file(path, base, None, on_error)
                    base += path.stat().st_size
            else:
                yield from self._of_argument(source, names, base)
                base += _size(source)

    def cut(self, piece: SourceShard, size: int) -> Iterator[SourceShard]:
        """A piece in smaller ones of about `size` bytes; what cannot be cut stays one, however long."""
        path = Path(piece.path)
        way = self._way(path)
        if way == "parquet":
            parts = sources.row_parts(path, self.field or "text", size, piece.part)
            yield from (SourceShard(piece.path, part, part.size) for part in parts)
        elif way in ("lines", "json lines", "table") and not is_compressed(path):
            with explain_read_errors(path), path.open("rb") as file:
                if way == "table":
                    parts = sources.table_parts(file, _name(path), self.field or "text", size, piece.part)
                else:
                    parts = sources.line_parts(file, _name(path), size, piece.part)
                yield from (SourceShard(piece.path, part, part.size) for part in parts)
        else:
            yield piece

    def read(self, piece: SourceShard) -> Iterator[TextItem]:
        """What a piece holds: its items are those that the inputs have there."""
        return self._of_file(Path(piece.path), 0.0, piece.part)

    def _of_argument(self, text: str, names: Iterator[str], base: float) -> Iterator[TextItem]:
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raise UnireError("the text is not UTF-8; give it in a file, or set the terminal to UTF-8") from None
        file = io.BytesIO(raw)
        if self.words:
            yield from _of_words(file, next(names) or "words", base)
        elif self.lines:
            yield from (replace(item, id=next(names)) for item in _placed(sources.from_lines(file, "text"), base))
        else:
            yield TextItem(next(names), text, base + len(raw))

    def _of_file(
        self, path: Path, base: float, part: Part | None = None, on_error: OnError | None = None
    ) -> Iterator[TextItem]:
        way = self._way(path)
        if way == "annotated":
            with suppress(formats.NothingReadError):
                for number, document in enumerate(formats.read(path, self.format, on_error=on_error or raise_error), 1):
                    yield TextItem(document.id, document, base, number)
        elif way == "parquet":
            yield from _placed(sources.from_parquet(path, self.field or "text", part, on_error), base)
        else:
            with explain_read_errors(path), path.open("rb") as packed, decompress(packed, path) as file:
                for item in self._of_stream(file, _name(path), base, way, part, on_error):
                    yield item if file is packed else replace(item, position=base + packed.tell())

    def _of_stream(
        self,
        file: BinaryIO,
        name: str,
        base: float,
        way: SourceKind,
        part: Part | None,
        on_error: OnError | None,
    ) -> Iterator[TextItem]:
        if way == "words":
            yield from _of_words(file, name, base)
        elif way == "lines":
            yield from _placed(sources.from_lines(file, name, part, on_error), base)
        elif way == "json lines":
            yield from _placed(sources.from_json_lines(file, name, self.field or "text", part, on_error), base)
        elif way == "table":
            yield from _placed(sources.from_table(file, name, self.field or "text", part, on_error), base)
        elif way == "rows":
            yield from _placed(sources.from_rows(file, name, self.field or "text", on_error), base)
        else:
            for text in sources.whole(file, name):
                if name == STANDARD_INPUT and (rows := _rows_by(text.text.partition("\n")[0])):
                    raise UnireError(
                        f"{name} holds {rows}; say where their text is, as with --field text, or take each line as it "
                        "stands with --lines"
                    )
                yield TextItem(text.id, text.text, base + text.position, text.number)

    def _way(self, path: Path | None = None) -> SourceKind:
        """How a file is read, or without one standard input."""
        suffix = get_suffix(path) if path else ""
        if path and self._is_annotated(path):
            return "annotated"
        if suffix in sources.PARQUET:
            return "parquet"
        if self.words:
            return "words"
        if self.lines:
            return "lines"
        if suffix in sources.TABLES:
            return "table"
        if self.field is not None and (path is None or is_stream(path) or str(path) == "/dev/stdin"):
            return "rows"
        return "json lines" if self.field is not None or suffix in sources.JSON_LINES else "whole"

    def _is_annotated(self, path: Path) -> bool:
        """Whether the file holds documents in a known format: its name ends in `.json`, or its words are split."""
        if self.format is not None:
            return True
        suffix = get_suffix(path)
        if self.lines or self.words or self.field is not None or suffix not in (".json", *sources.JSON_LINES):
            return False
        return suffix == ".json" or "sentences" in _first_object(path)


def _standard_input() -> BinaryIO:
    """A reader of its own: at its end, Python would wait for a thread that still waits for `sys.stdin`, and crash."""
    if sys.stdin is None:
        raise UnireError("standard input is closed; pipe text into it, or give a file")
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    except OSError:  # no file, as in tests
        return sys.stdin.buffer


def _name(path: Path) -> str:
    """What the file is called in ids, also where its name is no Unicode."""
    return os.fsencode(path).decode(errors="replace")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _exists(source: str) -> bool:
    try:
        return bool(source) and Path(source).exists()  # the path of an empty text would be this folder
    except (OSError, ValueError):  # a text can be too long for a name, or hold what no name may
        return False


def _looks_like_a_path(source: str) -> bool:
    """Whether it ends as the name of a file or folder does, and is short or begins with a folder that is there."""
    named = source.endswith("/") or get_suffix(source) in sources.KNOWN
    if not named or "\n" in source or "://" in source:
        return False
    parent = str(Path(source).parent)
    return len(source.split()) <= NAME_WORDS or (parent != "." and _exists(parent))


def _first_object(path: Path) -> dict[str, object]:
    """The first line of a file as JSON, if that is an object."""
    try:
        with explain_read_errors(path), open_binary(path) as file:
            item = json.loads(next(filter(bytes.strip, file), b"{}"))
    except (UnireError, ValueError, RecursionError):
        return {}  # whoever reads the file in earnest says what is wrong
    return item if isinstance(item, dict) else {}


def _rows_by(line: str) -> str | None:
    """What a text is rows of, if its first line gives it away."""
    try:
        return "JSON lines" if isinstance(json.loads(line), dict) else None
    except (ValueError, RecursionError):
        names = [name.strip('"') for name in re.split("[,;\t]", line.rstrip())]
        return "rows of a table" if "text" in names and len(names) > 1 else None


def _placed(found: Iterator[sources.Text], base: float) -> Iterator[TextItem]:
    for text in found:
        yield TextItem(text.id, text.text, base + text.position, text.number)


def _of_words(file: BinaryIO, name: str, base: float) -> Iterator[TextItem]:
    short = Path(name).name
    try:
        with explain_read_errors(name):
            documents = words_format.from_lines(codecs.iterdecode(file, "utf-8-sig"), short)
            for number, document in enumerate(documents, 1):
                yield TextItem(document.id, document, base, number)
    except UnicodeDecodeError:
        raise UnireError(f"{name} is not UTF-8; convert it first") from None
