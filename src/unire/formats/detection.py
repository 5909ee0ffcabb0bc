"""Detection of formats: by the first bytes of a file, or by the files of a folder."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

from unire.errors import UnireError
from unire.files import explain_read_errors, get_suffix, is_stream, list_files, open_binary
from unire.formats import arrow, json_utils
from unire.formats.base import explain_not_lines
from unire.limits import DEFAULT_LIMITS, ReadLimits

__all__ = ["guess"]

MAX_HEAD_BYTES = 1 << 20
"""Bytes of a JSON list that are read to guess its format."""
ZLIB_HEADERS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""The first bytes of spaCy's compressed files."""
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
"""Suffixes of files that must be JSON. If they are not, the error says what is wrong with them."""
CONLL04_ROW = re.compile(r"([^\t]*\t){2}[^\S\t]*\d+[^\S\t]*\t([^\t]*\t){2}")
"""The start of a line with the columns of CoNLL04, of which the third is a number and the sixth has the words."""
JSON_START = re.compile(rb"\s*(\{|\[\s*(\{|\]|$))")
"""The start of the first line of JSON files with another suffix."""
UNKNOWN_FORMAT = "not a format that unire knows; name the format, or convert the file first"


def guess(path: str | Path, limits: ReadLimits = DEFAULT_LIMITS) -> str:
    """Guess the format of a file by its first bytes, or of a folder by the files in it.

    >>> formats.guess("train.jsonl")  # doctest: +SKIP
    'dygie'

    Args:
        path: The file or folder.
        limits: As in `read`.

    Returns:
        A name in `FORMATS`.

    Raises:
        UnireError: The format is not known, or the path cannot be read.
    """
    path = Path(path)
    with explain_read_errors(path):
        if is_stream(path):
            raise UnireError(f"{path} can be read only once, so its format cannot be guessed; pass format=...")
        if path.is_dir():
            return _guess_folder(path)
        with open_binary(path, limits) as file:
            start = file.read(4)
    if start == b"PAR1":
        return "parquet"
    if start.startswith(ZLIB_HEADERS):
        return "spacy"
    return _guess_text(path, limits)


def _guess_folder(path: Path) -> str:
    if (path / arrow.DATASET_STATE).exists() or (path / "dataset_dict.json").exists():
        return "datasets"
    files = list_files(path, lambda error: None)  # the reader will report folders that cannot be read
    suffixes = {file.suffix for file in files}
    if ".ann" in suffixes:
        return "brat"
    if any(file.name.endswith(".apf.xml") for file in files):
        raise UnireError(f'{path} looks like ACE; pass format="ace04" or format="ace05"')
    if ".parquet" in suffixes:
        return "parquet"
    raise UnireError(f"{path}: {UNKNOWN_FORMAT}")


def _guess_text(path: Path, limits: ReadLimits) -> str:
    for number, line in json_utils.iter_lines(path, limits):
        if not line or line.isspace():
            continue
        try:
            if CONLL04_ROW.match(json_utils.decode(line)):
                return "conll04"
            if get_suffix(path) not in JSON_SUFFIXES and not JSON_START.match(line):
                raise UnireError(UNKNOWN_FORMAT)
            if line.lstrip().startswith(b"["):
                return _guess_list(path)
            return _guess_object(json_utils.expect(json_utils.parse_json(line), dict, "a document"))
        except UnireError as error:
            if remedy := explain_not_lines(line, path):
                raise UnireError(f"{path}: {remedy}") from None
            raise UnireError(f"{path}, line {number}: {error}") from None
    raise UnireError(f"{path} holds no document")


def _guess_list(path: Path) -> str:
    """Guess by the keys of the first item, if it is within the first bytes. The reader will report errors in it."""
    with explain_read_errors(path), open_binary(path) as file:
        head = codecs.decode(file.read(MAX_HEAD_BYTES), "utf-8-sig", "ignore").lstrip()
    try:
        item, _ = json.JSONDecoder().raw_decode(head[1:].lstrip())
    except (ValueError, RecursionError):
        return "labelstudio" if '"annotations"' in head else "spert"
    if isinstance(item, dict) and "data" in item:
        return "labelstudio"
    if isinstance(item, dict) and "tokens" not in item and _is_known(item):
        raise UnireError(f"{path}: {explain_not_lines(b'[', path)}")
    return "spert"


def _is_known(item: json_utils.Json) -> bool:
    """Whether an object could be a line of a format with one document per line."""
    try:
        _guess_object(item)
    except UnireError:
        return False
    return True


def _guess_object(item: json_utils.Json) -> str:
    keys = item.keys()
    if "sentText" in keys:
        return "unire-released"
    if keys & {"doc_key", "ner"} or (keys & {"sentences", "sentence"} and "text" not in keys):
        return "dygie"
    if "text" in keys:
        if "sentences" in keys and "tokens" not in keys:
            return "unire"
        return "jsonl" if "entities" in keys and not keys & {"tokens", "spans"} else "prodigy"
    raise UnireError(UNKNOWN_FORMAT)
