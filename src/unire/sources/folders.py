"""Which files hold texts, by their endings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from unire.errors import UnireError
from unire.files import get_suffix
from unire.sources.csv import TABLES

__all__ = ["JSON_LINES", "KNOWN", "PARQUET", "files_of", "takes"]

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)
FOLDER = (".txt", ".text", ".md", *JSON_LINES)
"""The endings of files that are taken from a folder, also where `.gz`, `.xz` or `.bz2` follows."""
ARCHIVES = (".tar", ".tgz", ".tbz2", ".txz", ".zip")
KNOWN = (*FOLDER, *PARQUET, *TABLES, *ARCHIVES, ".json")
"""Endings by which something is known for the name of a file."""


def files_of(
    path: Path, *, tables: bool = False, parquet: bool = True, left_out: Counter[str] | None = None
) -> list[Path]:
    """The file, or the files of a folder and of those inside it that can hold text, in alphabetical order.

    Args:
        path: The file or folder.
        tables: Whether tables are taken from a folder, too: one of texts often has a table about them beside them.
        parquet: Whether Parquet is.
        left_out: Counts, when given, the other files of a folder by their endings, but for hidden ones.
    """
    if not path.is_dir():
        if get_suffix(path) in ARCHIVES or path.suffix.lower() in ARCHIVES:
            raise UnireError(f"{path} is an archive of files; unpack it first")
        return [path]
    plain = [p for p in path.rglob("*") if _is_plain(p, path)]
    found = sorted(p for p in plain if takes(p, tables=tables, parquet=parquet))
    if left_out is not None:
        left_out.update(get_suffix(p) for p in set(plain).difference(found))
    if not found:
        others = (*(() if tables else TABLES), *(() if parquet else PARQUET))
        more = f", and {' and '.join(others)} are read with --field alone" if others else ""
        endings = ", ".join(_taken(tables=tables, parquet=parquet))
        raise UnireError(f"folder {path} holds no text: no file in it ends in {endings}{more}")
    return found


def takes(path: Path, *, tables: bool = False, parquet: bool = True) -> bool:
    """Whether a file of that name is taken from a folder; Parquet packs by itself."""
    if path.suffix.lower() in PARQUET:
        return parquet
    return get_suffix(path) in _taken(tables=tables, parquet=False)


def _taken(*, tables: bool, parquet: bool) -> tuple[str, ...]:
    """The endings of files that are taken from a folder."""
    return (*FOLDER, *(TABLES if tables else ()), *(PARQUET if parquet else ()))


def _is_plain(path: Path, folder: Path) -> bool:
    """Whether it is a file, and neither it nor a folder on the way to it is hidden."""
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
