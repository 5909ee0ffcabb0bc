"""The files that text sources read: single files, the text files of folders, and annotated folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from unire import formats
from unire.errors import UnireError
from unire.files import explain_read_errors, get_suffix, list_files
from unire.sources.csv import CSV_DIALECTS

__all__ = ["JSON_LINES_SUFFIXES", "KNOWN_SUFFIXES", "PARQUET_SUFFIXES", "FileListing", "has_suffix", "select_suffixes"]

MAX_LISTED_SUFFIXES = 5
"""Suffixes of skipped files that a note lists."""
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
PARQUET_SUFFIXES = (".parquet",)
PLAIN_SUFFIXES = (".txt", ".text", ".md")
TEXT_SUFFIXES = (*PLAIN_SUFFIXES, *JSON_LINES_SUFFIXES)
"""Suffixes of text files in a folder, also with `.gz`, `.xz` or `.bz2` after them."""
ARCHIVE_SUFFIXES = (".tar", ".tgz", ".tbz2", ".txz", ".zip")
KNOWN_SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES, *CSV_DIALECTS, *ARCHIVE_SUFFIXES, ".json")
"""Suffixes that show that an argument is the name of a file."""


def select_suffixes(source_format: str | None, *, tables: bool, lines: bool) -> tuple[str, ...]:
    """Suffixes of the files that are read from folders.

    Args:
        source_format: The format of annotated files, if it is given.
        tables: Whether CSV and TSV are read, which needs the name of a column.
        lines: Whether lines are read. Parquet has none.
    """
    if source_format:
        suffix = formats.get_format(source_format).suffix
        json_suffixes = (".json", *JSON_LINES_SUFFIXES)
        return json_suffixes if suffix in json_suffixes else (suffix, ".txt")
    return (*TEXT_SUFFIXES, *(CSV_DIALECTS if tables else ()), *(() if lines else PARQUET_SUFFIXES))


@dataclass
class FileListing:
    """The files of sources, and what was left out."""

    files: dict[str, list[Path]] = field(default_factory=dict)
    """The files of every source. A folder whose format is a folder, such as brat's, is one entry."""
    skipped: Counter[str] = field(default_factory=Counter)
    """The number of other files in folders by suffix, without hidden ones."""
    errors: list[UnireError] = field(default_factory=list)
    """Folders that cannot be read."""

    def add(self, source: str, suffixes: tuple[str, ...], source_format: str | None) -> None:
        """Add a file, or the files below a folder that have one of these suffixes, in alphabetical order."""
        path = Path(source)
        with explain_read_errors(path):
            is_folder = path.is_dir()
        if not is_folder:
            if get_suffix(path) in ARCHIVE_SUFFIXES or path.suffix.lower() in ARCHIVE_SUFFIXES:
                raise UnireError(f"{path} is an archive of files; unpack it first")
            self.files[source] = [path]
            return
        if source_format and formats.get_format(source_format).folder:
            self.files[source] = [path]
            return
        errors: list[UnireError] = []
        found = list_files(path, errors.append)
        self.files[source] = files = [file for file in found if has_suffix(file, suffixes)]
        self.skipped.update(get_suffix(file) for file in set(found).difference(files))
        self.errors += errors
        if not files and not errors:
            others = [suffix for suffix in (*CSV_DIALECTS, *PARQUET_SUFFIXES) if suffix not in suffixes]
            by_field = f"; {' and '.join(others)} are read only with field=..." if others else ""
            more = "" if source_format else by_field
            raise UnireError(f"folder {path} has no readable text files ({', '.join(suffixes)}){more}")

    @property
    def notes(self) -> Counter[str]:
        """The number of files in folders that are skipped."""
        suffixes = [suffix or "no ending" for suffix, _ in self.skipped.most_common(MAX_LISTED_SUFFIXES)]
        shown = ", ".join(suffixes + ["…"] * (len(self.skipped) > MAX_LISTED_SUFFIXES))
        return Counter({f"file of another kind left out ({shown})": self.skipped.total()} if self.skipped else {})

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(status.st_size for status in self._stats().values())

    def changed_since(self, path: Path) -> Path | None:
        """A file that is newer than `path`, or `None`."""
        then = path.stat().st_mtime_ns
        return next((file for file, status in self._stats().items() if status.st_mtime_ns > then), None)

    def _stats(self) -> Mapping[Path, os.stat_result]:
        return {file: status for path in chain(*self.files.values()) for file, status in _iter_stats(path)}


def _iter_stats(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The status of a file, or of the files in a folder. The reader will report those that have none."""
    for file in list_files(path, lambda error: None) if path.is_dir() else [path]:
        try:
            yield file, file.stat()
        except OSError:
            continue


def has_suffix(path: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a file has one of these suffixes. Parquet files are compressed inside, so no other suffix may follow."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return path.suffix.lower() in suffixes
    return get_suffix(path) in suffixes and get_suffix(path) not in PARQUET_SUFFIXES
